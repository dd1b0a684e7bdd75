"""One figure over time in the characters of a terminal, and in words."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from nodecheck.model import Struct
from nodecheck.records.figures import Kind
from nodecheck.records.series import Series
from nodecheck.render import dots
from nodecheck.render.layout import Line, Span
from nodecheck.render.measures import (
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

FLAT_SHARE = 0.02
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
    scale = Scale.of(series.measure, max(abs(box.low), abs(box.high)))
    labels = _labels(series, box, scale)
    left = max(FIGURE_LEAST, len(scale.unit), *(len(label) for _, label in labels))
    columns = max(PLOT_LEAST, min(PLOT_MOST, width - left - 2))
    plot = _Plot(box, columns, unicode=unicode)
    for line in runs(series):
        plot.join(line)
    for time, value in flagged(series):
        plot.mark(time, value)
    beside = {plot.row(value): label for value, label in labels}
    axis = "│" if unicode else "|"
    rows: list[Line] = [
        (Span(f"{beside.get(row, ''):>{left}} {axis}", "dim"), *cells)
        for row, cells in enumerate(plot.lines())
    ]
    unit: list[Line] = [(Span(f"{scale.unit:>{left}}", "dim"),)] if scale.unit else []
    return [*unit, *rows, *_bottom(box, left, columns, unicode=unicode)]


def _labels(series: Series, box: Box, scale: Scale) -> list[tuple[float, str]]:
    """Figures beside the axis, and how they are written."""
    whole = 1.0 if series.measure.kind is Kind.COUNTER else 0.0
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


class _Plot:
    """Dots that lines are drawn in, and characters over them."""

    def __init__(self, box: Box, columns: int, *, unicode: bool) -> None:
        self.box = box
        self.columns = columns
        self.unicode = unicode
        self.wide, self.high = dots.size(columns, ROWS, unicode=unicode)
        self.dots: set[tuple[int, int]] = set()
        self.marks: set[tuple[int, int]] = set()

    def join(self, points: list[tuple[int, float]]) -> None:
        """Draw a line through the points."""
        at = [(self._x(time, self.wide), self._y(value)) for time, value in points]
        self.dots.update(at)
        for (x0, y0), (x1, y1) in set(itertools.pairwise(at)):
            steps = max(abs(x1 - x0), abs(y1 - y0))
            for step in range(1, steps):
                part = step / steps
                self.dots.add((round(x0 + part * (x1 - x0)), round(y0 + part * (y1 - y0))))

    def row(self, value: float) -> int:
        """The row of characters that a figure lies in."""
        return self._y(value) * ROWS // self.high

    def mark(self, time: int, value: float) -> None:
        """Set a mark where no line is."""
        self.marks.add((self._x(time, self.columns), self.row(value)))

    def _x(self, time: int, wide: int) -> int:
        return round(self.box.across(time) * (wide - 1))

    def _y(self, value: float) -> int:
        return round((1 - self.box.up(value)) * (self.high - 1))

    def lines(self) -> list[list[Span]]:
        """The characters of each row, from the top."""
        return [[self._cell(column, row) for column in range(self.columns)] for row in range(ROWS)]

    def _cell(self, column: int, row: int) -> Span:
        if self.unicode:
            bits = sum(bit for dot, bit in dots.in_cell(column, row) if dot in self.dots)
            text = dots.character(bits)
        else:
            text = POINT_MARK if (column, row) in self.dots else " "
        if text == " " and (column, row) in self.marks:
            return Span(FLAG_MARK, FLAGGED)
        return Span(text, LINE)


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
    measure = series.measure
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"One value: {amount(measure, low)}, {moment(series.times[0])}."
    reach, number = between(measure, low, high), f"{len(values):,} values"
    if reach == between(measure, low, low):
        return f"{reach}, {number}."
    return f"{reach}, median {amount(measure, middle)}, {number}."


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
