"""One sentence on a comparison: what changed on the node, and what that did to serving."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.checks.cpu.isa import by_importance
from nodecheck.judge.verdict import rate, span
from nodecheck.model import Severity, Strategy
from nodecheck.records.compare import figure_words
from nodecheck.records.compare.comparison import (
    FigurePair,
    FindingPair,
    Outcome,
    StrategyPair,
)
from nodecheck.records.differences import Difference
from nodecheck.records.figures import Kind
from nodecheck.units import count, listed

SAME = "No difference beyond noise."
AGAIN = "Nothing else changed: measure again before you act on it."
"""A neighbour on the host slows a node down for minutes, and leaves no other trace."""

NAMED = 3
"""Things of one kind that the sentence names; the rest are counted."""

_WITH_POINT = {"sse4_1": "SSE4.1", "sse4_2": "SSE4.2"}
_CPU = ("CPU", "x86-64 level", "CPU flags", "instruction sets")


def headline(
    traits: Sequence[Difference],
    findings: Sequence[FindingPair],
    figures: Sequence[FigurePair],
    strategies: Sequence[StrategyPair],
    *,
    guest: bool,
) -> tuple[str, bool]:
    """The sentence, and whether anything differs.

    What was measured or counted, and what moved, stands beside what changed: that one made the
    other is not said.
    """
    cpu = _cpu(traits, guest=guest)
    others = [each for each in traits if not cpu or each.name not in _CPU]
    infos = [each for each in findings if {each.before, each.after} <= {None, Severity.INFO}]
    grave = [f for f in findings if f not in infos and not (cpu and _is_cured(f))]
    node = [*cpu, *_others(others), *_findings(grave)]
    rates = figure_words.rates(figures)
    measured = [*filter(None, [rates]), *figure_words.risen(figures)]
    changed = [*node, *measured] or figure_words.others(figures) or _findings(infos)
    moved = [each for each in strategies if each.moved]
    disturbed = _disturbed(figures) if moved else ""
    if not changed and (disturbed or not moved):
        return f"{SAME} Memory was {disturbed}." if disturbed else SAME, False
    if moved and (side := measured_alone(figures)):
        changed.append(f"memory was measured in {side} alone")
    if disturbed:
        changed.append(f"memory was {disturbed}")
    told = [f"{'; '.join(filter(None, (*changed, _ways(moved))))}."]
    if rates and not node:
        told.append(AGAIN)
    if strategies and all(each.same for each in strategies):
        told.append("What the node can do is unchanged.")
    elif cpu and (alone := _unmoved(strategies, "gpu-resident")):
        told.append(f"gpu-resident is unchanged, {rate(alone)}.")
    return " ".join(told), True


def _disturbed(figures: Sequence[FigurePair]) -> str:
    """Where memory was so, read on most threads: that proves nothing, and estimates rest on it."""
    reads = {f.metric.name.removeprefix("dram_read@"): f for f in figures}
    by_threads = sorted((int(name), f) for name, f in reads.items() if name.isdecimal())
    before = [f.before for _, f in by_threads if f.before]
    after = [f.after for _, f in by_threads if f.after]
    sides = [name for name, found in (("A", before), ("B", after)) if found and found[-1].flags]
    return f"disturbed in {listed(sides)}: what rests on it is not comparable" if sides else ""


def measured_alone(figures: Sequence[FigurePair]) -> str | None:
    """The side that alone holds measured rates: estimates rest on them there."""
    rates = [each for each in figures if each.metric.kind is Kind.RATE]
    for name, other in (("A", [r.after for r in rates]), ("B", [r.before for r in rates])):
        if rates and not any(other):
            return name
    return None


def _cpu(traits: Sequence[Difference], *, guest: bool) -> list[str]:
    by_name = {each.name: each for each in traits}
    brand = by_name.get("CPU")
    sets = by_name.get("instruction sets") or by_name.get("CPU flags")
    moves = [
        f"{_sets(flags)} {verb}"
        for flags, verb in ((sets.gained, "gained"), (sets.lost, "lost"))
        if flags
    ] if sets else []  # fmt: skip
    if not moves and brand:
        moves = [f"{brand.before or '-'} -> {brand.after or '-'}"]
    what = ("CPU type" if guest else "CPU") if brand else "CPU flags"
    return [f"{what} changed: {', '.join(moves)}"] if moves else []


def _sets(flags: Sequence[str]) -> str:
    """Those that matter, or how many they are where none does."""
    known = by_importance(flags)[0]
    if not known:
        return str(len(flags))
    return listed([_WITH_POINT.get(name, name.upper()) for name in known], NAMED)


def _others(traits: Sequence[Difference]) -> list[str]:
    """What else the node is; what several cards or slots share is told once."""
    places: dict[str, list[str]] = {}
    for each in traits:
        places.setdefault(_trait(each), []).extend(filter(None, [each.where]))
    told = [
        f"{words}: {listed(where, NAMED)}" if where else words for words, where in places.items()
    ]
    more = [count(len(told) - NAMED, "other difference")] if len(told) > NAMED else []
    return [*told[:NAMED], *more]


def _trait(each: Difference) -> str:
    if each.is_set:
        return f"{each.name} changed"
    if each.before is not None and each.after is not None:
        return f"{each.name} {each.before} -> {each.after}"
    verb = "gone" if each.after is None else "new"
    return (
        f"{each.name} {verb}" if each.where else f"{each.name} {verb}: {each.before or each.after}"
    )


def _is_cured(finding: FindingPair) -> bool:
    """Whether it went with the CPU that it was about."""
    return finding.outcome is Outcome.CLEARED and finding.id.startswith("cpu.")


def _findings(findings: Sequence[FindingPair]) -> list[str]:
    """Those that changed, came or went."""
    told = [
        f"{f.id} {f.before.value} -> {f.after.value}"
        for f in findings
        if f.outcome is Outcome.SEVERITY and f.before and f.after
    ]
    for outcome in (Outcome.APPEARED, Outcome.CLEARED):
        ids = list(dict.fromkeys(f.id for f in findings if f.outcome is outcome))
        told += [f"{listed(ids, NAMED)} {outcome.value}"] if ids else []
    return told


def _ways(moved: Sequence[StrategyPair]) -> str:
    told = [_way(each) for each in moved[:NAMED]]
    more = [f"{len(moved) - NAMED} more"] if len(moved) > NAMED else []
    return ", ".join([*told, *more])


def _way(pair: StrategyPair) -> str:
    """How a strategy moved: its verdict where that is another, else its range."""
    before, after = pair.before, pair.after
    if before is None or after is None:
        return f"{pair.strategy} {'gone' if after is None else 'new'}"
    if before.viability is not after.viability:
        return f"{pair.strategy} {_verdict(before)} -> {_verdict(after)}"
    if before.high is None or after.high is None:
        return f"{pair.strategy} {_known(before)} -> {_known(after)}"
    return f"{pair.strategy} {span(before)} -> {span(after)} {_unit(after)}"


def _known(strategy: Strategy) -> str:
    return "not known" if strategy.high is None else f"{span(strategy)} {_unit(strategy)}"


def _unit(strategy: Strategy) -> str:
    """Without what follows it: "s to fetch 10k tokens"."""
    return strategy.unit.partition(" ")[0]


def _verdict(strategy: Strategy) -> str:
    return strategy.viability.value.replace("_", " ")


def _unmoved(strategies: Sequence[StrategyPair], name: str) -> Strategy | None:
    """A strategy that is as it was, where a range of it is known."""
    return next(
        (s.after for s in strategies if s.strategy == name and s.same and s.after
         and s.after.high is not None),
        None,
    )  # fmt: skip
