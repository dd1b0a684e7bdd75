"""Ways to serve as a page shows them: rows of a table, and the speeds as bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nodecheck.judge.verdict import span
from nodecheck.judge.ways.answers import TOKENS
from nodecheck.model import Point, Strategy, Viability
from nodecheck.render import charts
from nodecheck.render.plan.curve import SLOWEST, Scale
from nodecheck.render.plan.terminal import lever_words
from nodecheck.render.report.terminal import POINTS_SHOWN, reached, told_points
from nodecheck.render.styles import VERDICTS

CLASSES = {
    Viability.VIABLE: "ok",
    Viability.MARGINAL: "warning",
    Viability.NOT_VIABLE: "critical",
    Viability.UNKNOWN: "unknown",
}
"""How a page colours a verdict."""


def row(each: Strategy) -> dict[str, Any]:
    """What the macro `strategies` shows of one."""
    return {
        "name": each.strategy,
        "reach": _reach(each),
        "limit": each.limit,
        "verdict": VERDICTS[each.viability],
        "class": CLASSES[each.viability],
        "basis": each.basis,
        "levers": lever_words(each),
    }


def _reach(each: Strategy) -> str:
    if points := told_points(each):
        return f"{'; '.join(points)} {each.unit}"
    return span(each) if each.high is None else f"{span(each)} {each.unit}"


def speeds(strategies: Iterable[Strategy]) -> str:
    """A chart of all that have one; nothing where none has."""
    bars = [bar for each in strategies for bar in _bars(each)]
    if not bars:
        return ""
    said = "; ".join(f"{bar.name}: {bar.words}" for bar in bars)
    described = f"Tokens a second, estimated, on a logarithmic axis. {said}"
    return charts.ranges(bars, _scale(bars), described)


def _bars(each: Strategy) -> Iterator[charts.Bar]:
    """One for each of its settings, where it has some."""
    if each.unit != TOKENS or not each.high:
        return
    whole = Point(setting="", low=each.low, high=each.high)
    for point in each.points[:POINTS_SHOWN] or (whole,):
        yield charts.Bar(
            name=f"{each.strategy} {point.setting}".strip(),
            low=point.high if point.low is None else point.low,
            high=point.high,
            words=f"{reached(point)} ({VERDICTS[each.viability]})",
            colour=CLASSES[each.viability],
        )


def _scale(bars: list[charts.Bar]) -> Scale:
    """From a tenth of the slowest to the fastest, or ten times the slowest."""
    slowest = max(min(bar.low for bar in bars), 10 * SLOWEST)
    most = max(*(bar.high for bar in bars), 10 * slowest)
    return Scale(slowest / 10, most, logarithmic=True)
