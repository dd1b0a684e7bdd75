"""`nodecheck`: one report of this node, of a captured tree, or of saved facts."""

from __future__ import annotations

import shutil

import click

from nodecheck.cli.inputs import read_host, read_policy, read_report, read_workload
from nodecheck.cli.output import print_json, print_lines, progress
from nodecheck.diagnose import diagnose, rules
from nodecheck.model import Struct
from nodecheck.policy import Policy
from nodecheck.report import Report


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
    asked = workload.weight_type if workload else policy.reference_workload.weight_type
    seen = read_report(options.saved) if options.saved else _collect(options, policy, asked)
    _print(diagnose(seen, policy, workload), options.as_json)


def _check_python(options: Options) -> None:
    if options.root:
        raise click.UsageError("--python tries libraries on this machine, --root looks at another")
    if shutil.which(options.python or "") is None:
        raise click.BadParameter(f"{options.python}: no such program", param_hint="--python")


def _collect(options: Options, policy: Policy, weight_type: str) -> Report:
    from nodecheck.collect import collect

    kernels = "never" if options.quick else options.kernels
    host = read_host(options.root)
    return collect(
        host,
        kernels=kernels,
        python=options.python,
        thresholds=policy.thresholds,
        weight_type=weight_type,
        progress=progress,
        meanwhile=_load_rules,
    )


def _load_rules() -> None:
    """Import what judges the facts, so that it is there when they are."""
    for _ in rules():
        pass


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    from nodecheck.render import terminal

    print_lines(lambda width: terminal.render(report, width))
