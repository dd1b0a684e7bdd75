"""Figures that differ, in words: by how much, the worst first, and which errors rose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nodecheck.records.compare.comparison import Certainty, FigurePair
from nodecheck.records.figure_names import named, what, where
from nodecheck.records.figures import Kind
from nodecheck.units import count, listed, times

NAMED, OTHERS_NAMED = 3, 2
"""Figures of one kind, and others, that are named; the rest are counted."""


def rates(figures: Iterable[FigurePair]) -> str:
    """What was measured beyond the spread: "memory read 14-17 % slower"; empty where nothing was.

    A quantity is told once for all its threads and types.
    """
    alike: dict[tuple[str, str], list[FigurePair]] = {}
    for pair in figures:
        if pair.metric.kind is Kind.RATE and pair.certainty is Certainty.BEYOND and pair.ratio:
            alike.setdefault((_quantity(pair), _verb(pair)), []).append(pair)
    found = sorted(alike.items(), key=lambda each: min(map(_by_harm, each[1])))
    return listed([_rate(*key, pairs) for key, pairs in found], NAMED)


def _quantity(pair: FigurePair) -> str:
    return what(pair.metric).partition(", ")[0]


def _verb(pair: FigurePair) -> str:
    less = (pair.ratio or 1.0) < 1
    if pair.metric.unit == "s":
        return "shorter" if less else "longer"
    return "slower" if less else "faster"


def _by_harm(pair: FigurePair) -> tuple[bool, float]:
    """What is worse before what is better, each by how far it moved."""
    moved = math.log(pair.ratio or 1.0)
    return (moved > 0) is pair.metric.more_is_better, -abs(moved)


def _rate(quantity: str, verb: str, pairs: Sequence[FigurePair]) -> str:
    shares = sorted(100 * abs((pair.ratio or 1.0) - 1) for pair in pairs)
    ends = dict.fromkeys(f"{share:.0f}" for share in (shares[0], shares[-1]))
    name = quantity if len(pairs) > 1 else _name(pairs[0])
    return f"{name} {'-'.join(ends)} % {verb}"


def risen(figures: Iterable[FigurePair]) -> list[str]:
    """Errors that were counted in between: "file system errors rose 0 -> 7 on /"."""
    alike: dict[str, list[FigurePair]] = {}
    for pair in figures:
        if _has_risen(pair):
            alike.setdefault(what(pair.metric), []).append(pair)
    told = [_rise(name, pairs) for name, pairs in alike.items()]
    more = [count(len(told) - NAMED, "other counter") + " rose"] if len(told) > NAMED else []
    return [*told[:NAMED], *more]


def _has_risen(pair: FigurePair) -> bool:
    return (
        pair.metric.kind is Kind.COUNTER
        and pair.before is not None
        and pair.after is not None
        and pair.after.value > pair.before.value
    )


def _rise(name: str, pairs: Sequence[FigurePair]) -> str:
    before = sum(pair.before.value for pair in pairs if pair.before)
    after = sum(pair.after.value for pair in pairs if pair.after)
    places = listed([where(pair.metric) for pair in pairs], NAMED)
    return f"{name} rose {before:,.0f} -> {after:,.0f} on {places}"


def others(figures: Iterable[FigurePair]) -> list[str]:
    """What else was measured, is free or was counted, the largest difference first."""
    found = [f for f in figures if f.certainty in (Certainty.BEYOND, Certainty.UNKNOWN)]
    found.sort(key=lambda f: -abs(math.log(f.ratio)) if f.ratio else -math.inf)
    rest = len(found) - OTHERS_NAMED
    more = [count(rest, "more figure")] if rest > 0 else []
    return [*map(_other, found[:OTHERS_NAMED]), *more]


def _other(pair: FigurePair) -> str:
    if pair.ratio:
        return f"{_name(pair)} {times(pair.ratio)} what it was"
    ends = (f"{side.value:,.0f}" if side else "-" for side in (pair.before, pair.after))
    return f"{_name(pair)} {' -> '.join(ends)}"


def _name(pair: FigurePair) -> str:
    """The quantity, and in brackets which of several: "memory read (8 threads)"."""
    quantity, _, which = named(pair.metric).partition(", ")
    return f"{quantity} ({which})" if which else quantity
