"""`nodecheck`: one report of this node, of a captured tree, or of saved facts."""

from __future__ import annotations

import shutil
from typing import Any

import click

from nodecheck.cli.inputs import NodeOptions, read_node, read_policy
from nodecheck.cli.models import ModelOptions, read_model, with_storage
from nodecheck.cli.output import print_json, print_lines, writable, write_page
from nodecheck.diagnose import diagnose
from nodecheck.report import Report, to_json


def run(options: dict[str, Any]) -> None:
    """Make the report and print it; write its page where that was asked for."""
    asked = NodeOptions.of(options)
    if asked.python:
        _check_python(asked)
    policy = read_policy(asked.policy)
    file = None if options["page"] is None else writable(options["page"])
    model = ModelOptions.of(options)
    workload = read_model(model)
    if workload and asked.is_live:
        workload = with_storage(workload, model, measures=False)
    report = diagnose(read_node(asked, policy, workload), policy, workload)
    _print(report, as_json=options["as_json"])
    if file:
        from nodecheck.render.report_html import page

        write_page(file, page()(report))


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(report))
        return
    from nodecheck.render import terminal

    print_lines(lambda width: terminal.render(report, width))


def _check_python(asked: NodeOptions) -> None:
    if asked.root:
        raise click.UsageError("--python tries libraries on this machine, --root looks at another")
    if shutil.which(asked.python or "") is None:
        raise click.BadParameter(f"{asked.python}: no such program", param_hint="--python")
