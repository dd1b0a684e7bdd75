"""How far apart CPUs lie: the time of a cache line between them, which no topology hides."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence

from nodecheck.machine import kernels
from nodecheck.model import RoundTrip

ALONG_MOST = 28
"""Pairs that are probed around a measurement, each well under a millisecond: all of eight CPUs."""

PASSES = 5


def along(cpus: Sequence[int]) -> tuple[RoundTrip, ...]:
    """Between all pairs; where they are many, from the first CPU to others, evenly chosen."""
    pairs = list(itertools.combinations(cpus, 2))
    if len(pairs) > ALONG_MOST:
        others = cpus[1:]
        pairs = [(cpus[0], other) for other in others[:: -(-len(others) // ALONG_MOST)]]
    return tuple(probe(pairs))


def everywhere(cpus: Sequence[int], seconds: float) -> tuple[RoundTrip, ...]:
    """Between every pair, those that are left out evenly spread where time does not allow all."""
    pairs = list(itertools.combinations(cpus, 2))
    end = time.monotonic() + seconds
    return tuple(probe(_strided(pairs), end))


def _strided(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """All pairs, the first of them spread over the whole list."""
    stride = max(1, int(len(pairs) ** 0.5))
    return (pair for start in range(stride) for pair in pairs[start::stride])


def probe(pairs: Iterable[tuple[int, int]], end: float | None = None) -> Iterator[RoundTrip]:
    """The round trip of each pair until the time is up. OSError where a CPU is not ours.

    The fastest pass tells where the CPUs lie; others tell of what else ran on them.
    """
    for first, second in pairs:
        if end is not None and time.monotonic() >= end:
            return
        seconds = min(kernels.ping_pong(first, second, PASSES))
        yield RoundTrip(cpus=(first, second), seconds=seconds)
