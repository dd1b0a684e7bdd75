"""`nodecheck history`: what this node's snapshots tell, a figure over time, all of it exported."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from nodecheck.cli import refuse_options
from nodecheck.cli.options import Quantity
from nodecheck.quantities import parse_span

if TYPE_CHECKING:
    from pathlib import Path

    from nodecheck.records.series import Listed, Window

LATEST_SHOWN = 10
NAMES_SHOWN = 20


class Since(NamedTuple):
    """A span of time back from now, as it was written and in seconds."""

    text: str
    seconds: int


def _since(text: str) -> Since:
    """In hours, days or weeks: m is minutes, and may be meant as a month."""
    seconds = parse_span(text)
    if not text.rstrip().endswith(("h", "d", "w")):
        raise ValueError(f"{text!r} is in minutes or seconds; write it as 12h, 30d or 8w")
    return Since(text, seconds)


SINCE = Quantity("span", _since)


@click.group("history", invoke_without_command=True)
@click.option(
    "--since",
    type=SINCE,
    default="30d",
    show_default=True,
    metavar="SPAN",
    help="How far back: 12h, 30d, 8w.",
)
@click.option("--metric", metavar="NAME", help="Draw this figure over time, e.g. dram_read@8.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print it as JSON (docs/history.schema.json)."
)
@click.option("--html", "page", metavar="FILE", help="Write a page with charts too.")
@click.pass_context
def command(
    ctx: click.Context, since: Since, metric: str | None, as_json: bool, page: str | None
) -> None:
    """Tell what changed on this node, what drifted, when a disk is full, which counters grew.

    It is told from the snapshots that nodecheck snapshot takes. All times are UTC.
    """
    if ctx.invoked_subcommand is not None:
        refuse_options(ctx)
    elif metric is None:
        _tell(since, page, as_json=as_json)
    elif as_json or page is not None:
        raise click.UsageError("--metric draws; for its numbers: nodecheck history export")
    else:
        _draw(metric, since)


@command.command("export")
@click.option(
    "--since", type=SINCE, metavar="SPAN", help="How far back: 12h, 30d, 8w; unless said, all."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv"]),
    default="jsonl",
    show_default=True,
    help="Whole reports, one a line; or a row a snapshot, with a column a figure.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file, whole or not at all.")
def export(since: Since | None, form: str, output: str | None) -> None:
    """Write the snapshots for other programs, oldest first."""
    from nodecheck.cli.output import Form, print_stream, writable, write_whole
    from nodecheck.units import count

    starts = {"jsonl": Form(b'{"', "JSON"), "csv": Form(b"time,id,status", "such CSV")}
    first = None if since is None else _moment(since)
    file = None if output is None else writable(output, starts[form])
    with _readable() as path:
        lines = _lines(path, first, form)
        if file is None:
            print_stream(lines)
        else:
            numbers = itertools.count(-1 if form == "csv" else 0)  # its heading is no snapshot
            counted = (line for line, _ in zip(lines, numbers, strict=False))
            write_whole(file, counted, lambda: count(max(0, next(numbers)), "snapshot"))


def _lines(path: Path, since: int | None, form: str) -> Iterator[bytes]:
    from nodecheck.records.snapshots import database

    if form == "jsonl":
        yield from database.read_reports(path, since)
        return
    from nodecheck.render.history.table import lines

    yield from lines(database.read_pieces(path, since))


def _tell(since: Since, file: str | None, *, as_json: bool) -> None:
    from nodecheck.cli.output import Output
    from nodecheck.records.history.history import make_history
    from nodecheck.render.history.terminal import render

    def page() -> str:
        from nodecheck.records.figures import Kind
        from nodecheck.records.series import every_point
        from nodecheck.render.history import html

        series = [*every_point(window, Kind.RATE), *every_point(window, Kind.ROOM)]
        return html.page()(made, series, asked)

    output = Output.of(file, as_json=as_json)
    window, latest = _read(since)
    made = make_history(window, int(time.time()), latest)
    asked = f"--since {since.text}"
    output.write(made, lambda width: render(made, asked, width), page)


def _draw(name: str, since: Since) -> None:
    from nodecheck.cli.output import print_lines, shows_unicode
    from nodecheck.records.series import series_of
    from nodecheck.render.history.terminal import render_metric

    window, _ = _read(since)
    series = series_of(window, name)
    if series is None:
        raise click.ClickException(
            f"{name}: no such figure in {since.text}; {_known(name, window)}"
        )
    unicode = shows_unicode()
    print_lines(
        lambda width: render_metric(series, f"--since {since.text}", width, unicode=unicode)
    )


def _known(name: str, window: Window) -> str:
    """The figures that there are, those that are spelt alike first."""
    from difflib import get_close_matches

    names = sorted({metric.name for each in window.layout_by_id.values() for metric in each})
    ordered = [*dict.fromkeys((*get_close_matches(name, names, 3, 0.5), *names))]
    more = len(ordered) - NAMES_SHOWN
    rest = f" and {more} more: nodecheck history export --format csv" if more > 0 else ""
    return f"there are {', '.join(ordered[:NAMES_SHOWN])}{rest}"


def _read(since: Since) -> tuple[Window, tuple[Listed, ...]]:
    """The snapshots of a span of time, of which there must be one, and the newest of all."""
    from nodecheck.records.snapshots import database
    from nodecheck.render.metrics import moment

    first = _moment(since)
    with _readable() as path:
        latest = database.read_latest(path, LATEST_SHOWN)
        window = database.read_window(path, first)
    if not window.ids:
        newest = moment(latest[0].time)
        raise click.ClickException(
            f"no snapshot in {since.text}, the newest is of {newest}: --since"
        )
    return window, latest


@contextlib.contextmanager
def _readable() -> Iterator[Path]:
    """The history; what cannot be read of it, or is not there yet, is one line."""
    from nodecheck.records.snapshots.database import HistoryError, path

    try:
        yield path()
    except HistoryError as error:
        raise click.ClickException(str(error)) from error


def _moment(since: Since) -> int:
    """Seconds since 1970 at which the span begins."""
    return int(time.time()) - since.seconds
