"""Two reports side by side at a terminal: what changed, and what it means for serving."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.records.compare.comparison import Comparison, FigurePair, FindingPair, Outcome, Side
from nodecheck.records.differences import Difference
from nodecheck.records.figure_names import named
from nodecheck.render.compare.words import (
    BETTER,
    SECTIONS,
    WORSE,
    certainty_words,
    figure_words,
    finding_words,
    limits,
    mark,
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
    when,
)
from nodecheck.render.layout import Column, Line, Span, hanging, joined, table
from nodecheck.render.styles import MARKS, VERDICT_STYLES, fitting

INDENT = 14
WIDTH_SPREAD = 100
"""From here on the spread of a figure stands beside it."""

NAME, NAME_LEAST, FIGURE, FIGURE_SPREAD, RATIO, SAYS = 22, 12, 10, 21, 6, 20
STRATEGY = 15

Rows = list[tuple[str, ...]]

STYLES = {
    **VERDICT_STYLES,
    **dict(MARKS.values()),
    Outcome.CLEARED.value: "green",
    BETTER: "green",
    WORSE: "red",
}


def render(made: Comparison, width: int) -> list[Line]:
    """The lines, none longer than `width`."""
    width = fitting(width)
    if not made.differs:
        return _alike(made, width)
    lines = [*_title(made, width), *_side("A", made.before, width), *_side("B", made.after, width)]
    lines += _notes(made, width)
    lines += [(), *hanging(Span(""), Span(made.headline, "bold"), 0, width)]
    lines += _traits(made.traits, width)
    lines += _findings(made.findings, width)
    for title, kind in SECTIONS:
        lines += _figures(title, shown(made.figures, kind), width)
    lines += _strategies(made, width)
    return lines + _rest(made, width)


def _alike(made: Comparison, width: int) -> list[Line]:
    sides = tuple(
        f"{name} {side.label}, {when(side)}"
        for name, side in (("A", made.before), ("B", made.after))
    )
    first = f"nodecheck {made.nodecheck_version}"
    lines = joined(first, sides, len(first) + 3, width)
    lines += hanging(Span(""), Span(made.headline, "bold"), 0, width)
    return [*lines, *_notes(made, width), *_findings(made.findings, width), *_unread(made, width)]


def _title(made: Comparison, width: int) -> list[Line]:
    first = f"nodecheck {made.nodecheck_version}"
    return joined(first, ("A before, B after", "both judged anew"), len(first) + 3, width)


def _side(name: str, side: Side, width: int) -> list[Line]:
    return joined(f" {name}", side_words(side), 4, width)


def _notes(made: Comparison, width: int) -> list[Line]:
    return [
        line for note in made.notes for line in hanging(Span(" !", "bold"), Span(note), 4, width)
    ]


def _traits(traits: Sequence[Difference], width: int) -> list[Line]:
    if not traits:
        return []
    side = (width - NAME - 2) // 2 - 2
    columns = (Column("", NAME), Column("A", side), Column("B", side))
    values = [t for t in traits if not t.is_set]
    rows: Rows = [(trait_name(t), t.before or "-", t.after or "-") for t in values]
    lines: list[Line] = [
        (),
        (Span("CHANGED", "bold"),),
        *(table(columns, rows, {}) if rows else []),
    ]
    for name, verb, flags in sets(traits):
        lines += hanging(Span(f" {name} {verb}"), Span(flags), NAME + 3, width)
    return lines


def _findings(findings: Sequence[FindingPair], width: int) -> list[Line]:
    moved = [f for f in findings if f.outcome is not Outcome.SAME]
    if not moved:
        return []
    ids = max(len(f.id) for f in moved)
    columns = (Column("", 8), Column("", 1), Column("", ids), Column("", width - ids - 18))
    lines: list[Line] = [(), (Span("FINDINGS", "bold"),)]
    for each in moved:
        row = (each.outcome.value, mark(each), each.id, finding_words(each))
        lines += table(columns, [row], _styles(each))[1:]
    return lines


def _styles(pair: FindingPair) -> dict[str, str]:
    """What appeared is as grave as its finding."""
    if pair.outcome is Outcome.APPEARED and pair.after in MARKS:
        return {**STYLES, pair.outcome.value: MARKS[pair.after][1]}
    return STYLES


def _figures(title: str, figures: Sequence[FigurePair], width: int) -> list[Line]:
    if not figures:
        return []
    spread = width >= WIDTH_SPREAD
    side = FIGURE_SPREAD if spread else FIGURE
    left = width - 2 * side - RATIO - 10
    name = max(NAME_LEAST, min(NAME, left - SAYS))
    columns = (
        Column("", name), Column("A", side), Column("B", side), Column("B / A", RATIO),
        Column("", left - name),
    )  # fmt: skip
    rows: Rows = [
        (
            named(f.metric),
            figure_words(f, f.before, spread=spread),
            figure_words(f, f.after, spread=spread),
            ratio_words(f),
            certainty_words(f),
        )
        for f in figures
    ]
    return [(), (Span(title, "bold"),), *table(columns, rows, STYLES)]


def _strategies(made: Comparison, width: int) -> list[Line]:
    told = ways(made)
    if not told:
        return []
    side = min(24, 2 * (width - STRATEGY) // 7)
    limit = width - STRATEGY - 2 * side - 8
    columns = (
        Column("", STRATEGY), Column("A", side), Column("B", side), Column("limited by", limit),
    )  # fmt: skip
    rows: Rows = []
    for each in told:
        first, *second = limits(each)
        rows.append((each.strategy, *verdicts(each), first))
        rows.append(("", reach(each.before), reach(each.after), "".join(second)))
    title = joined("STRATEGIES", (made.after.workload or "",), INDENT, width)
    return [(), *title, *table(columns, rows, STYLES)]


def _rest(made: Comparison, width: int) -> list[Line]:
    same = unchanged(made)
    lines: list[Line] = [(), *joined("UNCHANGED", same, INDENT, width)] if same else [()]
    return lines + _unread(made, width)


def _unread(made: Comparison, width: int) -> list[Line]:
    words = unread(made)
    return joined("NOT CHECKED", words, INDENT, width) if words else []
