"""The figures of two reports in pairs, and what their differences prove."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.records.compare.comparison import Certainty, FigurePair, Value
from nodecheck.records.figures import REPEATS_SHARE, Figure, Kind, figures
from nodecheck.report import Report

ROOM_SHARE = 0.02
"""What logs and caches move on a disk. Source: nodecheck's own judgement."""


def pairs(one: Report, other: Report) -> Iterator[FigurePair]:
    """All figures of both that do not change by themselves."""
    earlier, later = _by_name(one), _by_name(other)
    for name in dict.fromkeys([*earlier, *later]):
        before, after = earlier.get(name), later.get(name)
        metric = (before or later[name]).metric
        yield FigurePair(
            metric=metric,
            before=_value(before),
            after=_value(after),
            ratio=_ratio(before, after) if metric.kind is not Kind.COUNTER else None,
            certainty=_certainty(before, after),
        )


def _by_name(report: Report) -> dict[str, Figure]:
    return {f.metric.name: f for f in figures(report) if f.metric.kind is not Kind.MOMENTARY}


def _value(figure: Figure | None) -> Value | None:
    if figure is None:
        return None
    return Value(value=figure.value, low=figure.low, high=figure.high, flags=figure.flags)


def _ratio(before: Figure | None, after: Figure | None) -> float | None:
    if before is None or after is None or before.value <= 0:
        return None
    return after.value / before.value


def _certainty(before: Figure | None, after: Figure | None) -> Certainty:
    if before is None or after is None:
        return Certainty.ONE_SIDED
    kind = before.metric.kind
    if kind is not Kind.RATE:
        share = 0.0 if kind is Kind.COUNTER else ROOM_SHARE
        moved = differ(before.value, after.value, share)
        return Certainty.BEYOND if moved else Certainty.WITHIN
    if before.flags or after.flags:
        return Certainty.FLAGGED
    if not differ(before.value, after.value, REPEATS_SHARE):
        return Certainty.WITHIN
    return _by_spread(before, after)


def _by_spread(before: Figure, after: Figure) -> Certainty:
    lower, upper = sorted((before, after), key=lambda figure: figure.value)
    if lower.high is None or upper.low is None:
        return Certainty.UNKNOWN
    return Certainty.BEYOND if lower.high < upper.low else Certainty.WITHIN


def differ(one: float, other: float, share: float) -> bool:
    """Whether two numbers lie further apart than a share of the larger."""
    return abs(one - other) > share * max(abs(one), abs(other))
