"""The cards' part of a benchmark at a terminal."""

from __future__ import annotations

from nodecheck.checks.cuda.facts import FROM_CARD, TO_CARD
from nodecheck.model import Transfer
from nodecheck.render.bench import gpu
from nodecheck.render.bench.blocks import FLAGGED, foot, heading, matrix
from nodecheck.render.bench.figures import mark_of, rate
from nodecheck.render.bench.gpu import Row
from nodecheck.render.layout import Line, Span, hanging, joined, printable
from nodecheck.render.report.terminal import INDENT
from nodecheck.render.styles import WIDTH_WIDE
from nodecheck.report import Report

LINK_ROOM, CELL_ROOM, SHARE_ROOM = 10, 13, 5
NAME_ROOMS = ((WIDTH_WIDE, 20), (80, 13), (0, 6))
"""From which width on names have so much room: 80 columns hold four figures, 60 three."""


def section(report: Report, width: int) -> list[Line]:
    """Cards alone, all at once, and in pairs; nothing where none was measured."""
    found = gpu.rows(report)
    if not found:
        return []
    lines = [*heading("GPU", gpu.CONVENTION, width), *_table(found, width)]
    lines += foot("links", [*gpu.notes(report), gpu.replays(report)], width)
    return lines + _beside(found, width) + _peers(report, width)


def _table(found: list[Row], width: int) -> list[Line]:
    room = next(room for least, room in NAME_ROOMS if width >= least)
    slots = gpu.slots(found)[: (width - room - LINK_ROOM - 4) // CELL_ROOM]
    head = "".join(f"{name:>{CELL_ROOM - 1}} " for name, _ in slots)
    lines: list[Line] = [(Span(f" {'card':<{room + 3}}{'link':<{LINK_ROOM}}{head}", "dim"),)]
    for row in found:
        name = printable(row.name)[:room]
        cells = [Span(f" {row.number:>2} {name:<{room}}{row.link:<{LINK_ROOM}}")]
        for _, names in slots:
            flags = gpu.flags_of(row, names)
            figure, share = gpu.cell(row, names)
            text = f"{figure} {share:>{SHARE_ROOM}}" if share else figure
            cells.append(Span(f"{text:>{CELL_ROOM - 1}}{mark_of(flags)}", FLAGGED if flags else ""))
        lines.append(tuple(cells))
    return lines


def _beside(found: list[Row], width: int) -> list[Line]:
    said = gpu.beside_sentence(found)
    if not said:
        return []
    items = tuple(
        f"{row.number}: {_rate(row, TO_CARD)} to, {_rate(row, FROM_CARD)} from"
        for row in found
        if row.beside
    )
    lines = [*heading("AT ONCE", gpu.AT_ONCE, width), *joined(" card", items, INDENT, width)]
    return lines + hanging(Span(""), Span(said), INDENT, width)


def _rate(row: Row, name: str) -> str:
    figure = row.beside.get(name)
    return _marked(figure.transfer) if figure else "-"


def _marked(each: Transfer) -> str:
    return rate(each.median_bytes_per_second) + mark_of(each.flags).strip()


def _peers(report: Report, width: int) -> list[Line]:
    found = gpu.peers(report)
    if not found:
        return []
    numbers = [int(r.number) if r.number.isdigit() else n for n, r in enumerate(gpu.rows(report))]
    cells = {(numbers[a], numbers[b]): _marked(each) for (a, b), each in found.items()}
    lines = heading("PEERS", gpu.PEERS, width)
    lines += matrix("card", numbers, numbers, cells, width) or joined(
        " card", tuple(f"{a} to {b}: {text}" for (a, b), text in cells.items()), INDENT, width
    )
    said = gpu.peer_sentence(report)
    return lines + (hanging(Span(""), Span(said), INDENT, width) if said else [])
