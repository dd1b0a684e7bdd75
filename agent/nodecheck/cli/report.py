"""`nodecheck`: one report of this node, of a captured tree, or of saved facts."""

from __future__ import annotations

import shutil
from typing import Any

import click

from nodecheck.cli.inputs import NodeOptions, read_node, read_policy
from nodecheck.cli.models import ModelOptions, read_model, with_storage
from nodecheck.cli.output import Output
from nodecheck.diagnose import diagnose
from nodecheck.render.report.terminal import render


def run(options: dict[str, Any]) -> None:
    """Make the report and print it; write its page where that was asked for."""

    def page() -> str:
        from nodecheck.render.report import html

        return html.page()(report)

    asked = NodeOptions.of(options)
    if asked.python:
        _check_python(asked)
    policy = read_policy(asked.policy)
    output = Output.of(options["page"], as_json=options["as_json"])
    model = ModelOptions.of(options)
    workload = read_model(model)
    if workload and asked.is_live:
        workload = with_storage(workload, model, measures=False)
    report = diagnose(read_node(asked, policy, workload), policy, workload)
    saved = asked.saved is not None
    output.write(report, lambda width: render(report, width, saved=saved), page)


def _check_python(asked: NodeOptions) -> None:
    if asked.root:
        raise click.UsageError("--python tries libraries on this machine, --root looks at another")
    if shutil.which(asked.python or "") is None:
        raise click.BadParameter(f"{asked.python}: no such program", param_hint="--python")
