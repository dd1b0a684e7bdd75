"""`nodecheck`: one report of this node, of a captured tree, or of saved facts."""

from __future__ import annotations

import os
import shutil
import sys

import click

from nodecheck.cli.inputs import read_host, read_policy, read_report, read_workload
from nodecheck.diagnose import diagnose, rules
from nodecheck.model import Struct
from nodecheck.policy import Policy
from nodecheck.render.layout import Line
from nodecheck.report import Report, to_json

PIPE_WIDTH = 100


class Options(Struct, frozen=True, kw_only=True):
    """What the user asked for; `saved` is --from."""

    as_json: bool
    quick: bool
    kernels: str
    saved: str | None
    root: str | None
    policy: str | None
    python: str | None
    weights: str | None
    layers: int | None
    weight_type: str


def run(options: Options) -> None:
    """Make the report and print it."""
    if options.saved and (options.root or options.python):
        raise click.UsageError("--from judges saved facts: it takes neither --root nor --python")
    if options.python:
        _check_python(options)
    if options.quick and options.kernels == "always":
        raise click.UsageError("--quick runs no kernels, --kernels always does")
    policy = read_policy(options.policy)
    workload = read_workload(options.weights, options.layers, options.weight_type)
    seen = read_report(options.saved) if options.saved else _collect(options, policy)
    _print(diagnose(seen, policy, workload), options.as_json)


def _check_python(options: Options) -> None:
    if options.root:
        raise click.UsageError("--python tries libraries on this machine, --root looks at another")
    if shutil.which(options.python or "") is None:
        raise click.BadParameter(f"{options.python}: no such program", param_hint="--python")


def _collect(options: Options, policy: Policy) -> Report:
    from nodecheck.collect import collect

    kernels = "never" if options.quick else options.kernels
    host = read_host(options.root)
    return collect(
        host,
        kernels=kernels,
        python=options.python,
        thresholds=policy.thresholds,
        progress=_progress,
        meanwhile=_load_rules,
    )


def _load_rules() -> None:
    """Import what judges the facts, so that it is there when they are."""
    for _ in rules():
        pass


def _can_erase() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _progress(doing: str) -> None:
    """One line on a terminal that can take it back; an empty one takes back the last."""
    if _can_erase():
        sys.stderr.write(f"\r\033[K{doing} ..." if doing else "\r\033[K")
        sys.stderr.flush()


def _print(report: Report, as_json: bool) -> None:
    _progress("")
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
