"""A fleet at a terminal: the odd nodes first, then the groups that they are odd in."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.model import Status
from nodecheck.records.figure_names import named
from nodecheck.records.fleet.fleet import Cell, Fleet, Group, Row
from nodecheck.records.fleet.odd import FEWEST
from nodecheck.records.fleet.outliers import Spread
from nodecheck.render.fleet.words import (
    OddRow,
    group_facts,
    notes,
    odd_rows,
    of_most,
    split_words,
    spread_words,
    title,
    verdict,
)
from nodecheck.render.layout import Column, Line, Span, hanging, joined, printable, table
from nodecheck.render.metrics import amount, between, fine_percent
from nodecheck.render.styles import STATUS_STYLES, fitting
from nodecheck.units import count

NODES_SHOWN = 20
ODDITIES_SHOWN = 3
GROUPS_SHOWN = 8
FIGURES_IN_BRIEF = 4
SPLITS_SHOWN = 6
MATRIX_MOST = 30
"""Nodes of a group that are shown figure by figure."""

INDENT = 11
NAME, CELL = 18, 5
OFF = 13
STYLES = {"critical": "red", "warning": "yellow", "ok": "green", "": "dim"}


def render(made: Fleet, width: int) -> list[Line]:
    """The lines, none longer than `width`."""
    width = fitting(width)
    first, *rest = title(made)
    status, label, sentence = verdict(made)
    style = STATUS_STYLES[Status(status)]
    lines = [*joined(first, tuple(rest), len(first) + 3, width), ()]
    lines += hanging(Span(label.upper(), style), Span(sentence, "bold"), len(label) + 3, width)
    lines += _odd(made, width)
    for group in made.groups[:GROUPS_SHOWN]:
        lines += [(), *_group(group, made, width)]
    if len(made.groups) > GROUPS_SHOWN:
        lines += [(), *_more_groups(made.groups[GROUPS_SHOWN:], width)]
    told = notes(made)
    lines += [()] if told else []
    return lines + [
        line for each in told for line in hanging(Span(" !", "bold"), Span(each), 3, width)
    ]


def _odd(made: Fleet, width: int) -> list[Line]:
    if not made.odd:
        return []
    rows, left_out = odd_rows(made.odd, NODES_SHOWN, ODDITIES_SHOWN)
    longest = max(len(printable(row.nodes)) for row in rows)
    node = max(8, min(longest, width // 5))
    value = (width - node - OFF - 10) // 3
    columns = (
        Column("node", node),
        Column("what", width - node - OFF - 10 - 2 * value),
        Column("its own", value),
        Column("the others", value),
        Column("off (spreads)", OFF),
    )
    lines: list[Line] = [(), (Span("ODD NODES", "bold"),), *table(columns, [], {})]
    for row in rows:
        lines += table(columns, [_cells(row)], {row.value: STYLES[row.style]})[1:]
    if left_out:
        lines.append((Span(f" and {count(left_out, 'node')} more: --json tells all", "dim"),))
    return lines


def _cells(row: OddRow) -> tuple[str, ...]:
    return row.nodes, row.what, row.value, row.usual, row.off


def _group(group: Group, made: Fleet, width: int) -> list[Line]:
    label = Span(f"GROUP {group.number}", "bold")
    said = f"{count(len(group.nodes), 'node')}: {', '.join(group.words)}"
    if len(group.nodes) == 1:
        said = f"{group.nodes[0]}: {', '.join(group.words)}"
    lines = hanging(label, Span(said), INDENT, width)
    lines += joined("", tuple(group_facts(group)), INDENT, width)
    for split in group.splits[:SPLITS_SHOWN]:
        lines += hanging(Span("  differ in"), Span(split_words(split)), INDENT + 1, width)
    if len(group.splits) > SPLITS_SHOWN:
        more = f"{len(group.splits) - SPLITS_SHOWN} more in --json"
        lines += hanging(Span(""), Span(more, "dim"), INDENT + 1, width)
    shown = of_most(group.spreads)
    if not _in_full(group, made):
        return lines + _in_brief([spread for _, spread in shown], width)
    lines += _figures(shown, width)
    if len(group.nodes) <= MATRIX_MOST:
        rows = [row for row in made.matrix if row.group == group.number]
        lines += _matrix(rows, shown, width)
    return lines


def _in_full(group: Group, made: Fleet) -> bool:
    """Where a figure is odd, and where nodes are too few to tell: these are set side by side."""
    if 1 < len(group.nodes) < FEWEST and len(made.groups) <= GROUPS_SHOWN:
        return bool(group.spreads)
    return any(o.metric for n in made.odd if n.group == group.number for o in n.oddities)


def _in_brief(spreads: Sequence[Spread], width: int) -> list[Line]:
    told = [f"{named(s.metric)} {spread_words(s)}" for s in spreads[:FIGURES_IN_BRIEF]]
    more = len(spreads) - len(told)
    told += [f"and {count(more, 'figure')} more in --html"] if more else []
    return joined("", tuple(told), INDENT, width) if told else []


def _figures(shown: Sequence[tuple[int, Spread]], width: int) -> list[Line]:
    name = min(42, width - 50)
    columns = (
        Column("", 2),
        Column("figure", name),
        Column("median", 11),
        Column("p10-p90", 14),
        Column("spread", 6),
        Column("nodes", 6),
    )
    rows: list[tuple[str, ...]] = [
        (
            str(number),
            named(each.metric),
            amount(each.metric, each.median),
            between(each.metric, each.p10, each.p90),
            "-" if each.share is None else fine_percent(each.share),
            str(each.nodes),
        )
        for number, (_, each) in enumerate(shown, 1)
    ]
    return table(columns, rows, {})


def _matrix(rows: Sequence[Row], shown: Sequence[tuple[int, Spread]], width: int) -> list[Line]:
    """A row for each node; what does not fit is left out from the end."""
    fit = shown[: (width - NAME - 2) // CELL]
    said = " % of the group's median; ! odd, ~ disturbed, - not measured"
    head = f" {'':{NAME}}" + "".join(f"{number:>{CELL}}" for number in range(1, len(fit) + 1))
    lines: list[Line] = [(Span(said, "dim"),), (Span(head, "dim"),)]
    for row in rows:
        name = printable(row.node)
        name = name if len(name) <= NAME else f"{name[: NAME - 3]}..."
        cells = [_cell(row.cells[place], spread) for place, spread in fit]
        lines.append((Span(f" {name:{NAME}}", "bold" if row.is_odd else ""), *cells))
    return lines


def _cell(cell: Cell | None, spread: Spread) -> Span:
    if cell is None:
        return Span(f"{'- ':>{CELL}}", "dim")
    share = min(999, round(100 * cell.value / spread.median))
    if cell.disturbed:
        return Span(f"{share:>{CELL - 1}}~", "dim")
    if not cell.odd:
        return Span(f"{share:>{CELL - 1}} ", "")
    better = spread.metric.more_is_better is (cell.value > spread.median)
    return Span(f"{share:>{CELL - 1}}!", "bold green" if better else "bold red")


def _more_groups(groups: Sequence[Group], width: int) -> list[Line]:
    nodes = sum(len(group.nodes) for group in groups)
    said = f"and {count(len(groups), 'group')} more, of {count(nodes, 'node')}: --json tells all"
    return hanging(Span(""), Span(said, "dim"), 0, width)
