"""Whether a model has the room that it needs, and how to start an engine with it."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.render.layout import (
    Column,
    Line,
    Span,
    command,
    hanging,
    joined,
    printable,
    table,
)
from nodecheck.serving import EngineStart, Fit
from nodecheck.units import gib

INDENT = 12
FLAG_MOST = 28
"""Characters of a flag up to which the whys stand below one another."""

FITS = {True: "yes", False: "no", None: "unknown"}
STYLES = {"yes": "green", "no": "red", "unknown": "magenta"}
FIGURES = (Column("needed", 9), Column("there", 9), Column("fits", 7))
ROOM, ROOM_NARROW, WHOM_MOST = 17, 11, 28


def _columns(width: int) -> tuple[Column, ...]:
    """What it is for and in which room, as wide as the figures leave them."""
    room = ROOM if width >= 72 else ROOM_NARROW
    left = width - room - sum(column.width for column in FIGURES) - 2 * 5
    return Column("for", min(WHOM_MOST, left)), Column("room", room), *FIGURES


def told(fits: Iterable[Fit], chosen: str | None) -> list[Fit]:
    """The fits that decide something: of the chosen way, and those that fail or are not known."""
    return [fit for fit in fits if fit.strategy == chosen or not fit.fits]


def fit_cells(fit: Fit) -> tuple[str, ...]:
    """For what, in which room, needed, there, and whether that is enough."""
    whom = f"{fit.strategy}, {fit.engine}" if fit.engine else fit.strategy
    there = "-" if fit.available_bytes is None else gib(fit.available_bytes)
    return whom, fit.room, gib(fit.needed_bytes), there, FITS[fit.fits]


def needs(fit: Fit) -> str:
    """What takes the room: "weights 16 GiB + KV of 8,192 tokens 512 MiB"."""
    return " + ".join(f"{need.what} {gib(need.bytes)}" for need in fit.needs)


def fit_lines(fits: tuple[Fit, ...], chosen: str | None, width: int, *, easy: bool) -> list[Line]:
    """The table of what decides, with what takes the room and what would make it fit.

    Where the answer is `easy`, what fits of the chosen way is told in a line.
    """
    shown = [fit for fit in told(fits, chosen) if not (easy and fit.fits)]
    rest = tuple(
        _briefly(fit) for fit in fits if fit not in shown and (not easy or fit.strategy == chosen)
    )
    if not shown:
        return [(), *joined("FITS", rest, INDENT, width)] if rest else []
    columns = _columns(width)
    lines: list[Line] = [(), (Span("DOES IT FIT", "bold"),), *table(columns, [], STYLES)]
    for fit in shown:
        lines += table(columns, [fit_cells(fit)], STYLES)[1:]
        lines += _below(fit, width)
    return [*lines, *(joined(" also fits", rest, INDENT, width) if rest else [])]


def _below(fit: Fit, width: int) -> list[Line]:
    """What takes the room, and what would make it fit where it does not."""
    parts = needs(fit) if len(fit.needs) > 1 else ""
    text = "; ".join(filter(None, (parts, fit.basis if fit.fits is not True else "")))
    lines = hanging(Span(""), Span(text, "dim"), 3, width) if text else []
    if fit.advice and not fit.fits:
        lines += hanging(Span("   to fit: "), Span(fit.advice), 11, width)
    return lines


def _briefly(fit: Fit) -> str:
    whom, room, needed, there, _ = fit_cells(fit)
    return f"{whom}: {needed} of {there} {room}"


def engine_lines(engines: Iterable[EngineStart], width: int, *, easy: bool) -> list[Line]:
    """The commands to start with: every flag with why, and what is known to go wrong.

    Where the answer is `easy`, only the first tells why.
    """
    lines: list[Line] = []
    for engine in engines:
        lines += _engine(engine, width, briefly=easy and bool(lines))
    return [(), (Span("START WITH", "bold"),), *lines] if lines else []


def _engine(engine: EngineStart, width: int, *, briefly: bool) -> list[Line]:
    label = f" {engine.engine}".ljust(INDENT)
    if engine.command is None:
        text = f"not for this: {engine.not_for}" if engine.not_for else "not known how"
        return hanging(Span(label), Span(text, "dim"), INDENT, width)
    lines: list[Line] = [(Span(label), *command(engine.command, 0)[1:])]
    pad = " " * INDENT
    longest = max(
        (len(flag.flag) for flag in engine.flags if len(flag.flag) <= FLAG_MOST), default=0
    )
    column = INDENT + longest + 2
    for flag in () if briefly else engine.flags:
        head = f"{pad}{printable(flag.flag)}  "
        if len(head) > column:
            lines += [(Span(head),), *hanging(Span(""), Span(flag.why, "dim"), INDENT + 4, width)]
        else:
            lines += hanging(Span(head), Span(flag.why, "dim"), column, width)
    for risk in engine.risks:
        head = f"{pad}known risk: "
        lines += hanging(Span(head, "yellow"), Span(risk), len(head), width)
    return lines
