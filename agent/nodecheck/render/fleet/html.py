"""A fleet as a page that needs nothing else: no script, no address, no font of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodecheck.model import Struct
from nodecheck.records.figure_names import named
from nodecheck.records.fleet.fleet import Cell, Fleet, Group, Row
from nodecheck.records.fleet.outliers import SPREADS, Spread
from nodecheck.render.fleet.words import (
    group_facts,
    notes,
    odd_rows,
    of_most,
    split_words,
    title,
    verdict,
)
from nodecheck.render.metrics import amount, between, fine_percent
from nodecheck.render.page import page_maker
from nodecheck.units import count

NODES_SHOWN = 200
ODDITIES_SHOWN = 6
GROUPS_SHOWN = 50

NEAR_SPREADS = SPREADS / 2
"""From here on a figure is shaded. Source: nodecheck's own judgement."""


class Shade(Struct, frozen=True, kw_only=True):
    """A cell of the matrix: its class, what stands in it, and what that means."""

    shade: str
    text: str
    says: str


def page() -> Callable[[Fleet], str]:
    """Makes the page of a fleet."""
    return page_maker("fleet.html.j2", _content)


def _content(made: Fleet) -> dict[str, Any]:
    status, label, sentence = verdict(made)
    odd, left_out = odd_rows(made.odd, NODES_SHOWN, ODDITIES_SHOWN)
    return {
        "title": title(made),
        "status": status,
        "label": label,
        "sentence": sentence,
        "odd": odd,
        "odd_left_out": count(left_out, "node") if left_out else "",
        "groups": [_group(group, made) for group in made.groups[:GROUPS_SHOWN]],
        "groups_left_out": max(0, len(made.groups) - GROUPS_SHOWN),
        "notes": notes(made),
    }


def _group(group: Group, made: Fleet) -> dict[str, Any]:
    shown = of_most(group.spreads)
    rows = [row for row in made.matrix if row.group == group.number]
    return {
        "number": group.number,
        "nodes": count(len(group.nodes), "node"),
        "name": group.nodes[0] if len(group.nodes) == 1 else "",
        "words": group.words,
        "facts": group_facts(group),
        "splits": [split_words(split) for split in group.splits],
        "figures": [_figure(spread) for _, spread in shown],
        "matrix": [_row(row, shown) for row in rows] if len(group.nodes) > 1 else [],
        "sampled": len(rows) < len(group.nodes),
    }


def _figure(spread: Spread) -> tuple[str, ...]:
    return (
        named(spread.metric),
        amount(spread.metric, spread.median),
        between(spread.metric, spread.p10, spread.p90),
        "-" if spread.share is None else fine_percent(spread.share),
        str(spread.nodes),
        str(spread.disturbed or "-"),
    )


def _row(row: Row, shown: Sequence[tuple[int, Spread]]) -> dict[str, Any]:
    return {
        "node": row.node,
        "is_odd": row.is_odd,
        "cells": [_shade(row.cells[place], spread) for place, spread in shown],
    }


def _shade(cell: Cell | None, spread: Spread) -> Shade:
    """Colour is never the only sign: what is odd has an arrow, what is disturbed a tilde."""
    if cell is None:
        return Shade(shade="", text="-", says="not measured")
    share = f"{100 * cell.value / spread.median:.0f}"
    says = amount(spread.metric, cell.value)
    if cell.disturbed:
        return Shade(shade="muted", text=f"{share} ~", says=f"{says}, disturbed: left out")
    if cell.odd:
        up = cell.value > spread.median
        shade = "band-2" if up is spread.metric.more_is_better else "band-3"
        return Shade(shade=shade, text=f"{share} {'▲' if up else '▼'}", says=f"{says}, odd")
    off = abs(cell.value / spread.median - 1) / (spread.share or 1)
    return Shade(shade="band-1" if off > NEAR_SPREADS else "band-0", text=share, says=says)
