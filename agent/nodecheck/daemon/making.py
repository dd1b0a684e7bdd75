"""Makes in a child what the daemon serves on demand, so that it need not hold what that takes.

`python -m nodecheck.daemon.making page [--stale SECONDS] | history SPAN | openapi`. The report is
read as JSON from standard input, where there is one; what was made goes to standard output. What
cannot be made is a line on standard error, and status 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from nodecheck.daemon.collector import answer
from nodecheck.quantities import QuantityError, parse_span

if TYPE_CHECKING:
    from nodecheck.records.history.history import History
    from nodecheck.records.series import Series, Window
    from nodecheck.render.live.told import Told
    from nodecheck.report import Report

HISTORY_SECONDS = 8.0
"""How long the history may take, which a month of a snapshot a minute does in a quarter of one; a
page is made all the same. Source: nodecheck's own judgement, less than half of what the daemon
waits for a page."""

LATEST = 10
"""Snapshots that are listed. Source: as `nodecheck history`."""

EVERY_POINT_MOST = 2000
"""Snapshots of which each is a point; of more one an hour is. Source: nodecheck's own judgement: a
chart of a month is 500 points wide."""


def made(arguments: Sequence[str], report: bytes) -> bytes:
    """What is asked for. Raises click.ClickException."""
    match arguments:
        case ["page"]:
            return _page(report, None)
        case ["page", "--stale", seconds]:
            return _page(report, float(seconds))
        case ["history", span]:
            return _history(span)
        case ["openapi"]:
            return _openapi()
    raise click.UsageError("say page, history SPAN or openapi")


def _page(text: bytes, stale_seconds: float | None) -> bytes:
    from nodecheck.render.live.html import page
    from nodecheck.report import ReportError, from_json

    try:
        report = from_json(text, "standard input") if text else None
    except ReportError as error:
        raise click.ClickException(str(error)) from error
    return page()(report, stale_seconds, _told(report)).encode(errors="replace")


def _told(report: Report | None) -> Told:
    """What the history tells, read where it may hang."""
    from nodecheck.machine import child
    from nodecheck.records.snapshots.database import path
    from nodecheck.render.live.figures import followed
    from nodecheck.render.live.told import DAYS, Told

    names = {each.metric.name for each in followed(report)} if report else set()
    outcome = child.call(lambda: _read(DAYS * 86_400, names), Told, HISTORY_SECONDS)
    return outcome.value or Told(why_not=f"{path()}: the history cannot be read: {outcome.error}")


def _read(seconds: int, names: set[str]) -> Told:
    from nodecheck.records.snapshots.database import HistoryError
    from nodecheck.render.live.told import Told

    try:
        window, history = _window(seconds)
    except HistoryError as error:
        return Told(why_not=str(error))
    return Told(history=history, over_time=_over_time(window, names))


def _window(seconds: int) -> tuple[Window, History]:
    """Raises HistoryError."""
    from nodecheck.records.history.history import make_history
    from nodecheck.records.snapshots import database

    now, path = int(time.time()), database.path()
    latest = database.read_latest(path, LATEST)
    window = database.read_window(path, now - seconds)
    return window, make_history(window, now, latest)


def _over_time(window: Window, names: set[str]) -> tuple[Series, ...]:
    from nodecheck.records.figures import Kind
    from nodecheck.records.series import every_point, hourly

    columns = every_point if len(window.ids) <= EVERY_POINT_MOST else hourly
    kinds = (Kind.RATE, Kind.ROOM, Kind.MOMENTARY)
    found = (each for kind in kinds for each in columns(window, kind))
    return tuple(each for each in found if each.metric.name in names)


def _history(span: str) -> bytes:
    from nodecheck.model import pretty_json
    from nodecheck.records.snapshots.database import HistoryError

    try:
        _, history = _window(parse_span(span))
    except (HistoryError, QuantityError) as error:
        raise click.ClickException(str(error)) from error
    return pretty_json(history)


def _openapi() -> bytes:
    from nodecheck import __version__
    from nodecheck.daemon.openapi import document
    from nodecheck.model import pretty_json

    return pretty_json(document(__version__))


if __name__ == "__main__":
    sys.exit(answer(lambda: made(sys.argv[1:], sys.stdin.buffer.read())))
