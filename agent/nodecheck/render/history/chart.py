"""One figure over time as SVG to stand in a page: a line, its spread, and what proves nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

import pygal

from nodecheck.model import Struct
from nodecheck.records.figures import Kind
from nodecheck.records.series import Series
from nodecheck.render.charts import HEIGHT, WIDTH, bare
from nodecheck.render.history.drawing import Box, flagged, runs
from nodecheck.render.metrics import Scale, ticks, time_ticks

BUCKETS = 250
"""Each gives a point of the line, two of the band, and one that is flagged."""

POINTS_MOST = 2 * BUCKETS
"""More would lie on one another, and make a page heavy."""

VALUE_TICKS, TIME_TICKS = 7, 7

_GAP = (None, None)

Points = Sequence[tuple[float, float]]


class _Bucket(Struct, frozen=True):
    """Points of one stretch of time, as one: its middle, lowest, median and highest."""

    time: float
    low: float
    middle: float
    high: float


def has_band(series: Series) -> bool:
    """Whether there are too many points to draw each."""
    return len(series.times) - sum(series.flagged) > POINTS_MOST


def over_time(series: Series, described: str) -> str:
    """A figure over time; of many points the median of each stretch, between lowest and highest.

    `described` is read to those who do not see it.
    """
    box = Box.of(series)
    scale = Scale.of(series.metric, max(abs(box.low), abs(box.high)))
    chart = pygal.XY(
        width=WIDTH,
        height=HEIGHT,
        show_legend=False,
        js=[],
        y_title=scale.unit or None,
        x_title="UTC",
        range=(box.low, box.high),
        xrange=(box.first, box.last),
        show_dots=False,
        allow_interruptions=True,
    )
    whole = 1.0 if series.metric.kind is Kind.COUNTER else 0.0
    values = ticks(box.low / scale.per, box.high / scale.per, VALUE_TICKS, whole)
    chart.y_labels = [{"value": v * scale.per, "label": label} for v, label in values.items()]
    times = time_ticks(box.first, box.last, TIME_TICKS)
    chart.x_labels = [{"value": time, "label": label} for time, label in times.items()]
    lines, bands = _thinned(series, box)
    parts = {"measured": _joined(lines), "flagged": _flagged(series, box), "band": _joined(bands)}
    shown = {name: points for name, points in parts.items() if points}
    for name, points in shown.items():
        dots = {"stroke": False, "show_dots": True, "dots_size": 3} if name == "flagged" else {}
        chart.add(name, points, **dots)
    return bare(chart, described, shown)


def _joined(lines: Iterable[Points]) -> list[tuple[float | None, float | None]]:
    """The lines as one series, parted where nothing is; a point alone is a line to itself."""
    joined: list[tuple[float | None, float | None]] = []
    for line in lines:
        joined += [_GAP, *(line if len(line) > 1 else 2 * [*line])]
    return joined[1:]


def _thinned(series: Series, box: Box) -> tuple[list[Points], list[Points]]:
    """The lines, and the bands around them where there are too many points to draw each."""
    lines: list[Points] = [*runs(series)]
    if not has_band(series):
        return lines, []
    stretches = [list(_buckets(line, box)) for line in lines]
    return (
        [[(b.time, b.middle) for b in stretch] for stretch in stretches],
        [_outline(stretch) for stretch in stretches],
    )


def _outline(stretch: Sequence[_Bucket]) -> Points:
    top = [(b.time, b.high) for b in stretch]
    return [*top, *((b.time, b.low) for b in reversed(stretch)), top[0]]


def _buckets(points: Points, box: Box) -> Iterator[_Bucket]:
    grouped: dict[int, list[tuple[float, float]]] = {}
    for time, value in points:
        place = int((time - box.first) / (box.last - box.first) * BUCKETS)
        grouped.setdefault(place, []).append((time, value))
    for group in grouped.values():
        values = [value for _, value in group]
        middle = (group[0][0] + group[-1][0]) / 2
        yield _Bucket(middle, min(values), statistics.median(values), max(values))


def _flagged(series: Series, box: Box) -> Points:
    points = flagged(series)
    if len(points) <= BUCKETS:
        return points
    return [(bucket.time, bucket.middle) for bucket in _buckets(points, box)]
