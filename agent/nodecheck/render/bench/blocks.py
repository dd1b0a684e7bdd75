"""Pieces that the sections of a benchmark at a terminal are set from."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.render.layout import Line, Span, hanging, joined
from nodecheck.render.report.terminal import INDENT

FLAGGED = "yellow"


def heading(name: str, text: str, width: int) -> list[Line]:
    """A section's name and what its figures are."""
    return [(), *hanging(Span(name, "bold"), Span(text, "dim"), INDENT, width)]


def foot(label: str, parts: list[str], width: int) -> list[Line]:
    """What stands below a table, dim."""
    texts = tuple(filter(None, parts))
    lines = joined(f" {label}", texts, INDENT, width) if texts else []
    return [tuple(Span(span.text, "dim") for span in line) for line in lines]


def matrix(
    name: str,
    rows: Sequence[int],
    columns: Sequence[int],
    cells: dict[tuple[int, int], str],
    width: int,
) -> list[Line]:
    """The cells in a square; nothing where it is wider than `width`."""
    room = max(*map(len, cells.values()), len(str(max(columns)))) + 2
    if INDENT + room * len(columns) > width:
        return []
    head = "".join(f"{column:>{room}}" for column in columns)
    lines: list[Line] = [(Span(f" {name:<{INDENT - 1}}{head}", "dim"),)]
    for row in rows:
        line = "".join(f"{cells.get((row, column), ''):>{room}}" for column in columns)
        lines.append((Span(f" {row:<{INDENT - 1}}", "dim"), Span(line)))
    return lines
