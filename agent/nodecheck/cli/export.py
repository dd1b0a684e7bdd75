"""`nodecheck export`: what a report says, in the forms that other systems read."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nodecheck.cli.options import Quantity, node_options
from nodecheck.quantities import QuantityError, parse_span

if TYPE_CHECKING:
    from nodecheck.report import Report

SHORTEST_SECONDS = 60
"""Node Feature Discovery looks at its files once a minute unless told otherwise."""

READABLE = 0o644
"""Its worker is not root."""


@click.group("export", no_args_is_help=False)
def command() -> None:
    """Write what a report says in the form that another system reads."""


def _span(text: str) -> int:
    seconds = parse_span(text)
    if seconds < SHORTEST_SECONDS:
        raise QuantityError(f"{text!r} is shorter than a minute; write it as 30m or 2h")
    return seconds


@command.command("nfd")
@click.option("--to", metavar="FILE", help="Write it there, all at once, instead of printing it.")
@click.option(
    "--expires",
    "expires_seconds",
    type=Quantity("span", _span),
    default="2h",
    show_default=True,
    metavar="SPAN",
    help="How long after the report the labels count.",
)
@node_options
def nfd(to: str | None, expires_seconds: int, **options: Any) -> None:
    """Labels of this node for Node Feature Discovery, as a file of local features.

    Its worker reads /etc/kubernetes/node-feature-discovery/features.d. docs/kubernetes.md tells
    what each label means. Run it every few minutes: labels that are not renewed go.
    """
    from nodecheck.cli.inputs import NodeOptions, read_node, read_policy
    from nodecheck.cli.output import Form, print_stream, progress, writable, write_whole
    from nodecheck.diagnose import diagnose
    from nodecheck.render.nfd import STARTS, render

    asked = NodeOptions.of(options)
    file = None
    if to is not None:
        _refuse_hidden(to)
        file = writable(to, Form(STARTS.encode(), "labels of nodecheck"))
    policy = read_policy(asked.policy)
    report = diagnose(read_node(asked, policy, None), policy)
    text = render(report, policy, _end(report, expires_seconds)).encode()
    progress("")
    if file is None:
        print_stream([text])
        return
    write_whole(file, [text], mode=READABLE)


def _refuse_hidden(name: str) -> None:
    """Raise UsageError for a file that would never be read."""
    if Path(name).name.startswith("."):
        raise click.UsageError(f"--to {name}: files that begin with a dot are not read there")


def _end(report: Report, seconds: int) -> str:
    """When the labels end, by the age of what they tell. Raises ClickException where that is over.

    Labels of an old report must not look like news.
    """
    from nodecheck.report import in_utc

    try:
        end = in_utc(report.time) + datetime.timedelta(seconds=seconds)
    except OverflowError as error:
        raise click.ClickException(f"the report's time {report.time} cannot be") from error
    if end <= datetime.datetime.now(datetime.timezone.utc):
        raise click.ClickException(
            f"the report is of {report.time}: its labels have expired; make a new one, or give "
            "--expires a longer span"
        )
    return end.strftime("%Y-%m-%dT%H:%M:%SZ")
