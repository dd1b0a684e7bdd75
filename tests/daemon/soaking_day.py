"""The world around the daemon of a simulated day: its clock, its collectors, what befalls it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nodecheck.daemon.journal import Journal
from nodecheck.daemon.own_metrics import FAILED
from nodecheck.daemon.passes import FULL, LIGHT, Pass, Task
from nodecheck.daemon.process import Child, Clock, Ended
from nodecheck.model import Status
from tests.daemon.soaking_faults import FAILING, MINUTE, REAL, SLOW, Fault
from tests.daemon.soaking_model import Model
from tests.lab.hanging_mount import LOOKUP, hanging_mount
from tests.processes import eventually, state

SLOW_SECONDS = 40.0
PATIENCE_SECONDS = 60.0
POLICY = "required = []\n[thresholds]\nbusy_node_share = {share}\n"


class SoakClock(Clock):
    """Stands still until it is moved; while a guest is suspended only `now` goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = self.suspended = 0.0
        self.alarms: dict[asyncio.Future[object], float] = {}

    def now(self) -> float:
        return 1e6 + self.passed + self.suspended

    async def wait(self, futures: Sequence[asyncio.Future[object]], seconds: float) -> bool:
        alarm: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.alarms[alarm] = self.passed + seconds
        try:
            await asyncio.wait([*futures, alarm], return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self.alarms[alarm]
        return any(each.done() for each in futures)

    def move(self, to: float) -> None:
        self.passed = to
        for alarm, at in self.alarms.items():
            if at <= to and not alarm.done():
                alarm.set_result(None)


class Lines(Journal):
    """Keeps what is told, and in which second."""

    def __init__(self, clock: SoakClock) -> None:
        super().__init__()
        self.told: list[tuple[float, str]] = []
        self._clock = clock

    def tell(self, line: str) -> None:
        self.told.append((self._clock.passed, line))


class Day:
    """The world around the daemon: what collectors do, what they answer, what has befallen."""

    def __init__(self, directory: Path, hours: float) -> None:
        self.directory, self.hours = directory, hours
        self.clock, self.model = SoakClock(), Model()
        self.lines = Lines(self.clock)
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.fault: Fault | None = None
        self.how: str | None = None
        self.since = 0.0
        self.calm_since = 0.0
        self.child: SoakChild | None = None
        self.policies: list[bytes | None] = []
        self.full_starts: list[float] = []
        self._made: Pass | None = None
        self._serial = 0
        self._alone = contextlib.ExitStack()

    # What collectors do.

    def begin(self, kind: str, given: bytes) -> None:
        """A collector is about to start."""
        task = msgspec.msgpack.decode(given, type=Task)
        if task.policy not in self.policies[-1:]:
            self.policies.append(task.policy)
        fault = self.fault.kind if self.fault else ("real" if not self._serial else "ok")
        self.how, self.since = self._behaviour(fault, kind), self.clock.passed
        if kind == FULL:
            self.full_starts.append(self.clock.now())
        self._made = self._answer(kind, fault)
        for name in ("ready", "go"):
            (self.directory / name).unlink(missing_ok=True)
        (self.directory / "answer").write_bytes(msgspec.msgpack.encode(self._made))
        (self.directory / "behave").write_text(f"{self.how}\n")

    def _behaviour(self, fault: str, kind: str) -> str:
        if self.model.stuck and self.child and self.child.stuck_pid is not None:
            return "stuck"
        if fault in REAL and kind == LIGHT:
            return "real"
        return "slow" if fault in SLOW else fault

    def _answer(self, kind: str, fault: str) -> Pass:
        self._serial += 1
        status = Status.CRITICAL if fault == "sick" else Status.OK
        moved = {"clock_back": -40 * 86_400, "clock_forward": 40 * 86_400}.get(fault, 0)
        at = time.gmtime(1.8e9 + self.clock.now() + moved)
        made = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", at)
        headline = "A card is lost" if fault == "sick" else "Nothing holds this node back"
        series = "".join(
            f'nodecheck_status{{status="{each}"}} {each == status.value:d}\n'
            for each in ("ok", "warning", "critical", "unknown")
        )
        told = {"time": made, "status": status.value, "headline": headline}
        return Pass(
            time=made,
            status=status,
            headline=headline,
            report=msgspec.json.encode({**told, "serial": self._serial}),
            findings=msgspec.json.encode({**told, "schema_version": 1, "host": str(self._serial)}),
            metrics=f"{series}nodecheck_soak_serial {self._serial}\n".encode(),
            measured=b"\x80",
            skipped="the node is busy" if (fault, kind) == ("busy", FULL) else None,
            not_stored=self._unstored(fault),
        )

    def _unstored(self, fault: str) -> str | None:
        """A full pass has the same trouble with the history as the light one before it."""
        before = self.model.newest.not_stored if self.model.newest else None
        return before or "no space is left" if fault in ("full_disk", "damaged") else None

    def end(self, kind: str) -> None:
        """It has answered, or not."""
        how, self.how = self.how, None
        assert how is not None
        outcome = FAILED if how == "stuck" else FAILING.get(how)
        self._count(how, kind)
        self.model.stuck = self.child is not None and how in ("unkillable", "stuck")
        if outcome is not None:
            self.model.passes[kind, outcome] += 1
            return
        made = self._made
        if how == "real":
            made = msgspec.msgpack.decode((self.directory / "answer").read_bytes(), type=Pass)
        assert made is not None
        self.model.good(kind, made, self.clock.now())

    def _count(self, how: str, kind: str) -> None:
        fault = self.fault.kind if self.fault else "ok"
        if fault == "busy":
            self.seen["busy"] += kind == FULL
        elif how in ("real", "ok", "slow") and fault != "suspended":
            self.seen[fault] += 1
        elif how != "ok":
            self.seen[how] += 1

    @property
    def is_held(self) -> bool:
        """Whether the collector that runs will say nothing until time passes."""
        if self.how not in ("hang", "stubborn", "unkillable", "slow") or self.child is None:
            return False
        if self.how == "slow" and self.go_at is None:
            return False
        waits = len(self.clock.alarms) > 1 and (self.directory / "ready").exists()
        if self.how == "unkillable":
            return waits and _is_in_mount(self.child.pid)
        return waits

    @property
    def go_at(self) -> float | None:
        """When a slow collector is to answer; None where none is, or it was told to."""
        return self.since + SLOW_SECONDS if self.how == "slow" and self.since >= 0 else None

    # How time passes.

    async def settle(self) -> None:
        """Until all that can be done without time is done."""
        end, quiet = time.monotonic() + PATIENCE_SECONDS, 0
        while quiet < 12:
            if self.how is not None and not self.is_held:
                assert time.monotonic() < end, f"the collector is to {self.how}, and does not"
                quiet = 0
                await asyncio.sleep(0.001)
            else:
                quiet += 1
                await asyncio.sleep(0)

    async def until(self, at: float) -> None:
        """Let time pass."""
        await self.settle()
        while self.clock.passed < at:
            soonest = [at, *self.clock.alarms.values()]
            if self.go_at is not None:
                soonest.append(self.go_at)
            self.clock.move(max(self.clock.passed, min(soonest)))
            if self.go_at is not None and self.clock.passed >= self.go_at:
                (self.directory / "go").touch()
                self.since = -1.0
            await self.settle()

    # What befalls.

    async def befall(self, fault: Fault) -> None:
        """It begins."""
        self.fault = fault
        if fault.kind == "unkillable":
            self._alone.enter_context(hanging_mount(self.directory / "mount", LOOKUP))
        elif fault.kind == "full_disk":
            with (self.history.parent / "filler").open("wb", buffering=0) as file:
                for size in (1 << 16, 4096, 1):
                    with contextlib.suppress(OSError):
                        while file.write(b"\0" * size):
                            pass
        elif fault.kind == "damaged":
            self.history.write_bytes(random.randbytes(1 << 14))
        elif fault.kind == "broken_policy":
            await self.reload("this is [no policy", is_good=False)

    async def is_over(self) -> None:
        """It ends, and all is well again."""
        assert self.fault is not None
        kind, self.fault, self.calm_since = self.fault.kind, None, self.clock.passed
        if kind == "unkillable":
            self._alone.close()
            assert self.child is not None
            assert eventually_dead(self.child.pid)
            await asyncio.sleep(0.05)
            self._alone = contextlib.ExitStack()
        elif kind == "full_disk":
            (self.history.parent / "filler").unlink()
        elif kind == "damaged":
            for file in self.history.parent.iterdir():
                file.unlink()
        elif kind == "broken_policy":
            await self.reload(POLICY.format(share=1 - len(self.lines.told) / 1e4), is_good=True)

    @property
    def history(self) -> Path:
        return Path(os.environ["NODECHECK_HISTORY"])

    async def reload(self, policy: str, *, is_good: bool) -> None:
        """As an administrator does: edit, then SIGHUP."""
        (self.directory / "policy.toml").write_text(policy)
        told, before = len(self.lines.told), set(self.policies)
        os.kill(os.getpid(), signal.SIGHUP)
        end = time.monotonic() + PATIENCE_SECONDS
        while not any("configuration" in line for _, line in self.lines.told[told:]):
            assert time.monotonic() < end, "SIGHUP is not heard"
            await asyncio.sleep(0.005)
        self.model.config_ok = is_good
        await self.settle()
        if is_good:
            self.hold(self.policies[-1] not in before, "a repaired policy is not judged by at once")
        self.seen["reload"] += 1

    def hold(self, is_so: bool, line: str) -> None:
        """Note what is wrong."""
        if not is_so:
            fault = self.fault.kind if self.fault else "calm"
            self.wrong.append(f"minute {self.clock.passed / MINUTE:.1f} ({fault}): {line}")


def _is_in_mount(pid: int) -> bool:
    """Whether it waits for the file system that never answers; not to be killed, then."""
    name = Path(f"/proc/{pid}/comm")
    return name.exists() and name.read_text() == "cat\n" and state(pid) in ("S", "D")


def eventually_dead(pid: int) -> bool:
    return eventually(lambda: state(pid) in (None, "Z"))


class SoakChild(Child):
    """Tells the day when a collector starts and when it has ended."""

    day: Day

    @property
    def pid(self) -> int:
        return self._running.pid if self._running else 0

    async def run(self, arguments: Sequence[str], given: bytes, deadline_seconds: float) -> Ended:
        day = self.day
        day.hold(day.how is None, "two collectors at once")
        day.begin(arguments[0], given)
        try:
            return await super().run(arguments, given, deadline_seconds)
        finally:
            day.end(arguments[0])
