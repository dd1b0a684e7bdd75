"""What is made on demand: by one child at a time, kept, shared, given up in time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from nodecheck.daemon import made
from nodecheck.daemon.made import COMMAND, Making, MakingError
from nodecheck.daemon.process import Child, Clock
from tests import processes
from tests.processes import eventually

STAND_IN = """
import os, sys, time
what, given = sys.argv[2:], sys.stdin.buffer.read()
with open(sys.argv[1], "a") as log:
    log.write(f"{os.getpid()} {time.monotonic()} {' '.join(what)}\\n")
{work}
with open(sys.argv[1], "a") as log:
    log.write(f"{os.getpid()} {time.monotonic()} end\\n")
"""

ECHO = "sys.stdout.buffer.write(' '.join(what).encode() + b':' + given)"
SLOW = f"time.sleep(0.2); {ECHO}"


class Bench:
    """A Making whose child is a stand-in, and what was started of it."""

    def __init__(self, folder: Path, work: str, **limits: float) -> None:
        self._log = folder / "started"
        script = folder / "making.py"
        script.write_text(STAND_IN.replace("{work}", work))
        command = (sys.executable, "-S", "-E", str(script), str(self._log))
        self.making = Making(Child(command, Clock()), **limits)

    @property
    def lines(self) -> list[tuple[int, float, str]]:
        """Process, time and what it was asked, or that it ended."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        parts = (line.split(" ", 2) for line in lines)
        return [(int(pid), float(when), what) for pid, when, what in parts]

    @property
    def started(self) -> list[str]:
        return [what for _, _, what in self.lines if what != "end"]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def outcomes(*asked: Coroutine[Any, Any, bytes]) -> list[bytes | BaseException]:
    return await asyncio.gather(*asked, return_exceptions=True)


def test_arguments_and_report_reach_the_child(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ECHO)
    report = b"\x00report" * 100_000
    assert run(bench.making("page --stale 60", report)) == b"page --stale 60:" + report
    assert bench.started == ["page --stale 60"]


def test_what_was_made_is_kept_for_its_report(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ECHO)

    async def work() -> None:
        for report in (b"one", b"one", b"two", b"two", b"one"):
            assert await bench.making("page", report) == b"page:" + report
            assert await bench.making("openapi", b"") == b"openapi:"

    run(work())
    assert bench.started == ["page", "openapi", "page", "page"]


def test_little_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ECHO)

    async def work() -> None:
        for number in range(made.KEPT + 3):
            await bench.making(f"page {number}", b"same")

    run(work())
    assert len(bench.making._kept) == made.KEPT


def test_equal_questions_have_one_child_and_others_wait(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SLOW)

    async def work() -> list[bytes | BaseException]:
        same = [bench.making("page", b"r") for _ in range(5)]
        return await outcomes(*same, bench.making("history 1d", b"r"), bench.making("openapi", b""))

    answers = run(work())
    assert answers == [b"page:r"] * 5 + [b"history 1d:r", b"openapi:"]
    assert bench.started == ["page", "history 1d", "openapi"]
    kinds = ["end" if what == "end" else "start" for _, _, what in bench.lines]
    assert kinds == ["start", "end"] * 3  # never two at once


@pytest.mark.parametrize(
    ("work", "line"),
    [
        ("sys.exit('first\\nthe history cannot be read')", "page: the history cannot be read"),
        ("sys.exit(3)", "page: exit status 3"),
        ("os.abort()", f"page: died by signal {signal.SIGABRT}"),
        ("1 / 0", "page: ZeroDivisionError: division by zero"),
    ],
)
def test_a_failure_is_one_line_and_soon_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, line: str
) -> None:
    bench = Bench(tmp_path, work)

    async def ask() -> list[bytes | BaseException]:
        answers = [(await outcomes(bench.making("page", b"")))[0] for _ in range(3)]
        monkeypatch.setattr(made, "FAILED_SECONDS", 0.0)
        return [*answers, *await outcomes(bench.making("page", b""))]

    answers = run(ask())
    assert {type(each) for each in answers} == {MakingError}
    assert {str(each) for each in answers} == {line}
    assert {each.lasts for each in answers if isinstance(each, MakingError)} == {True}
    assert bench.started == ["page", "page"]


def test_a_child_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    grandchild = tmp_path / "grandchild"
    work = f"""
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
process = subprocess.Popen(["sleep", "1000"])
open({str(grandchild)!r}, "w").write(str(process.pid))
time.sleep(1000)
"""
    bench = Bench(tmp_path, work, deadline_seconds=1.0)
    before = processes.descriptors()

    async def ask() -> tuple[list[bytes | BaseException], float]:
        started = time.monotonic()
        answers = await outcomes(*(bench.making("page", b"r" * (1 << 20)) for _ in range(3)))
        return answers, time.monotonic() - started

    answers, seconds = run(ask())
    assert {str(each) for each in answers} == {"page: no answer within 1 s"}
    assert {each.lasts for each in answers if isinstance(each, MakingError)} == {False}
    assert seconds < 5
    pids = [bench.lines[0][0], int(grandchild.read_text())]
    assert eventually(lambda: not any(map(processes.is_running, pids)))
    assert processes.descriptors() <= before


def test_who_waits_for_another_child_gives_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "time.sleep(1.5)", deadline_seconds=3.0, patience_seconds=0.5)

    async def ask() -> list[bytes | BaseException]:
        answers = await outcomes(bench.making("page", b""), bench.making("history 1d", b""))
        await bench.making.stop()
        return answers

    assert list(map(str, run(ask()))) == [
        "page: not made within 0.5 s", "history 1d: not made within 0.5 s",
    ]  # fmt: skip


def test_only_so_many_may_wait(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SLOW)

    async def ask() -> list[bytes | BaseException]:
        return await outcomes(*(bench.making("page", b"") for _ in range(made.WAITING + 5)))

    answers = run(ask())
    assert answers[: made.WAITING] == [b"page:"] * made.WAITING
    assert {str(each) for each in answers[made.WAITING :]} == {"too many wait for it"}


def test_too_much_is_not_taken(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "sys.stdout.buffer.write(bytes(64 << 20))")
    [answer] = run(outcomes(bench.making("page", b"")))
    assert isinstance(answer, MakingError)
    assert "answered more than" in str(answer)


def test_who_goes_away_takes_nothing_from_who_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SLOW)

    async def ask() -> bytes:
        leaves = asyncio.create_task(bench.making("page", b"r"))
        stays = asyncio.create_task(bench.making("page", b"r"))
        await asyncio.sleep(0.05)
        leaves.cancel()
        return await stays

    assert run(ask()) == b"page:r"
    assert bench.started == ["page"]


def test_it_stops_with_its_child(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "time.sleep(1000)")

    async def ask() -> tuple[BaseException, float]:
        asked = asyncio.create_task(bench.making("page", b""))
        queued = asyncio.create_task(bench.making("openapi", b""))
        while not bench.started:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        started = time.monotonic()
        await bench.making.stop()
        seconds = time.monotonic() - started
        first, _ = await asyncio.gather(asked, queued, return_exceptions=True)
        assert isinstance(first, BaseException)
        return first, seconds

    told, seconds = run(ask())
    assert isinstance(told, asyncio.CancelledError)
    assert seconds < 2
    assert eventually(lambda: not processes.is_running(bench.lines[0][0]))


def test_the_real_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "none.db"))
    assert COMMAND[0] == sys.executable
    document, history, wrong = run(
        outcomes(Making()("openapi", b""), Making()("history 30d", b""), Making()("nonsense", b""))
    )
    assert document.startswith(b"{")
    assert isinstance(history, MakingError)
    assert len(str(history).splitlines()) == 1
    assert str(wrong).startswith("nonsense: ")
    assert os.environ["NODECHECK_HISTORY"] in str(history)
