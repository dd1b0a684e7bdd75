"""`nodecheck bench`: how fast memory is, how far apart CPUs lie, what decode and GPUs reach."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import click

from nodecheck.cli.inputs import read_host, read_policy
from nodecheck.cli.options import policy_option
from nodecheck.cli.output import Output, load_styles, progress, shows_unicode
from nodecheck.render.bench import gpu
from nodecheck.render.bench.verdict import PARTS, has_cards, is_empty, is_interrupted


@click.command("bench")
@click.argument("what", type=click.Choice([*PARTS, "all"]), default="all")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as JSON (docs/report.schema.json)."
)
@click.option("--html", "page", metavar="FILE", help="Write a page with charts too.")
@click.option(
    "--max-seconds",
    type=click.IntRange(1, 86_400),
    metavar="N",
    help="Measure no longer than this; less time makes the figures less certain.",
)
@click.option(
    "--force", is_flag=True, help="Measure GPUs that other programs use too; their figures say so."
)
@policy_option
def command(
    what: str,
    as_json: bool,
    page: str | None,
    max_seconds: int | None,
    force: bool,
    policy: str | None,
) -> None:
    """Measure memory bandwidth, latency, placement of the CPUs, decode and the copies of GPUs.

    Each part can be asked for alone. It loads all usable CPUs and the GPUs that nothing else uses:
    not for a node that is serving. Ctrl-C ends it with what was measured.
    """
    parts = tuple(PARTS) if what == "all" else (what,)
    asked = read_policy(policy)
    output = Output.of(page, as_json=as_json)
    # what follows the measurement is imported before it: Ctrl-C is answered at once
    from nodecheck.collect import bench
    from nodecheck.diagnose import diagnose, rules
    from nodecheck.render.bench import html
    from nodecheck.render.bench.terminal import render

    list(rules())
    load_styles()
    make_page = html.page(asked.thresholds)
    seen = bench(
        read_host(None),
        parts,
        max_seconds=max_seconds,
        force=force,
        thresholds=asked.thresholds,
        progress=_progress,
    )
    if parts == (gpu.PART,) and not has_cards(seen):
        progress("")
        raise click.ClickException(gpu.why_none(seen))
    with _undisturbed():
        report = diagnose(seen, asked)
        shown = output._replace(page=None) if is_empty(report) else output
        unicode = shows_unicode()
        shown.write(
            report,
            lambda width: render(
                report, parts, width, unicode=unicode, thresholds=asked.thresholds
            ),
            lambda: make_page(report, parts),
        )
    if is_interrupted(report):
        raise click.ClickException("interrupted; the report holds what was measured until then")
    if is_empty(report):
        raise click.ClickException("nothing was measured; the report says why")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """What was measured is told, however often Ctrl-C is pressed."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _progress(doing: str, seconds_left: float | None) -> None:
    progress(doing if seconds_left is None else f"{doing}, {seconds_left:.0f} s left")
