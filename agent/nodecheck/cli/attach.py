"""`nodecheck attach`: why a running engine is slow right now, once or again and again."""

from __future__ import annotations

import contextlib

import click
import msgspec

from nodecheck.checks.engine import MOST_SECONDS
from nodecheck.checks.engine.engines import ENGINES
from nodecheck.cli.inputs import WINDOW_SECONDS, NodeOptions, read_host, read_node, read_policy
from nodecheck.cli.output import (
    can_redraw,
    draw,
    load_styles,
    print_lines,
    print_stream,
    progress,
)
from nodecheck.cli.processes import check_process, process_of
from nodecheck.collect import watch
from nodecheck.diagnose import diagnose
from nodecheck.judge.engine.answer import CHECK
from nodecheck.machine.host import Host
from nodecheck.model import pretty_json
from nodecheck.policy import Policy
from nodecheck.render.attach.line import line
from nodecheck.render.attach.terminal import render
from nodecheck.report import Report


@click.command("attach")
@click.argument("pid", type=click.IntRange(1), metavar="[PID]", required=False)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="Find the process: the engine must run once on this node.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, MOST_SECONDS),
    default=int(WINDOW_SECONDS),
    show_default=True,
    metavar="N",
    help="How long it is watched before it is judged.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the report as JSON (docs/report.schema.json); with --watch one a line.",
)
@click.option(
    "--watch", "again", is_flag=True, help="Again and again, until Ctrl-C or until it ends."
)
def command(
    pid: int | None, engine: str | None, seconds: int, *, as_json: bool, again: bool
) -> None:
    """Tell why a running engine is slow right now, and which setting to change.

    PID is a process of it; all that this one started is watched too. It is read only: nothing is
    stopped, traced or written. What another user's process hides is told as not seen.
    """
    if (pid is None) is (engine is None):
        raise click.UsageError("say which: nodecheck attach PID, or --engine NAME")
    policy, host = read_policy(None), read_host(None)
    if pid is None:
        pid = process_of(host, engine or "")
    check_process(host, pid)
    watching = _Watching(host, pid, seconds, policy)
    if again:
        _again(watching, policy, as_json=as_json)
    elif (report := watching.look()) is None:
        raise click.ClickException(f"process {pid} ended before it could be watched")
    elif as_json:
        progress("")
        print_stream([pretty_json(report)])
    else:
        print_lines(lambda width: render(report, width, policy))


class _Watching:
    """The node as it was found, and the process that is looked at."""

    def __init__(self, host: Host, pid: int, seconds: int, policy: Policy) -> None:
        asked = NodeOptions(quick=True, kernels="never", saved=None, root=None, policy=None)
        self.pid = pid
        self._host, self._seconds, self._policy = host, seconds, policy
        load_styles()
        self._node = read_node(asked, policy, None)

    def look(self) -> Report | None:
        """The report of a window; None where the process is gone. Raises ClickException."""
        progress(f"watching process {self.pid} for {self._seconds} s")
        seen = watch(self._host, self._node, self.pid, self._seconds)
        if seen.facts.engine.state == "absent":
            return None
        if seen.facts.engine.state is None:
            why = next((g.detail for g in seen.gaps if g.check == CHECK), "it is not known why")
            raise click.ClickException(f"process {self.pid} could not be watched: {why}")
        return diagnose(seen, self._policy)


def _again(watching: _Watching, policy: Policy, *, as_json: bool) -> None:
    """Window after window, until Ctrl-C or until the process ends."""
    redraws, first = can_redraw() and not as_json, True
    with contextlib.suppress(KeyboardInterrupt):
        while report := watching.look():
            _show(report, policy, as_json=as_json, screen=first if redraws else None)
            if report.facts.engine.state == "ended":
                break
            first = False
        progress("")
        click.echo(f"Process {watching.pid} has ended.", err=True)
        return
    progress("")


def _show(report: Report, policy: Policy, *, as_json: bool, screen: bool | None) -> None:
    """As JSON on a line; on the screen, where True says that it is the first; else as a line."""
    if as_json:
        progress("")
        print_stream([msgspec.json.encode(report), b"\n"])
    elif screen is None:
        print_lines(lambda _: [line(report, policy)])
    else:
        draw(lambda width: render(report, width, policy), first=screen)
