"""Reads how CPUs and memory lie on NUMA nodes."""

from __future__ import annotations

import re

from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.machine.reader import CPU_LIMIT, Reader, parse_list
from nodecheck.model import Reason

_NODES = "/sys/devices/system/node"
_NODES_MOST = 1024
"""The kernel's largest MAX_NUMNODES."""

_NAME = re.compile(r"node(\d{1,5})")
_MEMORY = re.compile(r"^Node\s+\d+\s+MemTotal:\s+(\d{1,16}) kB\s*$", re.MULTILINE)


def probe(reader: Reader) -> NumaFacts:
    """Every `node<N>` directory, and the kernel's own lists of them."""
    found = [_NAME.fullmatch(name) for name in reader.names(_NODES, "nodes")]
    ids = sorted(int(match[1]) for match in found if match)[:_NODES_MOST]
    balancing = reader.integer("/proc/sys/kernel/numa_balancing", None)
    return NumaFacts(
        nodes=tuple(_node(reader, number) for number in ids),
        online=reader.numbers(f"{_NODES}/online", None),
        has_memory=reader.numbers(f"{_NODES}/has_memory", None),
        has_cpu=reader.numbers(f"{_NODES}/has_cpu", None),
        balancing=None if balancing is None else balancing > 0,
    )


def _node(reader: Reader, number: int) -> NumaNode:
    path = f"{_NODES}/node{number}"
    return NumaNode(
        id=number,
        cpus=_cpus(reader, path),
        memory_bytes=_memory_bytes(reader, path),
        side_cache=bool(reader.names(f"{path}/memory_side_cache")),
        distances=_distances(reader, path),
    )


def _cpus(reader: Reader, path: str) -> tuple[int, ...] | None:
    """The node's CPUs from cpulist, else from cpumap; None where neither can be read."""
    text = reader.text(f"{path}/cpulist", None)
    listed = None
    if text is not None:
        try:
            listed = parse_list(text)
        except ValueError:
            reader.gap(
                "nodes", Reason.FAILED, f"{path}/cpulist: {text[:40]!r} is no list of numbers"
            )
    if listed:
        return listed
    # an empty list is a node without CPUs, unless the mask says that the list was cut off
    mask = reader.text(f"{path}/cpumap", "nodes" if listed is None else None)
    masked = parse_mask(mask) if mask else None
    return masked if masked or listed is None else listed


def parse_mask(text: str) -> tuple[int, ...] | None:
    """A bit mask of hexadecimal 32-bit words, the highest first; None for anything else."""
    words = text.strip().split(",")
    if len(words) * 32 > CPU_LIMIT + 32 or not all(
        re.fullmatch("[0-9a-fA-F]{1,8}", w) for w in words
    ):
        return None
    bits = int("".join(word.zfill(8) for word in words), 16)
    return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)


def _memory_bytes(reader: Reader, path: str) -> int | None:
    """MemTotal of the node; a file without it is not 0."""
    text = reader.text(f"{path}/meminfo", "nodes")
    found = _MEMORY.search(text or "")
    if text is not None and found is None:
        reader.gap("nodes", Reason.FAILED, f"{path}/meminfo: no MemTotal")
    return int(found[1]) << 10 if found else None


def _distances(reader: Reader, path: str) -> tuple[int, ...]:
    """The ACPI distances to all online nodes, 10 is local; () where the file is damaged."""
    words = (reader.text(f"{path}/distance", None) or "").split()
    believable = all(w.isascii() and w.isdigit() and len(w) <= 3 for w in words)
    return tuple(int(word) for word in words) if believable else ()
