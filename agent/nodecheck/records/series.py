"""Many snapshots as columns, and one figure of them over time."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

import msgspec

from nodecheck.model import Struct
from nodecheck.records.figures import Figure, Kind, Metric
from nodecheck.records.state import State

HOUR, DAY = 3600, 86_400

Points = Sequence[tuple[int, float]]
"""Times, in seconds since 1970, and values; oldest first."""


class Window(Struct, frozen=True, kw_only=True):
    """Snapshots of one node, oldest first: one entry a snapshot in each of the columns.

    `times` are seconds since 1970 (UTC), `statuses` those of the verdicts. `states` and `layouts`
    hold keys of `state_by_id` and `layout_by_id`; `packed` are the figures of `pack`.
    """

    ids: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    statuses: tuple[str, ...] = ()
    states: tuple[int, ...] = ()
    layouts: tuple[int, ...] = ()
    packed: tuple[bytes, ...] = ()
    state_by_id: dict[int, State] = msgspec.field(default_factory=dict)
    layout_by_id: dict[int, tuple[Metric, ...]] = msgspec.field(default_factory=dict)


class Spell(Struct, frozen=True, kw_only=True):
    """Snapshots in a row that show the same state; times in seconds since 1970 (UTC)."""

    first: int
    last: int
    state: State


class Listed(Struct, frozen=True, kw_only=True):
    """A snapshot in a list; `time` is in seconds since 1970 (UTC)."""

    id: int
    time: int
    status: str
    headline: str


class Series(Struct, frozen=True, kw_only=True):
    """One figure over time, oldest first; `flagged` marks those that prove nothing."""

    metric: Metric
    times: tuple[int, ...]
    values: tuple[float, ...]
    flagged: tuple[bool, ...]

    def points(self) -> Points:
        """All of it."""
        return list(zip(self.times, self.values, strict=True))

    def clean(self) -> list[tuple[int, float]]:
        """The points that prove something."""
        return [
            (time, value)
            for time, value, flagged in zip(self.times, self.values, self.flagged, strict=True)
            if not flagged
        ]


class Bucket(Struct, frozen=True):
    """One or more days of a figure: the median of its points, `since` the first of them."""

    since: int
    value: float
    points: int


class Picked(Struct, frozen=True):
    """Some figures of a layout: `metrics`, and how to find them and their flags in its bytes."""

    metrics: tuple[Metric, ...]
    places: tuple[int, ...]
    doubles: str
    flags_at: int

    def values(self, packed: bytes) -> tuple[float, ...]:
        """The values of `metrics`."""
        return struct.unpack_from(self.doubles, packed)

    def part(self, packed: bytes) -> bytes:
        """Bytes that are the same where the values are."""
        return packed[8 * self.places[0] : 8 * self.places[-1] + 8]

    def flags(self, packed: bytes) -> int:
        """A bit for each figure of the whole layout."""
        return int.from_bytes(packed[self.flags_at :], "little")


def pack(found: Sequence[Figure]) -> tuple[tuple[Metric, ...], bytes]:
    """What the figures are of, and their values: doubles, then a bit each, set where flagged."""
    bits = sum(1 << place for place, each in enumerate(found) if each.flags)
    values = struct.pack(f"<{len(found)}d", *(each.value for each in found))
    return (
        tuple(each.metric for each in found),
        values + bits.to_bytes((len(found) + 7) // 8, "little"),
    )


def packed_bytes(number: int) -> int:
    """How long what `pack` makes of so many figures is."""
    return 8 * number + (number + 7) // 8


def picked(window: Window, kind: Kind) -> dict[int, Picked]:
    """The figures of a kind in each layout that has any; what is not of it is skipped over."""
    found = {}
    for number, layout in window.layout_by_id.items():
        places = tuple(n for n, metric in enumerate(layout) if metric.kind is kind)
        if places:
            doubles = "<" + "".join("d" if m.kind is kind else "8x" for m in layout)
            metrics = tuple(layout[place] for place in places)
            found[number] = Picked(metrics, places, doubles, 8 * len(layout))
    return found


def series_of(window: Window, name: str) -> Series | None:
    """All points of the figure with this name, None where no snapshot has it.

    Where its metric changed, those of the newest.
    """
    places = {
        number: place
        for number, layout in window.layout_by_id.items()
        for place, metric in enumerate(layout)
        if metric.name == name
    }
    rows = [
        (time, layout, packed)
        for time, layout, packed in zip(window.times, window.layouts, window.packed, strict=True)
        if layout in places
    ]
    if not rows:
        return None
    metric = window.layout_by_id[rows[-1][1]][places[rows[-1][1]]]
    points = [
        (time, *_point(packed, places[layout], len(window.layout_by_id[layout])))
        for time, layout, packed in rows
        if window.layout_by_id[layout][places[layout]] == metric
    ]
    times, values, flagged = zip(*points, strict=True)
    return Series(metric=metric, times=times, values=values, flagged=flagged)


def _point(packed: bytes, place: int, figures: int) -> tuple[float, bool]:
    (value,) = struct.unpack_from("<d", packed, 8 * place)
    return value, bool(packed[8 * figures + place // 8] >> place % 8 & 1)


def every_point(window: Window, kind: Kind) -> tuple[Series, ...]:
    """Every figure of a kind that is still there.

    Still there is what was seen in the last day for which there is any figure of the kind.
    """
    layouts = picked(window, kind)
    rows = [row for row, number in enumerate(window.layouts) if number in layouts]
    return _columns(window, layouts, rows)


def hourly(window: Window, kind: Kind) -> tuple[Series, ...]:
    """The same with a point an hour at most.

    An hour is told by its snapshot with most figures that are not flagged, the last of several.
    """
    layouts = picked(window, kind)
    return _columns(window, layouts, _one_an_hour(window, layouts))


def _columns(window: Window, layouts: dict[int, Picked], rows: list[int]) -> tuple[Series, ...]:
    columns: dict[Metric, _Column] = {}
    for number, group in groupby(rows, key=window.layouts.__getitem__):
        run = list(group)
        layout, packed = layouts[number], [window.packed[row] for row in run]
        times, flags = [window.times[row] for row in run], [layout.flags(each) for each in packed]
        values = zip(*map(layout.values, packed), strict=True)
        for metric, place, column in zip(layout.metrics, layout.places, values, strict=True):
            found = columns.setdefault(metric, _Column([], [], []))
            found.times.extend(times)
            found.values.extend(column)
            found.flagged.extend([bool(each >> place & 1) for each in flags])
    newest = window.times[rows[-1]] if rows else 0
    return tuple(
        Series(
            metric=metric,
            times=tuple(found.times),
            values=tuple(found.values),
            flagged=tuple(found.flagged),
        )
        for metric, found in columns.items()
        if found.times[-1] > newest - DAY
    )


class _Column(NamedTuple):
    times: list[int]
    values: list[float]
    flagged: list[bool]


def _one_an_hour(window: Window, layouts: dict[int, Picked]) -> list[int]:
    best: dict[int, tuple[int, int]] = {}
    for row, (time, number, packed) in enumerate(
        zip(window.times, window.layouts, window.packed, strict=True)
    ):
        layout, hour = layouts.get(number), time // HOUR
        if layout is not None:
            clean = len(layout.places) - layout.flags(packed).bit_count()
            if hour not in best or clean >= best[hour][0]:
                best[hour] = clean, row
    return [row for _, row in best.values()]


def stretches(points: Points, width: int) -> list[Points]:
    """The points in stretches of so many seconds, counted back from the newest; none is empty."""
    times = [time for time, _ in points]
    newest = times[-1]
    number = (newest - times[0]) // width + 1
    cuts = [bisect_right(times, newest - width * place) for place in range(number, -1, -1)]
    return [points[start:end] for start, end in pairwise(cuts) if start < end]


def buckets(points: Points, most: int) -> list[Bucket]:
    """Medians over whole days, counted back from the newest point: so many at most.

    What a node does by day and by night is in each of them alike; so those with less than half the
    usual number of points are left out.
    """
    days = 1 + (points[-1][0] - points[0][0]) // DAY
    groups = stretches(points, DAY * -(-days // most))
    usual = median([len(group) for group in groups])
    return [
        Bucket(group[0][0], median([value for _, value in group]), len(group))
        for group in groups
        if 2 * len(group) >= usual
    ]
