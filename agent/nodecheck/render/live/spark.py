"""One figure over time as a small line in a row of a table."""

from __future__ import annotations

import html
import itertools
import statistics

from nodecheck.records.series import Series
from nodecheck.render.history.drawing import Box, runs
from nodecheck.render.layout import printable

WIDTH, HEIGHT = 120, 24
EDGE = 2
"""Room around the line, which is thick."""

STRETCHES = 60
"""Each gives a point: two units of the width."""


def spark(series: Series, described: str) -> str:
    """SVG to stand in a page; `described` is read to those who do not see it."""
    box = Box.of(series)
    path = " ".join(_path(run, box) for run in runs(series))
    label = html.escape(printable(described))
    return (
        f'<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f'<path d="{path}"/></svg>'
    )


def _path(run: list[tuple[int, float]], box: Box) -> str:
    """A line through the medians of stretches of time; a point alone is a dot."""
    points = [
        _at(statistics.median(t for t, _ in part), statistics.median(v for _, v in part), box)
        for _, group in itertools.groupby(run, key=lambda point: _stretch(point[0], box))
        for part in [list(group)]
    ]
    return f"M{' L'.join(points if len(points) > 1 else 2 * points)}"


def _stretch(time: int, box: Box) -> int:
    return int(box.across(time) * STRETCHES)


def _at(time: float, value: float, box: Box) -> str:
    across = EDGE + box.across(int(time)) * (WIDTH - 2 * EDGE)
    down = EDGE + (1 - box.up(value)) * (HEIGHT - 2 * EDGE)
    return f"{across:.1f} {down:.1f}"
