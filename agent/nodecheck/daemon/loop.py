"""The loop: starts the collector when a pass is due and takes what it answers. It outlives it.

It touches neither the machine nor the history. All time goes by one clock.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections.abc import Callable, Sequence

import msgspec

from nodecheck.daemon.board import Board
from nodecheck.daemon.journal import Journal
from nodecheck.daemon.loaded import Loaded
from nodecheck.daemon.notify import Notifier
from nodecheck.daemon.own_metrics import FAILED, OK, TIMEOUT, Tally
from nodecheck.daemon.passes import FULL, LIGHT, Pass, Task
from nodecheck.daemon.process import Child, Clock, Ended
from nodecheck.daemon.schedule import Schedule

COLLECTOR = (sys.executable, "-m", "nodecheck.daemon.collector")

SLOWEST_PROBE_SECONDS = 36.0
"""What the slowest check's probe may take. Source: checks/gpu, for eight cards that sleep; the
daemon imports no check, so a test holds it against them."""

KERNELS_SECONDS = 5.0
"""What measuring memory may take, after the probes. Source: checks/dram."""

BESIDE_SECONDS = 25.0
"""To start, to reap probes that hang, to store a snapshot on a file system that hangs (15 s), to
judge. Source: records/snapshots/place.py; the rest is nodecheck's own judgement."""

DEADLINE_SECONDS = {
    LIGHT: SLOWEST_PROBE_SECONDS + BESIDE_SECONDS,
    FULL: SLOWEST_PROBE_SECONDS + KERNELS_SECONDS + BESIDE_SECONDS,
}
"""What a pass may take before it is killed."""

TURN_SECONDS = 5.0
"""The loop goes round at least so often: by the clock of a guest that was suspended, a pass may be
long due."""

BEAT_SECONDS = 0.05
"""Signs of life come no more often, whatever is wanted: they would take a core."""

HOLDS_INTERVALS = 2
"""What was measured so many intervals of full passes ago holds no more."""


NOT_RELOADED = "the configuration that was read last cannot be used"


class Loop:
    """Turns until it is told to stop. `board` and `tally` are what others read.

    `command` is what is run for a pass, its kind as the last word: a test's may hang or lie.
    """

    def __init__(
        self,
        loaded: Loaded,
        journal: Journal,
        notifier: Notifier,
        *,
        command: Sequence[str] = COLLECTOR,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        settings = loaded.settings
        self.clock = clock or Clock()
        slack = max(DEADLINE_SECONDS.values())
        self.board = Board(settings.interval_seconds, slack, self.clock.now)
        self.tally = Tally()
        self._loaded = loaded
        self._journal, self._notifier = journal, notifier
        self._child = Child(command, self.clock)
        self._measured: bytes | None = None
        self._sources: bytes | None = None
        self._unmeasured: dict[str, str] = {}
        self._woken = asyncio.Event()
        self._schedule = Schedule(
            settings.interval_seconds, settings.kernels_interval_seconds, self.clock.now(), chance
        )

    def reload(self, loaded: Loaded) -> None:
        """Go on with these settings and this policy, which is judged by at once."""
        settings = loaded.settings
        self._loaded = loaded
        self.board.interval_seconds = settings.interval_seconds
        self._schedule.change(
            settings.interval_seconds, settings.kernels_interval_seconds, self.clock.now()
        )
        self._schedule.hurry(self.clock.now())
        self._woken.set()

    async def turn(self, stopping: asyncio.Future[object]) -> None:
        """Go round until `stopping` is done; a pass that runs then is ended."""
        running: asyncio.Task[object] | None = None
        woken: asyncio.Task[object] = asyncio.create_task(self._wait_until_woken())
        try:
            while not stopping.done():
                if woken.done():
                    woken = asyncio.create_task(self._wait_until_woken())
                self.board.turn()
                self._notifier.watchdog()
                if running is not None and running.done():
                    running = None
                kind = self._schedule.due(self.clock.now()) if running is None else None
                if kind is not None:
                    running = asyncio.create_task(self._pass(kind))
                events = [stopping, woken, *filter(None, [running])]
                await self.clock.wait(events, self._pause_seconds(is_running=running is not None))
        finally:
            left = [woken, *filter(None, [running])]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _wait_until_woken(self) -> None:
        await self._woken.wait()
        self._woken.clear()

    def _pause_seconds(self, *, is_running: bool) -> float:
        """Until something is due: a pass, a sign of life."""
        beat = self._notifier.watchdog_seconds
        most = TURN_SECONDS if beat is None else min(TURN_SECONDS, max(BEAT_SECONDS, beat / 2))
        return most if is_running else min(most, self._schedule.seconds_left(self.clock.now()))

    async def _pass(self, kind: str) -> None:
        """Make one, whatever comes of it."""
        started, loaded = self.clock.now(), self._loaded
        try:
            ended = await self._child.run([kind], self._task(), DEADLINE_SECONDS[kind])
            made = _decoded(ended)
        except Exception as error:  # noqa: BLE001 - the loop outlives whatever it is
            made = Ended(error=f"{type(error).__name__}: {error}")
        self.tally.seconds[kind] = self.clock.now() - started
        self.tally.stuck = self._child.stuck_pid is not None
        if isinstance(made, Pass):
            self._take(kind, made)
        else:
            self._miss(kind, made)
        if self._loaded is not loaded:  # it was made by the old policy
            self._schedule.hurry(self.clock.now())

    def _task(self) -> bytes:
        kernels = self._loaded.settings.kernels_interval_seconds
        task = Task(
            policy=self._loaded.policy,
            measured=self._measured if kernels else None,
            measured_seconds=HOLDS_INTERVALS * kernels if kernels else None,
            sources=self._sources,
            unmeasured=self._unmeasured,
        )
        return msgspec.msgpack.encode(task)

    def _take(self, kind: str, made: Pass) -> None:
        """A report: publish it, and set what is next."""
        lost = self._measured is not None and made.measured is None
        self._measured, self._sources = made.measured, made.sources
        self._unmeasured = made.unmeasured
        self.board.take(made)
        self.tally.passes[kind, OK] += 1
        self.tally.stored = made.not_stored is None
        if kind == FULL:
            self.tally.skipped = made.skipped is not None
        self._schedule.ended(
            kind, self.clock.now(), again=made.confirm or lost, skipped=made.skipped is not None
        )
        self._tell(kind, made)

    def _tell(self, kind: str, made: Pass) -> None:
        line = f"{made.status.value.upper()}: {made.headline}"
        self._notifier.status(line if self.tally.config_ok else f"{line} ({NOT_RELOADED})")
        self._journal.state("passes", None, "reports are made again")
        self._journal.state("status", _without_figures(line), line)
        unstored = made.not_stored
        self._journal.state("history", unstored, unstored and f"not in the history: {unstored}")
        if kind == FULL:
            skipped = made.skipped
            self._journal.state("kernels", bool(skipped), skipped and f"not measured: {skipped}")

    def _miss(self, kind: str, ended: Ended) -> None:
        """No report. The last one stays, and goes stale."""
        self.tally.passes[kind, TIMEOUT if ended.timed_out else FAILED] += 1
        if kind == FULL:
            self._unmeasured = {}
        self._schedule.failed(kind, self.clock.now())
        line = f"no report: the {kind} pass failed: {ended.error}"
        self._journal.state("passes", _without_figures(str(ended.error)), line)
        self._notifier.status(line)


def _without_figures(line: str) -> str:
    """The same for lines that differ in figures alone: none of them is news."""
    return re.sub(r"\d[\d.,]*", "0", line)


def _decoded(ended: Ended) -> Pass | Ended:
    if ended.answer is None:
        return ended
    try:
        return msgspec.msgpack.decode(ended.answer, type=Pass)
    except msgspec.MsgspecError as error:
        return Ended(error=f"it answered what is no report: {error}")
