"""The command line. This module is the start-up path: it imports click, nothing else of weight."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from nodecheck import __version__
from nodecheck.cli.options import node_options, size_options

COMMANDS = {
    "bench": ("nodecheck.cli.bench", "Measure memory, placement of the CPUs and decode."),
    "capture": ("nodecheck.cli.capture", "Write this node to a directory, to be judged elsewhere."),
    "explain": ("nodecheck.cli.explain", "Print what a finding means and what to do."),
    "gate": ("nodecheck.cli.gate", "Exit status for monitoring: may this node serve a model?"),
    "plan": ("nodecheck.cli.plan", "Tell whether a model will run well on this node."),
}
"""Command -> the module that holds it, and its line in the help."""

GATE_FAILED = 3
"""What wrong usage and our own failures mean to who gates on the exit status: unknown."""


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
@node_options
@click.option(
    "--python", metavar="FILE", help="Try the serving libraries of this Python interpreter."
)
@click.option("--model", metavar="FILE", help="Judge for this model: see nodecheck plan.")
@size_options
@click.version_option(__version__, message="nodecheck %(version)s")
@click.pass_context
def group(ctx: click.Context, /, **options: Any) -> None:
    """Tell what holds this node back before a model is deployed on it."""
    if ctx.invoked_subcommand is None:
        importlib.import_module("nodecheck.cli.report").run(options)
        return
    given = [name for name in options if ctx.get_parameter_source(name) is not _DEFAULT]
    if given:  # they would be passed over in silence
        option = next(p.opts[0] for p in ctx.command.params if p.name == given[0])
        raise click.UsageError(f"{option} belongs behind {ctx.invoked_subcommand}")


_DEFAULT = click.core.ParameterSource.DEFAULT


def main() -> None:
    """The program. A failure of ours is one line on standard error and status 1, 3 for gate."""
    if sys.stderr is None:  # closed by the caller
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - pathlib is slow, it stays open
    try:
        _check_output()
        status = group.main(prog_name="nodecheck", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - every end has its exit status
        status = GATE_FAILED if _is_gate(sys.argv[1:]) else _failed(error)
        with contextlib.suppress(OSError):  # who reads standard error may be gone too
            _tell(error)
    sys.exit(status if isinstance(status, int) else 0)


def _check_output() -> None:
    if sys.stdout is None:
        raise click.ClickException("standard output is closed")


def _failed(error: BaseException) -> int:
    return error.exit_code if isinstance(error, click.ClickException) else 1


def _tell(error: BaseException) -> None:
    """One line on what went wrong; whoever closed the pipe wants none."""
    if isinstance(error, click.ClickException):
        from nodecheck.render.layout import printable

        said = printable(error.format_message())
        ctx = error.ctx if isinstance(error, click.UsageError) else None
        (click.UsageError(said, ctx) if ctx else click.ClickException(said)).show()
    elif isinstance(error, click.Abort):
        click.echo("Aborted!", err=True)
    elif isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        click.echo(f"Error: {error.filename or 'output'}: {error.strerror or error}", err=True)
    elif not isinstance(error, (BrokenPipeError, SystemExit)):
        line = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
        click.echo(f"Error: nodecheck failed, which is its own fault: {line}", err=True)


def _is_gate(arguments: Sequence[str]) -> bool:
    """Whether the command is gate, whatever else is wrong with the line."""
    words = iter(arguments)
    taking = {opt for p in group.params if isinstance(p, click.Option) and not p.is_flag
              for opt in p.opts}  # fmt: skip
    for word in words:
        if word in taking:
            next(words, None)
        elif not word.startswith("-"):
            return word == "gate"
    return False
