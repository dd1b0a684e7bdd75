"""Rates over threads in the characters of a terminal: a curve, or bars where points are few."""

from __future__ import annotations

import itertools
import math

from nodecheck.render import dots
from nodecheck.render.bench_figures import Series, rate
from nodecheck.render.layout import Line, Span, printable

ROWS = 8
PLOT_MOST = 64
AXIS = 8
"""Columns left of the plot: a figure and the axis itself."""

STYLES = ("cyan", "blue", "green", "magenta")
"""Of the series, in turn. Names stand at their ends: colour alone tells nothing apart."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def curves(series: list[Series], width: int, *, unicode: bool) -> list[Line]:
    """A plot of at most `width` columns; threads on a logarithmic axis, rates from zero."""
    threads = sorted({n for each in series for n, _ in each.points})
    top = max(value for each in series for _, value in each.points)
    labels = _labels(series, top)
    columns = min(PLOT_MOST, width - AXIS - max(len(text) for _, text, _ in labels) - 2)
    grid = _Grid(columns, unicode=unicode)
    for number, each in enumerate(series):
        grid.draw([(_across(n, threads), value / top) for n, value in each.points], number, each)
    lines = []
    for row, cells in enumerate(grid.lines()):
        figure = {0: rate(top), ROWS - 1: "0"}.get(row, rate(top / 2) if row == ROWS // 2 else "")
        axis = Span(f"{figure:>{AXIS - 2}} {'│' if unicode else '|'}", "dim")
        label = next((Span(f" {text}", style) for at, text, style in labels if at == row), Span(""))
        lines.append((axis, *cells, label))
    return [*lines, *_bottom(threads, columns, unicode=unicode)]


def _across(threads: int, all_threads: list[int]) -> float:
    """Where a number of threads lies, 0 to 1."""
    low, high = math.log2(all_threads[0]), math.log2(all_threads[-1])
    return (math.log2(threads) - low) / (high - low)


def _labels(series: list[Series], top: float) -> list[tuple[int, str, str]]:
    """Row, text and style of the name beside each curve's end; none covers another."""
    ends = [
        (each.points[-1][1], f"{each.name} {_last(each)}", STYLES[number % 4])
        for number, each in enumerate(series)
    ]
    ends.sort(key=lambda end: -end[0])
    placed: list[tuple[int, str, str]] = []
    for number, (value, text, style) in enumerate(ends):
        earliest = placed[-1][0] + 1 if placed else 0
        latest = ROWS - len(ends) + number
        row = round((1 - value / top) * (ROWS - 1))
        placed.append((min(max(row, earliest), latest), printable(text), style))
    return placed


def _last(series: Series) -> str:
    threads, value = series.points[-1]
    return f"{rate(value)}{'!' if threads in series.disturbed else ''}"


def _bottom(threads: list[int], columns: int, *, unicode: bool) -> list[Line]:
    corner, dash = ("└", "─") if unicode else ("+", "-")
    ticks = [" "] * (columns + 8)
    free = 0
    for n in threads:
        text = str(n)
        start = max(0, round(_across(n, threads) * (columns - 1)) - len(text) + 1)
        if start >= free:
            ticks[start : start + len(text)] = text
            free = start + len(text) + 1
    pad = " " * (AXIS - 1)
    return [
        (Span(f"{pad}{corner}{dash * columns}", "dim"),),
        (Span(f"{pad} {''.join(ticks).rstrip()} threads", "dim"),),
    ]


class _Grid:
    """Dots that lines are drawn in: 2 x 4 a character in braille, one a character in ASCII."""

    def __init__(self, columns: int, *, unicode: bool) -> None:
        self.unicode = unicode
        self.columns = columns
        self.dots: dict[tuple[int, int], int] = {}
        self.marks: dict[tuple[int, int], str] = {}
        self.wide, self.high = dots.size(columns, ROWS, unicode=unicode)

    def draw(self, points: list[tuple[float, float]], number: int, series: Series) -> None:
        """Lines between points, each 0 to 1 from the left and from the bottom."""
        at = [(round(x * (self.wide - 1)), round((1 - y) * (self.high - 1))) for x, y in points]
        for (x0, y0), (x1, y1) in itertools.pairwise(at):
            steps = max(abs(x1 - x0), abs(y1 - y0), 1)
            for step in range(steps + 1):
                share = step / steps
                dot = (round(x0 + share * (x1 - x0)), round(y0 + share * (y1 - y0)))
                self.dots[dot] = number
        for point in at:
            self.dots[point] = number
            self.marks[point] = series.name[:1]

    def lines(self) -> list[list[Span]]:
        """The characters of each row, from the top."""
        cell = self._braille if self.unicode else self._ascii
        return [[cell(column, row) for column in range(self.columns)] for row in range(ROWS)]

    def _braille(self, column: int, row: int) -> Span:
        bits, style = 0, ""
        for dot, bit in dots.in_cell(column, row):
            number = self.dots.get(dot)
            if number is not None:
                bits |= bit
                style = STYLES[number % 4]
        return Span(dots.character(bits), style)

    def _ascii(self, column: int, row: int) -> Span:
        number = self.dots.get((column, row))
        mark = self.marks.get((column, row), "." if number is not None else " ")
        return Span(mark, STYLES[number % 4] if number is not None else "")


def bars(series: list[Series], width: int, *, unicode: bool) -> list[Line]:
    """A bar for each point, as long as its rate, in at most `width` columns."""
    top = max(value for each in series for _, value in each.points)
    names = max(len(each.name) for each in series)
    most = max(len(str(n)) for each in series for n, _ in each.points)
    room = min(PLOT_MOST, width - names - most - 14)
    lines: list[Line] = []
    for number, each in enumerate(series):
        for place, (threads, value) in enumerate(each.points):
            name = "" if place else each.name
            label = f"  {name:{names}}  {threads:>{most}}  "
            bar = _bar(value / top * room, unicode=unicode)
            told = f" {rate(value)}{'!' if threads in each.disturbed else ''}"
            lines.append((Span(label), Span(bar, STYLES[number % 4]), Span(told)))
    return lines


def _bar(length: float, *, unicode: bool) -> str:
    """At least a sliver, so that a slow thing is seen to be there."""
    if not unicode:
        return "#" * max(1, round(length))
    whole, part = divmod(max(1, round(8 * length)), 8)
    return "█" * whole + _EIGHTHS[part].strip()
