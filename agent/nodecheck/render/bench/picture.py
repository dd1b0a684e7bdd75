"""Rates over threads in the characters of a terminal: a curve, or bars where points are few."""

from __future__ import annotations

import math

from nodecheck.render.bench.figures import Series, rate
from nodecheck.render.dots import Canvas
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
    canvas = Canvas(columns, ROWS, AXIS - 2, unicode=unicode)
    for number, each in enumerate(series):
        points = [(_across(n, threads), value / top) for n, value in each.points]
        canvas.line(points, Span(".", STYLES[number % 4]))
        if not unicode:
            for point in points:
                canvas.mark(point, Span(each.name[:1], STYLES[number % 4]))
    beside = {0: rate(top), ROWS // 2: rate(top / 2), ROWS - 1: "0"}
    names = {row: Span(f" {text}", style) for row, text, style in labels}
    lines = canvas.lines(beside)
    ticks = [(_across(n, threads), str(n)) for n in threads]
    return [
        *((*line, names.get(row, Span(""))) for row, line in enumerate(lines)),
        *canvas.below(ticks, "threads"),
    ]


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
