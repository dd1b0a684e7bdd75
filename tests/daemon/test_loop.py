"""The loop with a collector that does as it is told, on a clock that runs fast."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodecheck.checks import CHECKS
from nodecheck.collect import LAST, _deadline_seconds
from nodecheck.daemon import loop as loops
from nodecheck.daemon.journal import Journal
from nodecheck.daemon.loaded import Loaded
from nodecheck.daemon.loop import DEADLINE_SECONDS, KERNELS_SECONDS, SLOWEST_PROBE_SECONDS, Loop
from nodecheck.daemon.notify import Notifier
from nodecheck.daemon.own_metrics import FAILED, OK, TIMEOUT
from nodecheck.daemon.passes import FULL, LIGHT, Pass, Task
from nodecheck.daemon.process import ANSWER_LIMIT_BYTES, Clock, watch_children_without_threads
from nodecheck.daemon.settings import Settings
from nodecheck.model import Status
from nodecheck.records.snapshots import place
from tests.processes import children, descriptors, is_running, tasks

HERE = Path(__file__).parent
PATIENCE_SECONDS = 30.0
SPEED = 60.0
"""A minute a second."""

FAST = 300.0
"""A collector may then take 0.2 s."""


class Lines(Journal):
    """Keeps what is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def tell(self, line: str) -> None:
        self.lines.append(line)


class Statuses(Notifier):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__({})
        self.sent: list[str] = []

    def _send(self, *lines: str) -> None:
        self.sent += lines


ANSWERS: dict[str, dict[str, Any]] = {
    "ok": {},
    "slow": {},
    "measured": {"measured": b"measured", "unmeasured": {"cuda": "it hangs"}},
    "confirm": {"confirm": True, "status": Status.CRITICAL},
    "skipped": {"skipped": "the node is busy"},
    "unstored": {"not_stored": "the disk is full"},
}
"""How the collector may behave well, and what it then answers."""


def answer(how: str, kind: str, **changes: Any) -> bytes:
    usual = Pass(
        time="2026-03-01T12:00:00+00:00",
        status=Status.OK,
        headline=f"a {kind} pass",
        report=b"{}",
        findings=b"{}",
        metrics=b"",
    )
    members = ANSWERS[how] if kind == FULL or how != "skipped" else {}
    return msgspec.msgpack.encode(msgspec.structs.replace(usual, **{**members, **changes}))


@dataclass
class Turning:
    """A loop, and what is told to and by its collector."""

    directory: Path
    kernels: int | None = None
    interval: int = 10
    speed: float = SPEED
    command: tuple[str, ...] = ()
    journal: Lines = field(default_factory=Lines)
    notifier: Statuses = field(default_factory=Statuses)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        (self.directory / "tasks").mkdir()
        for how in ANSWERS:
            for kind in (LIGHT, FULL):
                (self.directory / f"{how}.{kind}").write_bytes(answer(how, kind))
        self.behave("ok")

    def behave(self, how: str) -> None:
        part = self.directory / "behave.part"
        part.write_text(f"{how}\n")
        part.replace(self.directory / "behave")

    def runs(self) -> list[tuple[str, int]]:
        """Kind and process id of each."""
        file = self.directory / "runs"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(kind, int(pid)) for kind, pid in map(str.split, lines)]

    def tasks(self) -> list[Task]:
        """What each run was given."""
        place = self.directory / "tasks"
        return [
            msgspec.msgpack.decode((place / str(pid)).read_bytes(), type=Task)
            for _, pid in self.runs()
        ]

    def loaded(self, policy: bytes = b"policy", **members: Any) -> Loaded:
        settings = {"interval_seconds": self.interval, "kernels_interval_seconds": self.kernels}
        return Loaded(settings=Settings(**{**settings, **members}), policy=policy)

    def passes(self, kind: str, outcome: str) -> int:
        return self.loop.tally.passes[kind, outcome]

    def turn(self, watch: Callable[[Turning], Coroutine[Any, Any, None]]) -> None:
        """Let it turn until `watch` has seen enough."""
        fake = ("/bin/sh", str(HERE / "fake_collector.sh"), str(self.directory))

        async def both() -> None:
            watch_children_without_threads()
            self.loop = Loop(
                self.loaded(), self.journal, self.notifier,
                command=self.command or fake, clock=Clock(self.speed), chance=lambda: 0.5,
            )  # fmt: skip
            stopping = asyncio.get_running_loop().create_future()
            turning = asyncio.create_task(self.loop.turn(stopping))
            try:
                await watch(self)
            finally:
                stopping.set_result(None)
                await turning

        asyncio.run(both())


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.01)


@pytest.fixture
def turning(tmp_path: Path) -> Turning:
    return Turning(tmp_path)


def test_before_the_first_report_nothing_is_known(turning: Turning) -> None:
    turning.behave("hang")

    async def watch(made: Turning) -> None:
        await until(lambda: len(made.runs()) == 1)
        assert made.loop.board.latest is None
        assert not made.loop.board.is_fresh

    turning.turn(watch)


def test_a_report_is_published_and_told_once(turning: Turning) -> None:
    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, OK) >= 3)
        assert made.loop.board.latest
        assert made.loop.board.is_fresh
        assert made.loop.tally.seconds[LIGHT] > 0

    turning.turn(watch)
    assert turning.journal.lines == ["OK: a light pass"]
    assert [line for line in turning.notifier.sent if line.startswith("STATUS")] == [
        "STATUS=OK: a light pass"
    ]
    assert {kind for kind, _ in turning.runs()} == {LIGHT}
    assert {task.policy for task in turning.tasks()} == {b"policy"}


def test_what_was_measured_is_handed_to_the_passes_that_follow(turning: Turning) -> None:
    turning.kernels = 600
    turning.behave("measured")

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, OK) >= 2)
        made.behave("ok")
        good = made.passes(LIGHT, OK)
        await until(lambda: made.passes(LIGHT, OK) >= good + 3)

    turning.turn(watch)
    tasks = turning.tasks()
    assert [task.measured for task in tasks[:2]] == [None, b"measured"]
    assert [task.unmeasured for task in tasks[:2]] == [{}, {"cuda": "it hangs"}]
    assert tasks[-1].measured is None
    assert {task.measured_seconds for task in tasks} == {1200.0}


def test_a_node_that_was_busy_is_told_once_and_measured_again(turning: Turning) -> None:
    turning.kernels, turning.speed = 6 * 3600, FAST
    turning.behave("skipped")

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(FULL, OK) >= 2)
        assert made.loop.tally.skipped

    started = time.monotonic()
    turning.turn(watch)
    assert (time.monotonic() - started) * FAST < 6 * 3600
    assert turning.journal.lines.count("not measured: the node is busy") == 1


def test_a_fault_that_was_measured_is_measured_again_soon(turning: Turning) -> None:
    turning.kernels, turning.speed = 7 * 86_400, FAST
    turning.behave("confirm")

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(FULL, OK) >= 2)

    turning.turn(watch)
    assert turning.journal.lines[:2] == ["CRITICAL: a light pass", "CRITICAL: a full pass"]


FAILURES = {
    "crash": "died by signal 11",
    "exit": "the disk is full",
    "garbage": "it answered what is no report: ",
    "flood": f"it answered more than {ANSWER_LIMIT_BYTES} bytes",
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_collector_that_fails_is_told_once_and_outlived(turning: Turning, how: str) -> None:
    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, OK) >= 1)
        made.behave(how)
        await until(lambda: made.passes(LIGHT, FAILED) >= 3)
        assert made.loop.board.latest
        told = [line for line in made.notifier.sent if line.startswith("STATUS")]
        assert told[-1].startswith(f"STATUS=no report: the light pass failed: {FAILURES[how]}")
        made.behave("ok")
        good = made.passes(LIGHT, OK)
        await until(lambda: made.passes(LIGHT, OK) > good)

    turning.turn(watch)
    first, failed, again = turning.journal.lines
    assert (first, again) == ("OK: a light pass", "reports are made again")
    assert failed.startswith(f"no report: the light pass failed: {FAILURES[how]}")


def test_what_the_history_does_not_take_is_told_once_and_published(turning: Turning) -> None:
    turning.behave("unstored")

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, OK) >= 2)
        assert not made.loop.tally.stored
        assert made.loop.board.is_fresh
        made.behave("ok")
        await until(lambda: made.loop.tally.stored)

    turning.turn(watch)
    assert turning.journal.lines == ["OK: a light pass", "not in the history: the disk is full"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("/no/such/python",), "/no/such/python: No such file or directory"),
        (("/etc/passwd",), "/etc/passwd: Permission denied"),
        (("/bin/true",), "it answered what is no report: "),
    ],
)
def test_a_collector_that_cannot_be_started_is_told(
    turning: Turning, command: tuple[str, ...], says: str
) -> None:
    turning.command = command

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, FAILED) >= 2)
        assert made.loop.board.latest is None

    turning.turn(watch)
    (line,) = turning.journal.lines
    assert line.startswith(f"no report: the light pass failed: {says}")


def test_no_process_can_be_had(turning: Turning, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    async def watch(made: Turning) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "subprocess_exec", refused)
            await until(lambda: made.passes(LIGHT, FAILED) >= 1)
        await until(lambda: made.passes(LIGHT, OK) >= 1)

    turning.turn(watch)
    assert "Resource temporarily unavailable" in turning.journal.lines[0]


@pytest.mark.parametrize("how", ["hang", "stubborn"])
def test_a_pass_that_hangs_is_killed_with_all_that_it_started(turning: Turning, how: str) -> None:
    turning.behave(how)
    turning.speed = 20.0

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, TIMEOUT) >= 1)
        assert not made.loop.tally.stuck
        pid = made.runs()[0][1]
        assert not is_running(pid)
        if how == "stubborn":
            assert not is_running(int((made.directory / "child").read_text()))
        made.behave("ok")
        await until(lambda: made.passes(LIGHT, OK) >= 1)

    turning.turn(watch)
    late = f"no report: the light pass failed: no answer within {DEADLINE_SECONDS[LIGHT]:g} s"
    assert turning.journal.lines[0] == late


def test_light_and_full_passes_that_hang_are_told_as_one(
    turning: Turning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their deadlines differ."""
    monkeypatch.setattr(loops, "DEADLINE_SECONDS", {LIGHT: 20.0, FULL: 25.0})
    turning.kernels, turning.speed = 600, FAST

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, OK) >= 1)
        made.behave("hang")
        await until(lambda: made.passes(FULL, TIMEOUT) >= 2)

    turning.turn(watch)
    failed = [line for line in turning.journal.lines if "no report" in line]
    assert len(failed) == 1


def test_one_that_cannot_be_killed_is_told_and_no_other_is_started(
    turning: Turning, monkeypatch: pytest.MonkeyPatch
) -> None:
    turning.behave("hang")
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(os, "killpg", lambda *_: None)

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, TIMEOUT) == 1)
        await until(lambda: made.passes(LIGHT, FAILED) >= 2)
        assert made.loop.tally.stuck
        ((_, pid),) = made.runs()
        assert (
            f"STATUS=no report: the light pass failed: process {pid} hangs and cannot be "
            in (made.notifier.sent[-1])
        )
        made.behave("ok")
        kill(pid, signal.SIGKILL)
        await until(lambda: made.passes(LIGHT, OK) >= 1)
        assert not made.loop.tally.stuck

    turning.turn(watch)
    assert len([line for line in turning.journal.lines if "cannot be killed" in line]) == 2


def test_a_stop_ends_the_pass_that_runs(turning: Turning) -> None:
    turning.behave("stubborn")

    async def watch(made: Turning) -> None:
        await until(lambda: len(made.runs()) == 1)

    turning.turn(watch)
    assert not is_running(turning.runs()[0][1])


def test_nothing_is_left_over(turning: Turning) -> None:
    turning.speed = FAST
    counts: list[tuple[int, int]] = []
    before = children()

    async def watch(made: Turning) -> None:
        for how in ("ok", "exit", "crash", "garbage", "flood", "hang", "ok") * 2:
            made.behave(how)
            seen = len(made.runs())
            await until(lambda seen=seen: len(made.runs()) > seen)  # type: ignore[misc]
        made.behave("ok")
        good = made.passes(LIGHT, OK)
        await until(lambda: made.passes(LIGHT, OK) > good)
        counts.append((len(descriptors()), tasks()))
        await until(lambda: made.passes(LIGHT, OK) > good + 20)
        counts.append((len(descriptors()), tasks()))

    turning.turn(watch)
    assert children() <= before
    (few, threads), (later, threads_later) = counts
    assert abs(later - few) <= 6  # of a pass that runs
    assert threads_later <= threads


def test_a_stale_report_stands_for_nothing(
    turning: Turning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "DEADLINE_SECONDS", {LIGHT: 60.0, FULL: 60.0})
    turning.speed = 100.0

    async def watch(made: Turning) -> None:
        await until(lambda: made.loop.board.is_fresh)
        made.behave("exit")
        await until(lambda: not made.loop.board.is_fresh)
        assert made.loop.board.latest
        made.behave("ok")
        await until(lambda: made.loop.board.is_fresh)

    turning.turn(watch)


def test_after_a_reload_it_looks_at_once_by_the_new_policy(turning: Turning) -> None:
    turning.interval, turning.speed = 86_400, 1.0

    async def watch(made: Turning) -> None:
        await until(lambda: made.passes(LIGHT, OK) == 1)
        made.loop.reload(made.loaded(b"another", interval_seconds=43_200))
        assert made.loop.board.interval_seconds == 43_200
        await until(lambda: made.passes(LIGHT, OK) == 2)

    turning.turn(watch)
    assert [task.policy for task in turning.tasks()] == [b"policy", b"another"]


def test_a_pass_that_a_reload_overtakes_is_followed_by_another(turning: Turning) -> None:
    turning.interval, turning.speed = 86_400, 1.0
    turning.behave("slow")

    async def watch(made: Turning) -> None:
        await until(lambda: len(made.runs()) == 1)
        made.loop.reload(made.loaded(b"another"))
        await until(lambda: made.passes(LIGHT, OK) == 2)

    turning.turn(watch)
    assert [task.policy for task in turning.tasks()] == [b"policy", b"another"]


def test_another_fault_is_told_and_another_figure_is_not(turning: Turning) -> None:
    async def watch(made: Turning) -> None:
        for headline in ("57 of 950 GiB are free", "56.9 of 950 GiB are free", "A card is lost"):
            (made.directory / "ok.light").write_bytes(answer("ok", LIGHT, headline=headline))
            good = made.passes(LIGHT, OK)
            await until(lambda good=good: made.passes(LIGHT, OK) >= good + 2)  # type: ignore[misc]

    turning.turn(watch)
    assert turning.journal.lines == ["OK: 57 of 950 GiB are free", "OK: A card is lost"]


def test_a_configuration_that_was_not_taken_stays_in_the_status(turning: Turning) -> None:
    async def watch(made: Turning) -> None:
        made.loop.tally.config_ok = False
        await until(lambda: made.passes(LIGHT, OK) >= 1)

    turning.turn(watch)
    assert turning.notifier.sent[-1] == f"STATUS=OK: a light pass ({loops.NOT_RELOADED})"


def test_a_pass_may_take_what_its_probes_may() -> None:
    """The daemon imports no check: its deadlines are numbers of its own."""
    probes = [name for name in CHECKS if name not in LAST]
    assert max(map(_deadline_seconds, probes)) == SLOWEST_PROBE_SECONDS
    assert _deadline_seconds("dram") == KERNELS_SECONDS
    assert place.ANSWER_SECONDS + place.TURN_SECONDS <= loops.BESIDE_SECONDS - 10
