"""A day of the daemon in a few minutes: `python -m tests.daemon.soaking DIRECTORY HOURS [MUTANT]`.

The real service, server and loop, on a clock that jumps to whatever is next where no collector
runs; collectors are real processes. Faults come by a seed. Each minute all that is served is held
against a model, which knows only what befell. Prints a Result as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from nodecheck.daemon import loop as loops
from nodecheck.daemon import service
from nodecheck.daemon.board import Board
from nodecheck.daemon.journal import Journal
from nodecheck.daemon.loaded import Request
from nodecheck.daemon.process import Ended
from nodecheck.model import Struct
from tests.daemon.soaking_day import POLICY, Day, Lines, SoakChild
from tests.daemon.soaking_faults import (
    CALM,
    FAILING,
    HOUR,
    KINDS,
    LONG,
    MINUTE,
    REAL,
    Fault,
    faults,
)
from tests.daemon.soaking_model import Answers
from tests.lab.hanging_mount import is_possible
from tests.processes import children, descriptors, tasks

SEED = 7
FULL_SECONDS = 290
"""Full passes are further apart. Source: half of the shortest interval for kernels."""

COLLECTOR = Path(__file__).with_name("soaking_collector.sh")
PATHS = ("/metrics", "/readyz", "/healthz", "/api/v1/findings", "/api/v1/report")
SUSPENDED_SECONDS = 3 * HOUR
CONFIG = (
    'interval = "60s"\nkernels = "{kernels}"\npolicy = "{policy}"\nlisten = "127.0.0.1:{port}"\n'
)
VERDICT = re.compile(r"(OK|WARNING|CRITICAL|UNKNOWN): ")
WRONG_MOST = 5
"""A day ends when so much is wrong."""


class Held(Struct, frozen=True, kw_only=True):
    """What the daemon holds of the machine."""

    descriptors: int
    threads: int
    children: int
    files: int
    resident_bytes: int
    blocks: int
    """Of Python's own memory, which tells a leak from what the allocator keeps."""


class Result(Struct, frozen=True, kw_only=True):
    """What a day has shown. `wrong` is empty where nothing was."""

    wrong: list[str]
    seen: dict[str, int]
    minutes: int
    stale_minutes: int
    passes: dict[str, int]
    lines: list[str]
    early: Held | None
    late: Held | None


async def ask(port: int) -> Answers:
    """All of PATHS, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    told = Answers({}, {})
    for path in PATHS:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        told.statuses[path] = int(head.split()[1])
        size = int(head.partition("content-length: ")[2].split()[0])
        told.bodies[path] = await reader.readexactly(size)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0)
    return told


def held() -> Held:
    """What this process and its collectors hold now."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return Held(
        descriptors=len(descriptors()),
        threads=tasks(),
        children=len(children()),
        files=sum(1 for _ in Path(tempfile.gettempdir()).rglob("*")),
        resident_bytes=resident * os.sysconf("SC_PAGE_SIZE"),
        blocks=sys.getallocatedblocks(),
    )


class Watch:
    """Lets a day pass, and looks each minute."""

    def __init__(self, day: Day, port: int) -> None:
        self.day, self.port = day, port
        self.minutes = self.stale = 0
        self.early: Held | None = None
        self.late: Held | None = None

    async def look(self) -> None:
        """What is told now against what must be."""
        day, now = self.day, self.day.clock.now()
        told = await ask(self.port)
        for line in day.model.wrong(told, now):
            day.hold(False, line)
        self.minutes += 1
        self.stale += told.statuses["/readyz"] == 503
        day.hold(told.statuses["/healthz"] == 200, "healthz says that the loop hangs")
        calm = day.clock.passed - day.calm_since
        if day.fault is None and calm >= CALM - MINUTE:
            age = now - day.model.received
            day.hold(age <= 2 * MINUTE, f"nothing hinders, and the report is {age:.0f} s old")
            day.hold(told.status != ["critical"] or not self._is_stand_in(), "a fault stays")
        if day.fault and day.fault.kind == "sick" and day.clock.passed - day.fault.start >= 130:
            day.hold(told.status == ["critical"], "a fault of the node is not told")

    def _is_stand_in(self) -> bool:
        newest = self.day.model.newest
        return newest is not None and b"nodecheck_soak_serial" in newest.metrics

    async def minutes_until(self, at: float) -> None:
        """Look each minute until then, as long as not too much is wrong."""
        day = self.day
        while day.clock.passed < at and len(day.wrong) < WRONG_MOST:
            await day.until(min(at, (day.clock.passed // MINUTE + 1) * MINUTE))
            await self.look()

    async def suspend(self) -> None:
        """The guest sleeps for hours, and what was known then is known to be old at once."""
        day = self.day
        day.clock.suspended += SUSPENDED_SECONDS
        told = await ask(self.port)
        fresh = told.statuses["/readyz"] == 200 or told.status != ["unknown"]
        day.hold(not fresh, "hours of sleep do not show")
        day.seen["suspended"] += 1
        await day.until(day.clock.passed + 6)

    async def through(self, fault: Fault) -> None:
        """A calm, then a fault, then look at what was told of it."""
        day = self.day
        await self.minutes_until(fault.start)
        lines = len(day.lines.told)
        await day.befall(fault)
        if fault.kind == "suspended":
            await self.minutes_until((fault.start + fault.end) / 2)
            await self.suspend()
        await self.minutes_until(fault.end)
        told = [line for _, line in day.lines.told[lines:]]
        if fault.kind in FAILING:
            day.hold(any("no report: " in line for line in told), "a failure is not told")
        if fault.kind in ("full_disk", "damaged"):
            day.hold(any("not in the history" in line for line in told), "lost snapshots unsaid")
            day.hold(not day.model.stored, "what cannot be stored is called stored")
        if fault.kind in REAL:  # this machine may be found otherwise in each of them
            told = [line for line in told if not VERDICT.match(line)]
        day.hold(len(told) <= 3, f"{len(told)} lines: {told}")
        await day.is_over()

    async def whole(self, planned: list[Fault], hours: float) -> None:
        """The whole day, with what is held early and late in it."""
        for number, fault in enumerate(planned):
            if len(self.day.wrong) >= WRONG_MOST:
                return
            if self.early is None and (
                fault.start >= HOUR or (not hours and number == len(planned) // 3)
            ):
                await self.minutes_until(fault.start - MINUTE)
                self.early = await self.rest()
            await self.through(fault)
        await self.minutes_until(max(hours * HOUR, planned[-1].end + CALM))
        self.late = await self.rest()

    async def rest(self) -> Held:
        """What is held while no collector runs, and no connection is open."""
        while self.day.how is not None:
            await self.day.until(self.day.clock.passed + 10)
        await asyncio.sleep(0.1)
        return held()


def _never_stale() -> Any:
    fresh = property(lambda board: board.latest is not None)
    return mock.patch.object(Board, "is_fresh", fresh)


def _uncounted() -> Any:
    def miss(loop: loops.Loop, kind: str, _: Ended) -> None:
        loop._schedule.failed(kind, loop.clock.now())

    return mock.patch.object(loops.Loop, "_miss", miss)


def _ever_told() -> Any:
    def state(journal: Journal, _topic: str, _state: object, line: str | None) -> None:
        if line:
            journal.tell(line)

    return mock.patch.object(Lines, "state", state)


def _leaky() -> Any:
    miss = loops.Loop._miss

    def leak(loop: loops.Loop, kind: str, ended: Ended) -> None:
        os.dup(0)
        miss(loop, kind, ended)

    return mock.patch.object(loops.Loop, "_miss", leak)


MUTANTS: dict[str, Callable[[], Any]] = {
    "never_stale": _never_stale,
    "uncounted": _uncounted,
    "ever_told": _ever_told,
    "leaky": _leaky,
}
"""Faults of the daemon's that a day must find."""


def possible() -> tuple[str, ...]:
    """Kinds of faults that can be had here."""
    missing = set()
    if not is_possible():
        missing.add("unkillable")
    if not os.path.ismount(Path(os.environ["NODECHECK_HISTORY"]).parent):
        missing.add("full_disk")
    return tuple(kind for kind in KINDS if kind not in missing)


async def live(directory: Path, hours: float, kinds: tuple[str, ...]) -> Result:
    """A day of the daemon."""
    day = Day(directory, hours)
    planned = faults(hours, kinds, random.Random(SEED))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    policy = directory / "policy.toml"
    policy.write_text(POLICY.format(share=1.0))
    config = directory / "daemon.toml"
    config.write_text(CONFIG.format(kernels="2h" if hours else "10m", policy=policy, port=port))

    class SoakLoop(loops.Loop):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._child = SoakChild(options["command"], day.clock)
            self._child.day = day
            day.child = self._child

    command = ("/bin/sh", str(COLLECTOR), str(directory), sys.executable)
    with (
        mock.patch.object(service, "Loop", SoakLoop),
        mock.patch.object(service, "Journal", return_value=day.lines),
    ):
        serving = asyncio.create_task(
            service.serve(Request(config=str(config)), command, day.clock)
        )
        return await _watched(day, planned, port, serving)


async def _watched(
    day: Day, planned: list[Fault], port: int, serving: asyncio.Task[None]
) -> Result:
    watch = Watch(day, port)
    while not day.clock.alarms:
        await asyncio.sleep(0.01)
        assert not serving.done(), serving.exception()
    await watch.whole(planned, day.hours)
    starts = day.full_starts
    near = [later - one for one, later in pairwise(starts) if later - one < FULL_SECONDS]
    day.hold(not near, f"kernels again after {min(near, default=0):.0f} s")
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    return Result(
        wrong=day.wrong,
        seen=dict(day.seen),
        minutes=watch.minutes,
        stale_minutes=watch.stale,
        passes={" ".join(key): number for key, number in day.model.passes.items()},
        lines=[f"{at / MINUTE:.1f} {line}" for at, line in day.lines.told],
        early=watch.early,
        late=watch.late,
    )


def main(directory: str, hours: str, *mutants: str) -> None:
    random.seed(SEED)
    kinds = possible()
    if mutants:  # found by failures alone
        kinds = tuple(LONG) if "unkillable" in kinds else ("hang", "exit")
    with contextlib.ExitStack() as stack:
        for mutant in mutants:
            stack.enter_context(MUTANTS[mutant]())
        result = asyncio.run(live(Path(directory), float(hours), kinds))
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
