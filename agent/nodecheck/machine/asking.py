"""Questions to file systems that may hang: in a child, and not again while an earlier one hangs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nodecheck.machine import child, stuck
from nodecheck.machine.child import Outcome
from nodecheck.model import Struct

T = TypeVar("T")


class _Answered(Struct, frozen=True, kw_only=True):
    error: str | None = None


def ask(what: str, path: str, task: Callable[[], T], kind: type[T], seconds: float) -> Outcome[T]:
    """What `task` returns, which asks `what` of a path."""
    name = f"{what} {_absolute(path)}"
    if pid := stuck.stuck_pid(name):
        return Outcome(error=f"process {pid} of an earlier run still hangs on it", hung=True)
    outcome = child.call(task, kind, seconds)
    if outcome.stuck_pid is not None:
        stuck.remember(name, outcome.stuck_pid)
    return outcome


def _absolute(path: str) -> Path:
    """Not resolved: that would ask the file system."""
    try:
        return Path.cwd() / path
    except OSError:  # the folder that we are in is gone
        return Path(path)


def why_silent(path: str, task: Callable[[], None], seconds: float) -> str | None:
    """Why `task`, which asks a path in passing, came to nothing; None where it did not."""

    def work() -> _Answered:
        try:
            task()
        except OSError as error:
            return _Answered(error=error.strerror or type(error).__name__)
        except (ValueError, RuntimeError) as error:  # a NUL byte, a link to itself
            return _Answered(error=str(error))
        return _Answered()

    outcome = ask("file", path, work, _Answered, seconds)
    if outcome.value is None:
        return f"{outcome.error}: its file system hangs" if outcome.hung else outcome.error
    return outcome.value.error
