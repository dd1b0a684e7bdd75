"""`nodecheck compare`: two reports side by side, or a whole fleet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from nodecheck.cli.options import policy_option
from nodecheck.words import told_name


@click.command("compare")
@click.argument("operands", metavar="A B | DIR | FILE...", nargs=-1, required=True)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print it as JSON (docs/compare.schema.json; of a fleet docs/fleet.schema.json).",
)
@click.option("--html", "page", metavar="FILE", help="Write a page too.")
@policy_option
def command(operands: tuple[str, ...], **options: Any) -> None:
    """Set two reports side by side: what changed, and what it means for serving.

    A and B are report files (- for standard input) or snapshots of this node: @-1 the one stored
    last, @17, @2026-11-29. Both are judged anew, by the same rules and policy. A folder of reports,
    or three and more, are a fleet: which node is the odd one.
    """
    if "" in operands:
        raise click.UsageError("the name of a report is empty")
    if operands.count("-") > 1:
        raise click.UsageError("standard input can be read once")
    if len(operands) == 2 and not any(map(_is_folder, operands)):
        _pair(operands, options)
        return
    from nodecheck.cli import fleet

    fleet.run(operands, options)


def _is_folder(name: str) -> bool:
    from nodecheck.cli.inputs import READ_SECONDS
    from nodecheck.machine.asking import why_silent

    return why_silent(name, lambda: _enter(name), READ_SECONDS) is None


def _enter(name: str) -> None:
    with os.scandir(name) as found:
        next(found, None)


def _pair(operands: Sequence[str], options: dict[str, Any]) -> None:
    from nodecheck.cli.inputs import read_policy, read_report_or_snapshot
    from nodecheck.cli.output import Output
    from nodecheck.diagnose import diagnose
    from nodecheck.records.compare.compare import compare
    from nodecheck.render.compare.terminal import render

    def page() -> str:
        from nodecheck.render.compare import html

        return html.page()(made)

    policy = read_policy(options["policy"])
    output = Output.of(options["page"], as_json=options["as_json"])
    before, after = (
        (
            "standard input" if name == "-" else told_name(name),
            diagnose(read_report_or_snapshot(name), policy),
        )
        for name in operands
    )
    made = compare(before, after)
    output.write(made, lambda width: render(made, width), page)
