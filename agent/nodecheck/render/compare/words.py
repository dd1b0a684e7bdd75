"""What a comparison says, whatever it is printed on, in words."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.checks.cpu.isa import by_importance
from nodecheck.judge.verdict import rate, span
from nodecheck.model import Severity, Strategy
from nodecheck.records.compare.comparison import (
    Certainty,
    Comparison,
    FigurePair,
    FindingPair,
    Outcome,
    Side,
    StrategyPair,
    Value,
)
from nodecheck.records.differences import Difference
from nodecheck.records.figure_names import what
from nodecheck.records.figures import Kind
from nodecheck.render.metrics import amount, between, moment_of
from nodecheck.render.report.terminal import told_points
from nodecheck.render.styles import MARKS, VERDICTS
from nodecheck.units import count, times

SECTIONS = (("MEASURED", Kind.RATE), ("ROOM", Kind.ROOM), ("COUNTERS", Kind.COUNTER))
"""Figures by what they are."""

BETTER, WORSE = "beyond the spread, better", "beyond the spread, worse"

RATES_SHOWN = 16
"""A report has 8 or so."""


def side_words(side: Side) -> tuple[str, ...]:
    """How it was named, when it was made, its status, the node."""
    words = (side.label, when(side), side.status.value.upper(), *side.node, side.cpu)
    return tuple(word for word in words if word)


def when(side: Side) -> str:
    """When a report was made, in UTC."""
    return moment_of(side.time)


def trait_name(each: Difference) -> str:
    """A trait, and which of several."""
    return f"{each.name} {each.where}" if each.where else each.name


def sets(traits: Iterable[Difference]) -> list[tuple[str, str, str]]:
    """Name, gained or lost, and the members that matter; instruction sets are told once."""
    found = [t for t in traits if t.is_set]
    moves = {(t.gained, t.lost): t for t in reversed(found)}
    told = []
    for each in reversed(moves.values()):
        for verb, members in (("gained", each.gained), ("lost", each.lost)):
            if members:
                known, others = by_importance(members)
                more = f"and {count(len(others), 'other')}" if known and others else ""
                told.append((trait_name(each), verb, " ".join([*(known or others), more]).strip()))
    return told


def mark(pair: FindingPair) -> str:
    """How grave a finding is, or was."""
    severity = pair.after or pair.before or Severity.INFO
    return MARKS[severity][0] if severity in MARKS else ""


def finding_words(pair: FindingPair) -> str:
    """What it says, and what its outcome leaves open."""
    if pair.outcome is Outcome.SEVERITY and pair.before and pair.after:
        waived = f" (waived: {pair.waived})" if pair.waived else ""
        return f"{pair.before.value} -> {pair.after.value}: {pair.summary}{waived}"
    if pair.outcome is Outcome.UNSEEN:
        has, lacks = ("B", "A") if pair.after else ("A", "B")
        return f"in {has}; {lacks} could not look: {pair.summary}"
    return pair.summary


def shown(figures: Iterable[FigurePair], kind: Kind) -> list[FigurePair]:
    """What differs; of what was measured all, unless that is a benchmark's long list."""
    found = [f for f in figures if f.metric.kind is kind]
    if kind is Kind.RATE and len(found) <= RATES_SHOWN:
        return found
    return [f for f in found if f.certainty is not Certainty.WITHIN]


def figure_words(pair: FigurePair, value: Value | None, *, spread: bool) -> str:
    """A figure with its unit, and its p10 to p90."""
    if value is None:
        return "-"
    told = amount(pair.metric, value.value)
    if not spread or value.low is None or value.high is None:
        return told
    number, _, unit = told.partition(" ")
    ends = between(pair.metric, value.low, value.high).partition(" ")[0]
    return f"{number} ({ends}) {unit}"


def ratio_words(pair: FigurePair) -> str:
    """B / A; of a counter what was added."""
    if pair.ratio is not None:
        return times(pair.ratio)
    if pair.metric.kind is not Kind.COUNTER or pair.before is None or pair.after is None:
        return "-"
    return f"{pair.after.value - pair.before.value:+,.0f}"


def certainty_words(pair: FigurePair) -> str:
    """What the difference of two figures proves."""
    if pair.certainty is Certainty.ONE_SIDED:
        return "in B alone" if pair.after else "in A alone"
    if pair.metric.kind is not Kind.RATE:
        return ""
    if pair.certainty is Certainty.FLAGGED:
        return f"not comparable: {_flags(pair)}"
    if pair.certainty is Certainty.UNKNOWN:
        return "no spread known"
    return _beyond(pair) if pair.certainty is Certainty.BEYOND else "within noise"


def _flags(pair: FigurePair) -> str:
    """Write "contended in B", "contended in A and B"."""
    sides: dict[str, list[str]] = {}
    for name, value in (("A", pair.before), ("B", pair.after)):
        for flag in value.flags if value else ():
            sides.setdefault(flag, []).append(name)
    return ", ".join(f"{flag} in {' and '.join(names)}" for flag, names in sides.items())


def _beyond(pair: FigurePair) -> str:
    better = pair.metric.more_is_better
    if better is None or pair.before is None or pair.after is None:
        return "beyond the spread"
    return BETTER if (pair.after.value > pair.before.value) == better else WORSE


def reach(strategy: Strategy | None) -> str:
    """What a strategy reaches, setting by setting."""
    if strategy is None:
        return ""
    if points := told_points(strategy):
        return "\n".join(points)
    return span(strategy) if strategy.high is None else f"{span(strategy)} {strategy.unit}"


def ways(made: Comparison) -> list[StrategyPair]:
    """The strategies that moved, where that says anything, and those one side could not judge."""
    return [each for each in made.strategies if not each.same] if made.differs else []


def verdicts(pair: StrategyPair) -> tuple[str, str]:
    """The verdicts of A and B in words; a dash where there is no such strategy."""
    missing = "not judged" if pair.unseen else "-"
    one, other = (VERDICTS[s.viability] if s else missing for s in (pair.before, pair.after))
    return one, other


def limits(pair: StrategyPair) -> list[str]:
    """What limits it: one text where that is the same on both sides, else one for each."""
    ends = {name: s.limit for name, s in (("A", pair.before), ("B", pair.after)) if s}
    if len(set(ends.values())) == 1 and len(ends) == 2:
        return [ends["A"]]
    return [f"{name}: {limit}" for name, limit in ends.items()]


def unchanged(made: Comparison) -> tuple[str, ...]:
    """What is the same on both sides: traits and room, findings, strategies."""
    rooms = [f for f in made.figures if f.metric.kind is Kind.ROOM]
    rates = [f for f in made.figures if f.metric.kind is Kind.RATE]
    quiet = len(rates) - len(shown(rates, Kind.RATE))
    moved = {what(f.metric) for f in rooms if f.certainty is not Certainty.WITHIN}
    free = [name for f in rooms if (name := what(f.metric)) not in moved]
    groups = (
        ("", [*made.unchanged, *free]),
        ("measured: ", [f"{count(quiet, 'figure')} within noise"] if quiet else []),
        ("findings: ", [f.id for f in made.findings if f.outcome is Outcome.SAME]),
        ("strategies: ", [ability(s.after) for s in made.strategies if s.after and s.same]),
    )
    return tuple(f"{name}{', '.join(dict.fromkeys(words))}" for name, words in groups if words)


def ability(strategy: Strategy) -> str:
    """A strategy in brief: its range where one is known, and the verdict."""
    known = f"{rate(strategy)}, " if strategy.high is not None else ""
    return f"{strategy.strategy} ({known}{VERDICTS[strategy.viability]})"


def unread(made: Comparison) -> tuple[str, ...]:
    """What could be looked at on one side alone."""
    sides = ("A", made.before.not_checked, made.after), ("B", made.after.not_checked, made.before)
    return tuple(
        f"in {name}: {words}"
        for name, missing, other in sides
        for words in missing
        if words not in other.not_checked
    )
