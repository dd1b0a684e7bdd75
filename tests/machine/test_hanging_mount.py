"""A mount that never answers: the probe is over in time, and leaves exactly one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.machine import child, stuck
from nodecheck.machine.command import HungError
from nodecheck.machine.host import LiveHost, Statvfs
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason
from tests.lab.hanging_mount import hanging_mount, is_possible
from tests.processes import children, descriptors, eventually, state

pytestmark = [
    pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse"),
]

DEADLINE = 1.0


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "state" / "history.db"))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with hanging_mount(tmp_path / "hung") as process:
        yield process


@pytest.fixture
def mount(tmp_path: Path, daemon: subprocess.Popen[bytes]) -> str:
    assert daemon.poll() is None
    return str(tmp_path / "hung")


def ask(*mounts: str) -> tuple[dict[str, Statvfs | UnreadableError], float]:
    start = time.monotonic()
    answers = LiveHost().statvfs(mounts, DEADLINE)
    return answers, time.monotonic() - start


def test_it_is_named_in_time_and_the_others_answer(mount: str) -> None:
    answers, seconds = ask(mount, "/", "/proc")
    hung = answers[mount]
    assert isinstance(hung, UnreadableError)
    assert hung.reason is Reason.TIMEOUT
    assert hung.detail.startswith(mount)
    assert isinstance(answers["/"], Statvfs)
    assert isinstance(answers["/proc"], Statvfs)
    assert DEADLINE <= seconds < DEADLINE + 1


def test_the_child_outlives_sigkill_and_is_the_only_one_left(mount: str) -> None:
    before = children()
    ask(mount, "/")
    left = children() - before
    assert len(left) == 1
    pid = left.pop()
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.3)
    assert state(pid) == "D"
    assert stuck.stuck_pid(f"statvfs {mount}") == pid


def test_it_is_not_asked_again_while_it_hangs(mount: str) -> None:
    ask(mount)
    before = children()
    for _ in range(5):
        answers, seconds = ask(mount, "/")
        hung = answers[mount]
        assert isinstance(hung, UnreadableError)
        assert hung.reason is Reason.TIMEOUT
        assert "still hangs" in hung.detail
        assert isinstance(answers["/"], Statvfs)
        assert seconds < DEADLINE
    assert children() == before


def test_another_process_remembers_it_too(mount: str) -> None:
    ask(mount)
    code = (
        "from nodecheck.machine.host import LiveHost; import sys\n"
        "print(LiveHost().statvfs((sys.argv[1],), 5.0)[sys.argv[1]].detail)"
    )
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", code, mount], capture_output=True, text=True, timeout=30, check=True
    )
    assert "still hangs" in run.stdout
    assert time.monotonic() - start < 5


def test_the_marker_is_void_when_the_daemon_is_gone(
    mount: str, daemon: subprocess.Popen[bytes]
) -> None:
    ask(mount)
    pid = stuck.stuck_pid(f"statvfs {mount}")
    assert pid is not None
    daemon.kill()
    daemon.wait(10)
    assert eventually(lambda: stuck.stuck_pid(f"statvfs {mount}") is None)
    answers, _ = ask(mount)  # "Transport endpoint is not connected" is an answer
    answer = answers[mount]
    assert isinstance(answer, UnreadableError)
    assert answer.reason is Reason.FAILED
    assert eventually(lambda: _reaped(pid))


def _reaped(pid: int) -> bool:
    child.reap_abandoned()
    return state(pid) is None


def test_many_hanging_mounts_cost_one_deadline(tmp_path: Path) -> None:
    places = [tmp_path / str(number) for number in range(6)]
    with hanging_mount(places[0]), hanging_mount(places[1]), hanging_mount(places[2]):
        answers, seconds = ask(*map(str, places[:3]))
        assert all(isinstance(a, UnreadableError) for a in answers.values())
        assert seconds < DEADLINE + 1


def test_a_command_that_hangs_there_is_given_up_and_not_run_again(mount: str) -> None:
    host, before = LiveHost(), children()
    start = time.monotonic()
    with pytest.raises(HungError) as hung:
        host.run(("stat", "-f", mount), DEADLINE)
    assert time.monotonic() - start < DEADLINE + 1
    assert hung.value.pid is not None
    assert state(hung.value.pid) == "D"
    with pytest.raises(UnreadableError, match="still hangs"):
        host.run(("stat", "-f", mount), DEADLINE)
    assert children() - before == {hung.value.pid}


def test_who_reads_our_output_is_not_held_by_the_stuck_child(mount: str) -> None:
    """The stuck child must not keep the caller's pipe open, nor what it started."""
    code = (
        "import os, sys\n"
        "from nodecheck.machine import child\n"
        "from nodecheck.machine.host import LiveHost\n"
        "def probe():\n"
        "    return str(LiveHost().statvfs((sys.argv[1],), 0.5)[sys.argv[1]].reason.value)\n"
        "print(child.call(probe, str, 5.0).value, flush=True)\n"
        "print('error', file=sys.stderr, flush=True)\n"
    )
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", code, mount], capture_output=True, text=True, timeout=30, check=True
    )
    assert run.stdout == "timeout\n"
    assert run.stderr == "error\n"
    assert time.monotonic() - start < 10
    assert stuck.stuck_pid(f"statvfs {mount}") is not None


def test_nothing_is_left_of_200_runs_but_the_one_child(mount: str) -> None:
    _many(mount, 200)


@pytest.mark.soak
def test_nothing_is_left_of_1000_runs_but_the_one_child(mount: str) -> None:
    _many(mount, 1000)


def _many(mount: str, runs: int) -> None:
    ask(mount)
    before = children(), descriptors()
    host = LiveHost()
    for _ in range(runs):
        answers = host.statvfs((mount, "/"), DEADLINE)
        assert isinstance(answers["/"], Statvfs)
    assert (children(), descriptors()) == before
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    assert len(list((Path(os.environ["NODECHECK_HISTORY"]).parent / "stuck").iterdir())) == 1
