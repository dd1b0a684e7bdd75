"""Which CPUs lie near one another, from the round trips of a cache line between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from nodecheck.model import RoundTrip, Struct

FAR_RATIO = 1.8
"""Between one class of round trips and the next. On Zen 4, 49 to 60 ns within a core complex, 316
to 388 ns between two; within a mesh of one die times lie within 1.4 of one another. Threads of one
core: 18 to 40 ns against 64 and more between cores (twice the one-way medians of
github.com/nviennot/core-to-core-latency)."""

PAIRS_MIN = 3
"""Fewer cannot show that some lie nearer than others."""

SIBLINGS_PAIRS_MIN = 3
SIBLINGS_SECONDS = 45e-9
"""Two pairs alone may as well be two core complexes, unless they are nearer than any of those."""


class Split(Struct, frozen=True):
    """CPUs in groups: seconds of a round trip within them and between them, the medians."""

    groups: tuple[tuple[int, ...], ...]
    near_seconds: float
    far_seconds: float

    @property
    def in_pairs(self) -> bool:
        """Each CPU has one that is nearest: they are the threads of a core."""
        sure = len(self.groups) >= SIBLINGS_PAIRS_MIN or self.near_seconds < SIBLINGS_SECONDS
        return sure and all(len(group) == 2 for group in self.groups)


def siblings(trips: Sequence[RoundTrip]) -> Split | None:
    """The pairs of CPUs that are threads of one core each, None where there are no such."""
    nearest = next(_levels(trips), None)
    return nearest if nearest and nearest.in_pairs else None


def split(trips: Sequence[RoundTrip]) -> Split | None:
    """Groups of CPUs that lie near one another, None where all do: dies or sockets, not cores."""
    levels = [level for level in _levels(trips) if not level.in_pairs]
    return levels[-1] if levels else None


def _levels(trips: Sequence[RoundTrip]) -> Iterator[Split]:
    """Every way to group the CPUs, nearest first.

    The times fall into classes where a step between them is FAR_RATIO or more. CPUs are grouped
    along the pairs below it; every pair above it must then lie between two groups.
    """
    times = sorted(trip.seconds for trip in trips if trip.seconds > 0)
    if len(times) < PAIRS_MIN:
        return
    for number, (below, above) in enumerate(pairwise(times), 1):
        if above < FAR_RATIO * below:
            continue
        groups = _grouped(trips, below)
        of = {cpu: group for group in groups for cpu in group}
        far = (trip.cpus for trip in trips if trip.seconds > below)
        if all(of[first] != of[second] for first, second in far):
            yield Split(groups, _median(times[:number]), _median(times[number:]))


def _grouped(trips: Iterable[RoundTrip], near: float) -> tuple[tuple[int, ...], ...]:
    groups: dict[int, set[int]] = {cpu: {cpu} for trip in trips for cpu in trip.cpus}
    for trip in trips:
        first, second = (groups[cpu] for cpu in trip.cpus)
        if trip.seconds <= near and first is not second:
            first |= second
            for cpu in second:
                groups[cpu] = first
    return tuple(sorted({tuple(sorted(group)) for group in groups.values()}))


def _median(ordered: Sequence[float]) -> float:
    return ordered[len(ordered) // 2]
