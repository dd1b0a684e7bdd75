"""The command line. This module is the start-up path: it imports click, nothing else of weight."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from nodecheck import __version__

COMMANDS = {
    "bench": ("nodecheck.cli.bench", "Measure memory, placement of the CPUs and decode."),
    "capture": ("nodecheck.cli.capture", "Write this node to a directory, to be judged elsewhere."),
    "explain": ("nodecheck.cli.explain", "Print what a finding means and what to do."),
}
"""Command -> the module that holds it, and its line in the help."""


class _Group(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in sorted(COMMANDS.items())])


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the report as JSON (docs/report.schema.json)."
)
@click.option("--quick", is_flag=True, help="Run no kernels: the same as --kernels never.")
@click.option(
    "--kernels",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Measure memory; auto leaves it out on a node that is serving.",
)
@click.option(
    "--from", "saved", metavar="FILE", help="Judge a saved report again; - for standard input."
)
@click.option("--root", metavar="DIR", help="Diagnose a captured tree instead of this machine.")
@click.option("--policy", metavar="FILE", help="Thresholds and waivers (TOML).")
@click.option(
    "--python", metavar="FILE", help="Try the serving libraries of this Python interpreter."
)
@click.option(
    "--weights",
    metavar="SIZE",
    help="Judge for a model of this size, e.g. 16.3GiB; needs --layers.",
)
@click.option(
    "--layers",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Transformer blocks of that model.",
)
@click.option(
    "--weight-type",
    type=click.Choice(["q4_0", "q4_k", "q8_0", "f16"]),
    default="q4_k",
    show_default=True,
    help="Quantisation of that model.",
)
@click.version_option(__version__, message="nodecheck %(version)s")
@click.pass_context
def group(ctx: click.Context, /, **options: Any) -> None:
    """Tell what holds this node back before a model is deployed on it."""
    if ctx.invoked_subcommand is None:
        report = importlib.import_module("nodecheck.cli.report")
        report.run(report.Options(**options))


def main() -> None:
    """The program. A failure of ours is one line on standard error and exit status 1."""
    if sys.stderr is None:  # closed by the caller
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - pathlib is slow, it stays open
    if sys.stdout is None:
        sys.exit("Error: standard output is closed")
    try:
        group.main(prog_name="nodecheck")
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        click.echo(f"Error: {error.filename or 'output'}: {error.strerror or error}", err=True)
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - a crash of ours is one line, not a traceback
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        click.echo(f"Error: nodecheck failed, which is its own fault: {line}", err=True)
        sys.exit(1)
