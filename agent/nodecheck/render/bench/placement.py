"""How far apart CPUs lie, from the round trips of a cache line between them."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.model import RoundTrip, Struct
from nodecheck.render.bench.figures import nanoseconds
from nodecheck.report import Report
from nodecheck.units import ranges

GAP = 1.5
"""Round trips with this factor between them are of two kinds. Seen: 49-60 ns within a core complex
and 316-388 ns between two; siblings of a core are a third of the former or less."""

SQUARE_MOST = 16
"""CPUs that each pair is shown of."""


class Band(Struct, frozen=True):
    """Round trips of one kind, and the groups of CPUs that those up to it join."""

    low_seconds: float
    high_seconds: float
    pairs: int
    groups: tuple[tuple[int, ...], ...]


def bands(trips: Iterable[RoundTrip]) -> list[Band]:
    """The kinds, nearest first."""
    ordered = sorted(trips, key=lambda trip: trip.seconds)
    found: list[Band] = []
    start = 0
    for end in range(1, len(ordered) + 1):
        if end < len(ordered) and ordered[end].seconds <= GAP * ordered[end - 1].seconds:
            continue
        low, high = ordered[start].seconds, ordered[end - 1].seconds
        found.append(Band(low, high, end - start, groups(ordered[:end])))
        start = end
    return found


def groups(trips: Iterable[RoundTrip]) -> tuple[tuple[int, ...], ...]:
    """CPUs that the pairs join, directly or through others."""
    joined: dict[int, set[int]] = {}
    for trip in trips:
        first, second = (joined.setdefault(cpu, {cpu}) for cpu in trip.cpus)
        if first is not second:
            first |= second
            joined.update(dict.fromkeys(second, first))
    different = {id(group): group for group in joined.values()}
    return tuple(sorted(tuple(sorted(group)) for group in different.values()))


def placement(report: Report, what: tuple[str, ...]) -> list[Band]:
    """How far apart the CPUs lie, where that was asked for: else only a few pairs were probed."""
    return bands(report.facts.dram.round_trips) if "placement" in what else []


def group_words(band: Band, before: Band | None) -> str:
    """Which CPUs such a round trip lies between."""
    if before is not None and band.groups == before.groups:
        return "other pairs of the same CPUs"
    if len(band.groups) == 1:
        return "between these groups" if before else f"among CPUs {ranges(band.groups[0])}"
    shown = "; ".join(ranges(group) for group in band.groups[:4])
    more = f"; {len(band.groups) - 4} more" if len(band.groups) > 4 else ""
    return f"within {len(band.groups)} groups of CPUs: {shown}{more}"


def band_times(band: Band) -> str:
    """Write 49-60 ns."""
    low, high = nanoseconds(band.low_seconds), nanoseconds(band.high_seconds)
    return f"{low} ns" if low == high else f"{low}-{high} ns"


def sampled(report: Report) -> str:
    """How many pairs were probed, where not all were."""
    dram = report.facts.dram
    probed = len(dram.round_trips)
    if probed >= dram.pairs:
        return ""
    return f"sampled: {probed} of {dram.pairs} pairs, so that groups may be larger than shown"


class Square(Struct, frozen=True):
    """The round trip of each CPU (row) with those before it: nanoseconds, and which band."""

    cpus: tuple[int, ...]
    cells: dict[tuple[int, int], tuple[str, int]]


def square(report: Report, found: list[Band]) -> Square | None:
    """None where the CPUs are many, or two."""
    trips = report.facts.dram.round_trips
    cpus = tuple(sorted({cpu for trip in trips for cpu in trip.cpus}))
    if not 2 < len(cpus) <= SQUARE_MOST:
        return None
    cells = {
        (max(t.cpus), min(t.cpus)): (
            nanoseconds(t.seconds),
            next(n for n, band in enumerate(found) if t.seconds <= band.high_seconds),
        )
        for t in trips
    }
    return Square(cpus, cells)
