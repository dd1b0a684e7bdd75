"""What is made on demand, in one short-lived child at a time: pages, history, the API's document.

The daemon imports no renderer and reads no history: both are large, and a disk may hang.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import NamedTuple

from nodecheck.daemon.process import Child, Clock

DEADLINE_SECONDS = 20.0
"""A page takes half a second. Source: nodecheck's own judgement, for a disk that is slow."""

PATIENCE_SECONDS = 25.0
"""How long a request waits: for a child, and a little for the one before it."""

FAILED_SECONDS = 5.0
"""How long a failure is told again before the next try."""

KEPT = 8
"""Answers that are kept: the page, five spans of history, the API's document, and one to spare."""

WAITING = 16
"""Requests that may wait at once: those beyond are refused, so that scrapes find room."""

COMMAND = (sys.executable, "-m", "nodecheck.daemon.making")


class MakingError(Exception):
    """It could not be made; the message is one line. `lasts` where asking again soon is in vain."""

    def __init__(self, line: str, *, lasts: bool = False) -> None:
        super().__init__(line)
        self.lasts = lasts


class _Key(NamedTuple):
    what: str
    report: bytes


class _Failure(NamedTuple):
    at: float
    line: str
    lasts: bool


class Making:
    """Makes and keeps answers. Of equal questions one child answers all."""

    def __init__(
        self,
        child: Child | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._child = child or Child(COMMAND, Clock())
        self._deadline_seconds = deadline_seconds
        self._patience_seconds = patience_seconds
        self._kept: dict[_Key, bytes] = {}
        self._failed: dict[_Key, _Failure] = {}
        self._tasks: dict[_Key, asyncio.Task[bytes]] = {}
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def __call__(self, what: str, report: bytes) -> bytes:
        """The answer to `what` (the child's arguments) of a report. Raises MakingError."""
        key = _Key(what, report)
        if (kept := self._kept.get(key)) is not None:
            return kept
        self._refuse(key)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._make(key))
            # nobody may be left to hear of a failure
            self._tasks[key].add_done_callback(lambda task: task.cancelled() or task.exception())
        self._waiting += 1
        try:
            task = asyncio.shield(self._tasks[key])
            return await asyncio.wait_for(task, self._patience_seconds)
        except asyncio.TimeoutError as error:
            raise MakingError(f"{what}: not made within {self._patience_seconds:g} s") from error
        finally:
            self._waiting -= 1

    async def stop(self) -> None:
        """End the child, if there is one."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refuse(self, key: _Key) -> None:
        failed = self._failed.get(key)
        if failed and time.monotonic() - failed.at < FAILED_SECONDS:
            raise MakingError(failed.line, lasts=failed.lasts)
        if self._waiting >= WAITING:
            raise MakingError("too many wait for it")

    async def _make(self, key: _Key) -> bytes:
        try:
            async with self._turn:
                ended = await self._child.run(key.what.split(), key.report, self._deadline_seconds)
        finally:
            del self._tasks[key]
        if ended.answer is None:
            line = f"{key.what}: {ended.error}"
            lasts = not ended.timed_out and self._child.stuck_pid is None  # it said why
            self._fail(key, line, lasts=lasts)
            raise MakingError(line, lasts=lasts)
        self._keep(key, ended.answer)
        return ended.answer

    def _fail(self, key: _Key, line: str, *, lasts: bool) -> None:
        now = time.monotonic()
        recent = {k: v for k, v in self._failed.items() if now - v.at < FAILED_SECONDS}
        self._failed = {**recent, key: _Failure(now, line, lasts)}

    def _keep(self, key: _Key, made: bytes) -> None:
        """Keep the newest, and nothing of an earlier report."""
        of_now = {b"", key.report}
        current = {k: v for k, v in self._kept.items() if not key.report or k.report in of_now}
        self._kept = dict([*current.items(), (key, made)][-KEPT:])
