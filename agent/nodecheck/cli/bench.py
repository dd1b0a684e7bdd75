"""`nodecheck bench`: how fast memory is, how far apart CPUs lie, how fast weights are used up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from nodecheck.cli.inputs import read_host, read_policy
from nodecheck.cli.output import load_styles, print_json, print_lines, progress
from nodecheck.render.bench_verdict import PARTS, is_empty, is_interrupted


@click.command("bench")
@click.argument("what", type=click.Choice([*PARTS, "all"]), default="all")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as JSON (docs/report.schema.json)."
)
@click.option("--html", "page", metavar="FILE", help="Write a page with charts too.")
@click.option(
    "--max-seconds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measure no longer than this; less time makes the figures less certain.",
)
@click.option("--policy", metavar="FILE", help="Thresholds and waivers (TOML).")
def command(
    what: str, as_json: bool, page: str | None, max_seconds: int | None, policy: str | None
) -> None:
    """Measure memory bandwidth, latency, placement of the CPUs and decode.

    Each part can be asked for alone. It loads all usable CPUs: not for a node that is serving.
    Ctrl-C ends it with what was measured.
    """
    parts = tuple(PARTS) if what == "all" else (what,)
    asked = read_policy(policy)
    file = _writable(page) if page else None
    # what follows the measurement is imported before it: Ctrl-C is answered at once
    from nodecheck.collect import bench
    from nodecheck.diagnose import diagnose, rules
    from nodecheck.render import bench as terminal
    from nodecheck.render.bench_html import page_maker

    list(rules())
    load_styles()
    make_page = page_maker() if file else None
    seen = bench(read_host(None), parts, max_seconds=max_seconds, progress=_progress)
    report = diagnose(seen, asked)
    if as_json:
        print_json(report)
    else:
        unicode = "utf" in (sys.stdout.encoding or "").lower()
        print_lines(lambda width: terminal.render(report, parts, width, unicode=unicode))
    if file and make_page:
        file.write_text(make_page(report, parts), encoding="utf-8")
        click.echo(f"Wrote {file}", err=True)
    if is_interrupted(report):
        raise click.ClickException("interrupted; the report holds what was measured until then")
    if is_empty(report):
        raise click.ClickException("nothing was measured; the report says why")


def _writable(page: str) -> Path:
    """The file, if it can be written: found out before minutes are spent."""
    file = Path(page)
    target = file if file.exists() else file.absolute().parent
    if file.is_dir() or not target.exists() or not os.access(target, os.W_OK):
        raise click.ClickException(f"{page}: cannot be written")
    return file


def _progress(doing: str, seconds_left: float | None) -> None:
    progress(doing if seconds_left is None else f"{doing}, {seconds_left:.0f} s left")
