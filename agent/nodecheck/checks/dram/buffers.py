"""How large a measurement's memory is: beyond the caches, within what memory is free."""

from __future__ import annotations

from nodecheck.model import Struct
from nodecheck.units import MIB

PREFERRED_BYTES = 256 * MIB
"""Beyond it nothing is gained and the spread grows."""

GUEST_TOTAL_BYTES = 512 * MIB
"""A guest is told any cache size; the largest caches that hosts have today are below this."""

TOTAL_CAP_BYTES = 2048 * MIB
MEMORY_SHARE = 0.25
"""No more than this of what is available is taken, for a few seconds."""

CACHE_MULTIPLE = 4
CACHE_MULTIPLE_MIN = 2
STEP_BYTES = 2 * MIB


class Buffers(Struct, frozen=True):
    """The memory of each thread: a source to read and behind it a destination to write to.

    `least_bytes` of a source still lie beyond the caches. `undersized`: less than four times the
    cache, so part of the reads may hit it.
    """

    source_bytes: int
    destination_bytes: int
    least_bytes: int
    undersized: bool


def plan(
    *,
    threads: int,
    cache_share_bytes: float,
    cache_total_bytes: int,
    available_bytes: int,
    guest: bool,
    destination_share: float = 0.0,
) -> Buffers | None:
    """The memory of each of `threads`; None where what is free allows less than twice its cache.

    `cache_share_bytes` is the last level cache that one thread can have for itself; a destination
    is `destination_share` of the source.
    """
    wanted = max(PREFERRED_BYTES, CACHE_MULTIPLE * cache_share_bytes)
    if guest:
        wanted = max(wanted, GUEST_TOTAL_BYTES / threads)
    cap = max(TOTAL_CAP_BYTES, CACHE_MULTIPLE * cache_total_bytes)
    parts = 1 + destination_share
    total = min(wanted * threads, MEMORY_SHARE * available_bytes / parts, cap)
    size = int(total / threads) // (2 * STEP_BYTES) * (2 * STEP_BYTES)
    least = max(2 * STEP_BYTES, int(CACHE_MULTIPLE_MIN * cache_share_bytes))
    if size < least:
        return None
    undersized = size < CACHE_MULTIPLE * cache_share_bytes
    return Buffers(size, int(size * destination_share), least, undersized)
