"""Which hardware a node is, in words that are the same on like nodes."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.records.fleet.groups import groups, words
from nodecheck.records.fleet.nodes import node
from nodecheck.report import Report
from nodecheck.units import GIB

EIGHTHS = 8
"""RAM is rounded up to eighths of a power of two: sizes that modules make lie on them, and what
firmware and kernel keep of them is less than an eighth. A node that lost one of many modules so
stays among its like, where it stands out."""


def hardware(report: Report) -> str:
    """`guest, Common KVM processor, 8 CPUs, 144 GiB RAM, 3x NVIDIA L40`."""
    ((found, _),) = groups([node(report, "")])
    size = None if found.ram_bytes is None else rounded(found.ram_bytes)
    return ", ".join(words(replace(found, ram_bytes=size)))


def rounded(size_bytes: int) -> int:
    """A size of RAM as its modules make it, in bytes."""
    power = 1 << max(0, size_bytes.bit_length() - 1)
    step = max(1, power // EIGHTHS)
    return -(-size_bytes // step) * step if size_bytes >= GIB else size_bytes
