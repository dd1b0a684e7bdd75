"""How findings about disks speak of room, mounts and evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable

from nodecheck.checks.disk.facts import Filesystem
from nodecheck.model import Evidence
from nodecheck.units import gib

EVIDENCE_AT_MOST = 6
MOUNTS_AT_MOST = 3


def df_percent(share: float) -> str:
    """A used share as df prints it: rounded up."""
    return f"{math.ceil(100 * share - 1e-9)} %"


def free_of(system: Filesystem) -> str:
    """As "57 GiB free of 950 (94 % used) on /"."""
    free, total = gib(system.available_bytes or 0), gib(system.total_bytes or 0)
    if free.split()[1] == total.split()[1]:
        total = total.split()[0]
    used = f" ({df_percent(system.used_share)} used)" if system.used_share is not None else ""
    return f"{free} free of {total}{used} on {system.mount}"


def room_on(system: Filesystem, expected: str, basis: str) -> Evidence:
    """The room on a file system as evidence."""
    source = f"statvfs {system.mount}"
    return Evidence(value=free_of(system), source=source, expected=expected, basis=basis)


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
