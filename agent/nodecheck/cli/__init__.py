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
from nodecheck.cli import exit_status
from nodecheck.cli.options import node_options, size_options

COMMANDS = {
    "attach": ("nodecheck.cli.attach", "Tell why a running engine is slow right now."),
    "bench": ("nodecheck.cli.bench", "Measure memory, CPU placement, decode and what GPUs copy."),
    "capture": ("nodecheck.cli.capture", "Write this node to a directory, to be judged elsewhere."),
    "daemon": ("nodecheck.cli.daemon", "Check this node at intervals and serve the last report."),
    "explain": ("nodecheck.cli.explain", "Print what a finding means and what to do."),
    "export": ("nodecheck.cli.export", "Write what a report says in other systems' forms."),
    "compare": ("nodecheck.cli.compare", "Set reports side by side: two, or a whole fleet."),
    "gate": ("nodecheck.cli.gate", "Exit status for scripts and monitoring: may it go on?"),
    "history": ("nodecheck.cli.history", "What changed on this node, drifted, fills up or grows."),
    "init": ("nodecheck.cli.init", "Print the files for systemd, cron, Slurm, Kubernetes, ..."),
    "plan": ("nodecheck.cli.plan", "Tell whether a model will run well on this node."),
    "policy": ("nodecheck.cli.policy", "Make or check a policy: what a node is held against."),
    "snapshot": ("nodecheck.cli.snapshot", "Put a report into this node's history."),
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
@click.option("--html", "page", metavar="FILE", help="Write the report as a page too.")
@node_options
@click.option(
    "--python", metavar="FILE", help="Try the serving libraries of this Python interpreter."
)
@click.option(
    "--attach",
    type=click.IntRange(1),
    metavar="PID",
    help="Watch this engine for 5 s too: see nodecheck attach.",
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
    refuse_options(ctx)


def refuse_options(ctx: click.Context) -> None:
    """Raise UsageError where options stand before a subcommand: they would be passed over."""
    for option in ctx.command.params:
        if option.name and ctx.get_parameter_source(option.name) is not _DEFAULT:
            name = ctx.invoked_subcommand or ""
            asked = (
                ctx.command.get_command(ctx, name) if isinstance(ctx.command, click.Group) else None
            )
            takers = _takers(option.opts[0], name, asked) if asked else [name]
            says = f"belongs behind {' or '.join(takers)}" if takers else f"is not for {name}"
            raise click.UsageError(f"{option.opts[0]} {says}")


def _takers(option: str, name: str, command: click.Command) -> list[str]:
    """The command where it takes the option, else those of its subcommands that do."""
    if any(option in known.opts for known in command.params):
        return [name]
    below = command.commands if isinstance(command, click.Group) else {}
    return [who for each, its in below.items() for who in _takers(option, f"{name} {each}", its)]


_DEFAULT = click.core.ParameterSource.DEFAULT


def main() -> None:
    """The program. A failure of ours is one line on standard error and status 1, or the gate's."""
    if sys.stderr is None:  # closed by the caller
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - pathlib is slow, it stays open
    gates = _is_gate(sys.argv[1:])
    try:
        if gates:
            exit_status.begin()
        if sys.argv[1:2] != ["daemon"]:  # it prints nothing
            _check_output()
        status = group.main(prog_name="nodecheck", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001 - every end has its exit status
        status = exit_status.failed_status(sys.argv[1:]) if gates else _failed(error)
        with contextlib.suppress(OSError):  # who reads standard error may be gone too
            _tell(error, gates=gates)
    sys.exit(status if isinstance(status, int) else 0)


def _check_output() -> None:
    if sys.stdout is None:
        raise click.ClickException("standard output is closed")


def _failed(error: BaseException) -> int:
    return error.exit_code if isinstance(error, click.ClickException) else 1


def _tell(error: BaseException, *, gates: bool) -> None:
    """One line on what went wrong; whoever closed the pipe wants none."""
    if gates:
        if why := _why(error):
            exit_status.tell_failure(why)
    elif isinstance(error, click.ClickException):
        from nodecheck.render.layout import printable

        said = printable(error.format_message())
        ctx = error.ctx if isinstance(error, click.UsageError) else None
        (click.UsageError(said, ctx) if ctx else click.ClickException(said)).show()
    elif isinstance(error, click.Abort):
        click.echo("Aborted!", err=True)
    elif why := _why(error):
        click.echo(f"Error: {why}", err=True)


def _why(error: BaseException) -> str | None:
    """What went wrong, in one line."""
    if isinstance(error, (BrokenPipeError, SystemExit)):
        return None
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, exit_status.EndedBySignal):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {error.strerror or error}"
    line = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
    return f"nodecheck failed, which is its own fault: {line}"


def _is_gate(arguments: Sequence[str]) -> bool:
    """Whether the command is gate, whatever else is wrong with the line."""
    words = iter(arguments)
    taking = {opt for p in group.params if isinstance(p, click.Option) and not p.is_flag
              for opt in p.opts}  # fmt: skip
    for word in words:
        if word in taking:
            next(words, None)
        elif word in COMMANDS:
            return word == "gate"
    return False
