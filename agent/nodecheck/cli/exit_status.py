"""How the gate ends: its exit statuses by what reads them, and its line where it could not judge.

Who gates on a status must be told the right one whatever is broken: nothing of weight is imported.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from types import FrameType

import click

from nodecheck.words import first_line, without_controls

EXIT_STATUSES = {
    "nagios": {"ok": 0, "warning": 1, "critical": 2, "unknown": 3},
    "npd": {"ok": 0, "warning": 1, "critical": 1, "unknown": 2},
    "posix": {"ok": 0, "warning": 1, "critical": 1, "unknown": 1},
}
"""Source: the guidelines of the Monitoring Plugins; node-problem-detector's custom plugins."""

STYLE_OPTION = "--exit-style"
DEFAULT_STYLE = "nagios"
SLURM_OPTION = "--slurm"

SLURM_CONTEXT = "SLURM_SCRIPT_CONTEXT"
"""What Slurm names a prolog or an epilog in. Source: Slurm's Prolog and Epilog Guide."""


class EndedBySignal(BaseException):
    """A signal asks us to end."""


def begin() -> None:
    """From now on Ctrl-C, SIGTERM and SIGHUP raise EndedBySignal, and any name can be printed."""
    import signal

    def end(number: int, _: FrameType | None) -> None:
        for each in ending:  # while that is told, no other signal counts
            signal.signal(each, signal.SIG_IGN)
        raise EndedBySignal(f"ended by {signal.Signals(number).name}")

    ending = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it
        ending.append(signal.SIGHUP)
    for number in ending:
        signal.signal(number, end)
    if sys.stdout is None and in_script_of_job():  # closed; the verdict counts all the same
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - as main does it
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def end_after(seconds: float) -> None:
    """After so many seconds EndedBySignal is raised, whatever is being waited for."""
    import signal

    def end(_number: int, _: FrameType | None) -> None:
        raise EndedBySignal(f"not done within {seconds:g} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def in_script_of_job() -> bool:
    """Whether we are of a prolog or an epilog: Slurm acts on our status, and wants no scontrol."""
    return SLURM_CONTEXT in os.environ


def failed_status(arguments: Sequence[str]) -> int:
    """What wrong usage and our own failures mean to who gates: unknown, in the style asked for.

    To Slurm a prolog that fails means that the node is drained, so there it is none: what is wrong
    with us would drain a fleet.
    """
    style = DEFAULT_STYLE
    if SLURM_OPTION in arguments:
        return 0 if in_script_of_job() else 1
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if option == STYLE_OPTION:
            style = value if equals else following
    return EXIT_STATUSES.get(style, EXIT_STATUSES[DEFAULT_STYLE])["unknown"]


def print_answer(text: str) -> None:
    """Print it. What nobody can read is unknown, and raises; but not in a prolog or epilog.

    There the status is the answer, and known: whoever holds the output back is not waited for.
    """
    try:
        click.echo(text)
    except (OSError, EndedBySignal) as error:
        if not in_script_of_job():
            raise
        why = error.strerror if isinstance(error, OSError) else error
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.echo(f"{text} (standard output: {why})", err=True)


def tell_failure(why: str) -> None:
    """The first line as monitoring reads it, and all of it on standard error."""
    try:
        click.echo(first_line(f"UNKNOWN {why}"))
    except OSError as error:  # who reads one may be gone, and the other there
        why += f" (standard output: {error.strerror})"
    with contextlib.suppress(OSError):
        click.echo(f"Error: {without_controls(why)}", err=True)
