"""Questions to file systems that may hang: in a child, and not again while an earlier one hangs."""

from __future__ import annotations

import gc
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Generic, TypeVar, cast

from nodecheck.machine import child, stuck
from nodecheck.machine.child import Outcome
from nodecheck.model import Struct

T = TypeVar("T")

IN_TURN = 100
"""Paths that a child asks, one after the other: starting it takes longer than one of them does."""


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


def ask_each(
    paths: Sequence[str], task: Callable[[str], T], kind: type[T], seconds: float
) -> Iterator[tuple[str, Outcome[T]]]:
    """What `task` returns of each path, in no order; no path is waited for longer than `seconds`.

    Where one hangs, no more of its folder are asked.
    """
    silent: dict[Path, str] = {}
    left = deque(paths[at : at + IN_TURN] for at in range(0, len(paths), IN_TURN))
    while left:
        batches: list[_Batch[T]] = []
        while left and len(batches) < len(os.sched_getaffinity(0)):
            asked = left.popleft()
            told = dict(_told_before(asked, silent))
            yield from ((path, Outcome(error=why, hung=True)) for path, why in told.items())
            if rest := [path for path in asked if path not in told]:
                batches.append(_Batch(rest, task))
        for batch, outcome in zip(batches, _outcomes(batches, kind, seconds), strict=True):
            answered, again = batch.answers(outcome)
            left.extendleft(again)
            for path, each in answered:
                if each.hung:
                    silent[_absolute(path).parent] = f"{each.error}, for {path}"
                yield path, each


def _told_before(paths: Sequence[str], silent: dict[Path, str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        where = _absolute(path)
        if where.parent in silent:
            yield path, silent[where.parent]
        elif pid := stuck.stuck_pid(f"file {where}"):
            yield path, f"process {pid} of an earlier run still hangs on it"


class _Batch(Generic[T]):
    """Paths that one child asks; the place of the one that it is at is shared with it."""

    def __init__(self, paths: Sequence[str], task: Callable[[str], T]) -> None:
        self.paths = paths
        self.task = task
        self._at = mmap.mmap(-1, 8)

    def work(self) -> tuple[T, ...]:
        found = []
        for number, path in enumerate(self.paths):
            self._at[:] = number.to_bytes(8, "little")
            found.append(self.task(path))
        return tuple(found)

    def answers(
        self, outcome: Outcome[tuple[T, ...]]
    ) -> tuple[list[tuple[str, Outcome[T]]], list[Sequence[str]]]:
        """What was answered, and the paths that are to be asked again.

        A child that failed was at one path. That is to blame, unless the others took the time.
        """
        if outcome.value is not None:
            found = zip(self.paths, outcome.value, strict=True)
            return [(path, Outcome(value=value)) for path, value in found], []
        at = int.from_bytes(self._at[:], "little")
        before, path, after = self.paths[:at], self.paths[at], self.paths[at + 1 :]
        if outcome.hung and outcome.stuck_pid is None and before:
            return [], [before, [path, *after]]
        if outcome.stuck_pid is not None:
            stuck.remember(f"file {_absolute(path)}", outcome.stuck_pid)
        blamed: Outcome[T] = Outcome(error=outcome.error, hung=outcome.hung)
        return [(path, blamed)], [part for part in (before, after) if part]


def _outcomes(
    batches: Sequence[_Batch[T]], kind: type[T], seconds: float
) -> Iterable[Outcome[tuple[T, ...]]]:
    answer = cast("type[tuple[T, ...]]", GenericAlias(tuple, (kind, ...)))
    tasks = {str(place): batch.work for place, batch in enumerate(batches)}
    gc.freeze()  # a child's collector would touch, and so copy, all that is there
    found = child.gather(tasks, answer, seconds)
    return [found[name] for name in tasks]
