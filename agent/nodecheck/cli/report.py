"""`nodecheck`: one report of this node, of a captured tree, or of saved facts."""

from __future__ import annotations

import os
import shutil
import sys

import click

from nodecheck.cli.inputs import read_host, read_policy, read_report, read_workload
from nodecheck.diagnose import diagnose
from nodecheck.render.layout import Line
from nodecheck.report import Report, to_json

PIPE_WIDTH = 100


def run(
    *,
    as_json: bool,
    quick: bool,
    kernels: str,
    saved: str | None,
    root: str | None,
    policy: str | None,
    python: str | None,
    weights: str | None,
    layers: int | None,
    weight_type: str,
) -> None:
    """Make the report and print it."""
    if saved and (root or python):
        raise click.UsageError("--from judges saved facts: it takes neither --root nor --python")
    if quick and kernels == "always":
        raise click.UsageError("--quick runs no kernels, --kernels always does")
    rules = read_policy(policy)
    workload = read_workload(weights, layers, weight_type)
    seen = read_report(saved) if saved else _collect(root, "never" if quick else kernels, python)
    _print(diagnose(seen, rules, workload), as_json)


def _collect(root: str | None, kernels: str, python: str | None) -> Report:
    from nodecheck.collect import collect

    return collect(read_host(root), kernels=kernels, python=python, progress=_progress)


def _progress(doing: str) -> None:
    """One line on a terminal, replaced by the report."""
    if sys.stderr.isatty() and doing:
        sys.stderr.write(f"\r\033[K{doing} ...")
        sys.stderr.flush()


def _print(report: Report, as_json: bool) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
    if as_json:
        sys.stdout.buffer.write(to_json(report))
        sys.stdout.buffer.flush()
        return
    from nodecheck.render import terminal

    colour = (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    width = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    if not colour:
        click.echo(terminal.render_plain(report, width), nl=False)
        return
    _print_styled(terminal.render(report, width))


def _print_styled(lines: list[Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((span.text, span.style) for span in line)))
