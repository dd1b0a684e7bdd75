"""A comparison as a page that needs nothing else: no script, no address, no font of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from nodecheck.model import Severity, Strategy
from nodecheck.records.compare.comparison import (
    Comparison,
    FigurePair,
    FindingPair,
    Outcome,
    StrategyPair,
)
from nodecheck.records.figure_names import named
from nodecheck.render import speeds
from nodecheck.render.compare.words import (
    BETTER,
    SECTIONS,
    WORSE,
    certainty_words,
    figure_words,
    finding_words,
    limits,
    ratio_words,
    reach,
    sets,
    shown,
    side_words,
    trait_name,
    unchanged,
    unread,
    verdicts,
    ways,
)
from nodecheck.render.page import page_maker
from nodecheck.render.styles import MARKS

OUTCOMES = {Outcome.CLEARED: "ok", Outcome.UNSEEN: "unknown"}
"""Classes of what became of a finding; any other outcome is as grave as the finding."""

TONES = {BETTER: "ok", WORSE: "critical"}


def page() -> Callable[[Comparison], str]:
    """Makes the page of a comparison."""
    return page_maker("compare.html.j2", _content)


def _content(made: Comparison) -> dict[str, Any]:
    told = ways(made)
    return {
        "name": f"{made.before.label} and {made.after.label}",
        "title": [f"nodecheck {made.nodecheck_version}", "A before, B after, both judged anew"],
        "sides": [("A", side_words(made.before)), ("B", side_words(made.after))],
        "headline": made.headline,
        "notes": made.notes,
        "values": [(trait_name(t), t.before, t.after) for t in made.traits if not t.is_set],
        "sets": sets(made.traits),
        "findings": [_finding(f) for f in made.findings if f.outcome is not Outcome.SAME],
        "figures": [
            _section(title, rows) for title, kind in SECTIONS if (rows := shown(made.figures, kind))
        ],
        "workload": made.after.workload,
        "speeds": speeds.speeds(_both(made.strategies)) if told else "",
        "strategies": [_strategy(each) for each in told],
        "unchanged": unchanged(made),
        "unread": unread(made),
    }


def _finding(pair: FindingPair) -> dict[str, Any]:
    severity = pair.after or pair.before
    return {
        "id": pair.id,
        "subject": pair.subject,
        "outcome": pair.outcome.value,
        "class": OUTCOMES.get(pair.outcome) or _grave(pair.after),
        "severity": severity.value if severity else "",
        "words": finding_words(pair),
    }


def _grave(severity: Severity | None) -> str:
    return severity.value if severity in MARKS else ""


def _section(title: str, pairs: Sequence[FigurePair]) -> dict[str, Any]:
    """Figures of one kind; what their differences prove, where that is said of any."""
    rows = [(_figure(pair), says := certainty_words(pair), TONES.get(says, "")) for pair in pairs]
    spread = any(side and side.low is not None for p in pairs for side in (p.before, p.after))
    return {
        "title": title,
        "caption": f"{title.capitalize()} side by side{'; in brackets p10-p90' * spread}",
        "rows": rows,
        "proves": any(says for _, says, _ in rows),
    }


def _figure(pair: FigurePair) -> tuple[str, ...]:
    return (
        named(pair.metric),
        figure_words(pair, pair.before, spread=True),
        figure_words(pair, pair.after, spread=True),
        ratio_words(pair),
    )


def _both(pairs: tuple[StrategyPair, ...]) -> Iterator[Strategy]:
    """Every strategy as a whole, before and after, named as such."""
    for each in pairs:
        for name, side in (("A", each.before), ("B", each.after)):
            if side is not None:
                yield replace(side, strategy=f"{each.strategy} in {name}", points=())


def _strategy(pair: StrategyPair) -> dict[str, Any]:
    return {
        "name": pair.strategy,
        "sides": [
            (said, speeds.CLASSES[s.viability] if s else "", reach(s).split("\n"))
            for said, s in zip(verdicts(pair), (pair.before, pair.after), strict=True)
        ],
        "limits": limits(pair),
    }
