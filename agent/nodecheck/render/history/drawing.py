"""One figure over time in the characters of a terminal, and in words."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from nodecheck.model import Struct
from nodecheck.records.figures import Kind
from nodecheck.records.series import Series
from nodecheck.render.dots import Canvas, Place
from nodecheck.render.layout import Line, Span
from nodecheck.render.metrics import (
    Scale,
    amount,
    between,
    duration,
    moment,
    ticks,
    time_ticks,
)

ROWS = 10
TICKS_MOST = 8
PLOT_MOST = 110
PLOT_LEAST = 16
FIGURE_LEAST = 6
"""Columns left of the axis."""

TICK_COLUMNS = 12
"""Columns that a time below the plot takes with its distance to the next."""

GAP_INTERVALS = 3
"""Usual distances between snapshots from which on a time without any is a gap.
Source: nodecheck's own judgement: one missed snapshot is no news."""

FLAT_SHARE = 0.05
"""Least height of the axis as a share of the figures: less would draw noise as mountains.
Source: nodecheck's own judgement."""

LINE, FLAGGED = "cyan", "yellow"
FLAG_MARK, POINT_MARK = "x", "*"
FLAG_WORDS = "contended, unsteady or bimodal"


class Box(Struct, frozen=True):
    """The times and the figures that an axis reaches from and to."""

    first: int
    last: int
    low: float
    high: float

    @classmethod
    def of(cls, series: Series) -> Box:
        """All of the points, with some height where they are alike."""
        low, high = min(series.values), max(series.values)
        missing = max(abs(low), abs(high)) * FLAT_SHARE - (high - low)
        if missing > 0 or low == high:
            room = max(missing, 0) / 2 or 0.5
            low, high = (low - room if low < 0 or low >= room else 0.0), high + room
        first, last = series.times[0], series.times[-1]
        return cls(first, max(last, first + 1), low, high)

    def across(self, time: int) -> float:
        """Where a time lies, 0 to 1 from the left."""
        return (time - self.first) / (self.last - self.first)

    def up(self, value: float) -> float:
        """Where a figure lies, 0 to 1 from the bottom."""
        return (value - self.low) / (self.high - self.low)

    def place(self, time: int, value: float) -> Place:
        """Where a point lies."""
        return self.across(time), self.up(value)


def gap_seconds(series: Series) -> float:
    """The least time between two points that is a gap, not just the next snapshot."""
    steps = [after - before for before, after in itertools.pairwise(series.times)]
    return GAP_INTERVALS * statistics.median(steps) if steps else 0.0


def runs(series: Series) -> Iterator[list[tuple[int, float]]]:
    """The points that count, as lines that no gap parts."""
    least = gap_seconds(series)
    line: list[tuple[int, float]] = []
    before = None
    for time, value, flagged in zip(series.times, series.values, series.flagged, strict=True):
        if line and before is not None and time - before > least:
            yield line
            line = []
        before = time
        if not flagged:
            line.append((time, value))
    if line:
        yield line


def flagged(series: Series) -> list[tuple[int, float]]:
    """The points that prove nothing."""
    rows = zip(series.times, series.values, series.flagged, strict=True)
    return [(time, value) for time, value, flag in rows if flag]


def draw(series: Series, width: int, *, unicode: bool) -> list[Line]:
    """A plot of at most `width` columns; nothing where there is no second point."""
    if len(series.times) < 2:
        return []
    box = Box.of(series)
    scale = Scale.of(series.metric, max(abs(box.low), abs(box.high)))
    labels = _labels(series, box, scale)
    left = max(FIGURE_LEAST, len(scale.unit), *(len(label) for _, label in labels))
    columns = max(PLOT_LEAST, min(PLOT_MOST, width - left - 2))
    canvas = Canvas(columns, ROWS, left, unicode=unicode)
    for line in runs(series):
        canvas.line((box.place(*point) for point in line), Span(POINT_MARK, LINE))
    for point in flagged(series):
        canvas.mark(box.place(*point), Span(FLAG_MARK, FLAGGED), over=False)
    beside = {canvas.row(box.up(value)): label for value, label in labels}
    unit: list[Line] = [(Span(f"{scale.unit:>{left}}", "dim"),)] if scale.unit else []
    return [*unit, *canvas.lines(beside), *_bottom(box, left, columns, unicode=unicode)]


def _labels(series: Series, box: Box, scale: Scale) -> list[tuple[float, str]]:
    """Figures beside the axis, and how they are written."""
    whole = 1.0 if series.metric.kind is Kind.COUNTER else 0.0
    shown = ticks(box.low / scale.per, box.high / scale.per, TICKS_MOST, whole)
    return [(value * scale.per, label) for value, label in shown.items()]


def _bottom(box: Box, left: int, columns: int, *, unicode: bool) -> list[Line]:
    corner, dash, tick = "└─┴" if unicode else "+-+"
    texts = [" "] * columns
    rule = [dash] * columns
    free = 0
    for time, label in time_ticks(box.first, box.last, max(2, columns // TICK_COLUMNS)).items():
        at = round(box.across(time) * (columns - 1))
        rule[at] = tick
        start = max(0, min(at - len(label) // 2, columns - len(label)))
        if start >= free:
            texts[start : start + len(label)] = label
            free = start + len(label) + 1
    return [
        (Span(f"{'':{left}} {corner}{''.join(rule)}", "dim"),),
        (Span(f"{'UTC':>{left}}  {''.join(texts).rstrip()}", "dim"),),
    ]


def summary(series: Series, drawn_as: str = FLAG_MARK) -> list[str]:
    """What the drawing shows, in sentences: the spread, what is flagged, where time is missing."""
    doubtful = len(flagged(series))
    known = [v for v, flag in zip(series.values, series.flagged, strict=True) if not flag]
    said = [_spread(series, known or list(series.values))]
    if not known:
        said.append(f"All of it is flagged ({FLAG_WORDS}) and proves nothing.")
    elif doubtful:
        verb = "is" if doubtful == 1 else "are"
        rest = f"drawn as {drawn_as} and left out of these"
        said.append(f"{doubtful} flagged ({FLAG_WORDS}) {verb} {rest}.")
    return [*said, *_gaps(series)]


def _spread(series: Series, values: list[float]) -> str:
    metric = series.metric
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"One value: {amount(metric, low)}, {moment(series.times[0])}."
    reach, number = between(metric, low, high), f"{len(values):,} values"
    if reach == between(metric, low, low):
        return f"{reach}, {number}."
    return f"{reach}, median {amount(metric, middle)}, {number}."


def _gaps(series: Series) -> list[str]:
    least = gap_seconds(series)
    pairs = itertools.pairwise(series.times)
    gaps = [(after - before, before, after) for before, after in pairs if after - before > least]
    if not gaps or len(series.times) < 3:
        return []
    length, before, after = max(gaps)
    none = f"{duration(length)} from {moment(before)} to {moment(after)}"
    if len(gaps) == 1:
        return [f"Nothing was recorded for {none}."]
    return [f"{len(gaps)} times nothing was recorded, the longest {none}."]
