"""How findings about disks speak of room, mounts and evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable

from nodecheck.checks.disk.facts import Filesystem
from nodecheck.model import Evidence
from nodecheck.units import gib

EVIDENCE_AT_MOST = 6
MOUNTS_AT_MOST = 3
RESERVED_TOLD = 0.1
"""Share of a file system from which what is reserved must be told, or the figures do not add up."""


def df_percent(share: float) -> str:
    """A used share as df prints it: rounded up."""
    return f"{math.ceil(100 * share - 1e-9)} %"


def free_of(system: Filesystem) -> str:
    """As "57 GiB free of 950 GiB (94 % used) on /", and what is reserved where that is much."""
    parts = [f"{df_percent(system.used_share)} used"] if system.used_share is not None else []
    if reserved := _reserved(system):
        parts.append(f"{gib(reserved)} are reserved")
    brackets = f" ({', '.join(parts)})" if parts else ""
    free, total = gib(system.available_bytes or 0), gib(system.total_bytes or 0)
    return f"{free} free of {total}{brackets} on {system.mount}"


def _reserved(system: Filesystem) -> int:
    """Bytes that are free for others only, 0 where they are too few to be told."""
    held = (system.free_bytes or 0) - (system.available_bytes or 0)
    return held if held > RESERVED_TOLD * (system.total_bytes or 0) else 0


def room_on(system: Filesystem, expected: str, basis: str) -> Evidence:
    """The room on a file system as evidence: what statvfs says."""
    value, total = f"f_bavail {gib(system.available_bytes or 0)}", system.total_bytes or 0
    if system.free_bytes is None:
        value += f", total {gib(total)}"
    else:
        value += f", used {gib(max(0, total - system.free_bytes))} of {gib(total)}"
    source = f"statvfs {system.mount}"
    return Evidence(value=value, source=source, expected=expected, basis=basis)


def first_few(pieces: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The first few; a node may have a thousand volumes with the same fault."""
    every = tuple(pieces)
    if len(every) <= EVIDENCE_AT_MOST:
        return every
    rest = Evidence(value=f"and {len(every) - EVIDENCE_AT_MOST} more", source="the same")
    return (*every[:EVIDENCE_AT_MOST], rest)


def names(mounts: Iterable[str]) -> str:
    """The first few mount points, and how many there are besides."""
    every = list(mounts)
    return ", ".join(every[:MOUNTS_AT_MOST]) + (
        f" and {len(every) - MOUNTS_AT_MOST} more" if len(every) > MOUNTS_AT_MOST else ""
    )
