from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodecheck.machine import child
from nodecheck.machine.child import Outcome, call, gather
from tests.processes import children, descriptors, eventually, is_running

DEADLINE = 20.0
"""For what must answer, however busy the machine is."""


def hang() -> int:
    time.sleep(600)
    return 0


def hang_whatever_is_sent() -> int:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return hang()


def test_an_answer_crosses_as_its_type() -> None:
    assert call(lambda: ("a", 1), tuple[str, int], DEADLINE) == Outcome(value=("a", 1))


def test_a_large_answer_crosses() -> None:
    assert call(lambda: "x" * (5 << 20), str, DEADLINE).value == "x" * (5 << 20)


def test_each_task_has_its_own_type_and_deadline() -> None:
    outcomes = gather(
        {"number": lambda: 7, "text": lambda: "seven", "hung": hang},
        {"number": int, "text": str, "hung": int},
        {"number": DEADLINE, "text": DEADLINE, "hung": 0.3},
    )
    assert outcomes["number"].value == 7
    assert outcomes["text"].value == "seven"
    assert outcomes["hung"].hung


def test_an_exception_is_one_line() -> None:
    def fail() -> int:
        raise ValueError("first\nsecond")

    assert call(fail, int, DEADLINE) == Outcome(error="ValueError: first")


def test_text_that_is_no_unicode_is_an_error_not_a_crash() -> None:
    def fail() -> int:
        raise ValueError("\udcff")

    assert call(fail, int, DEADLINE) == Outcome(error="ValueError: ?")
    assert "UnicodeEncodeError" in (call(lambda: "\udcff", str, DEADLINE).error or "")


@pytest.mark.parametrize("exit_", [SystemExit, KeyboardInterrupt])
def test_leaving_without_an_answer_is_told(exit_: type[BaseException]) -> None:
    def leave() -> int:
        raise exit_

    assert call(leave, int, DEADLINE).error == "it ended without an answer"


def test_a_wrong_type_is_an_error() -> None:
    def lie() -> int:
        return "text"  # type: ignore[return-value]

    assert "not the answer that was expected" in (call(lie, int, DEADLINE).error or "")


@pytest.mark.parametrize("number", [signal.SIGILL, signal.SIGSEGV, signal.SIGKILL])
def test_a_death_names_its_signal(number: signal.Signals) -> None:
    def die() -> int:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
        return 0

    outcome = call(die, int, DEADLINE)
    assert outcome.signal == number
    assert outcome.error == f"died by {number.name}"
    assert not outcome.hung


def test_a_signal_without_a_name_is_a_number() -> None:
    outcome = call(lambda: os.kill(os.getpid(), 40), type(None), DEADLINE)
    assert outcome.error == "died by signal 40"


def test_a_hung_task_is_killed_in_time_and_reaped() -> None:
    before, start = children(), time.monotonic()
    outcome = call(hang_whatever_is_sent, int, 0.3)
    assert outcome == Outcome(error="no answer within 0.3 s", hung=True)
    assert 0.3 <= time.monotonic() - start < 1.3
    assert children() == before


def test_many_hung_tasks_cost_one_deadline() -> None:
    start = time.monotonic()
    outcomes = gather({str(n): hang for n in range(12)}, int, 0.5)
    assert all(outcome.hung for outcome in outcomes.values())
    assert time.monotonic() - start < 1.5


def test_a_quick_task_is_not_held_up_by_a_hung_one() -> None:
    tasks = {"hung": hang, **{str(n): os.getpid for n in range(80)}}
    outcomes = gather(tasks, int, 1.0)
    assert [name for name, outcome in outcomes.items() if outcome.hung] == ["hung"]


def test_what_a_hung_task_started_dies_with_it(tmp_path: Path) -> None:
    def start() -> int:
        # a session of its own, as commands are run, and a child of that
        script = "sleep 600 & echo $! >> pids; echo $$ >> pids; wait"
        subprocess.Popen(["sh", "-c", script], cwd=tmp_path, start_new_session=True)
        return hang()

    call(start, int, 1.0)
    started = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(started) == 2
    assert eventually(lambda: not any(is_running(pid) for pid in started))


def test_an_answer_counts_though_another_process_holds_the_pipe() -> None:
    def answer() -> int:
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        return 5

    start = time.monotonic()
    assert call(answer, int, DEADLINE).value == 5
    assert time.monotonic() - start < 3


def test_a_flood_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "RESULT_LIMIT_BYTES", 1 << 16)
    before = children()
    outcome = call(lambda: "x" * (1 << 20), str, DEADLINE)
    assert outcome.error == "it answered over 65536 bytes"
    assert children() == before


def test_nothing_of_ours_is_open_in_the_child(tmp_path: Path) -> None:
    kept = [(tmp_path / str(n)).open("w") for n in range(3)]
    high = fcntl.fcntl(kept[0].fileno(), fcntl.F_DUPFD, 900)
    try:
        seen = call(_open_files, list[str], DEADLINE).value
    finally:
        os.close(high)
        for file in kept:
            file.close()
    assert seen is not None
    assert sorted(seen)[:3] == ["/dev/null"] * 3
    assert len(seen) == 4
    assert all(name == "/dev/null" or name.startswith("pipe:") for name in seen)


def _open_files() -> list[str]:
    """What they lead to; the listing's own is closed by then."""
    links = [os.path.join("/proc/self/fd", name) for name in descriptors()]  # noqa: PTH118
    return [os.readlink(link) for link in links if os.path.islink(link)]  # noqa: PTH114, PTH115


def test_closed_standard_streams_do_no_harm() -> None:
    """With them closed, the pipe of the answer gets one of their numbers."""
    code = (
        "import os\n"
        "from nodecheck.machine.child import call\n"
        "os.close(0); os.close(1)\n"
        "os.write(2, str(call(lambda: 41, int, 20.0).value).encode())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, check=True)
    assert run.stderr == b"41"


def test_who_ignores_the_death_of_children_gets_answers_too() -> None:
    code = (
        "import signal, os\n"
        "from nodecheck.machine.child import call\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "print(call(lambda: 42, int, 20.0).value)\n"
        "print(call(lambda: __import__('time').sleep(600), type(None), 0.2).hung)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["42", "True"]


def test_no_process_to_be_had_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    open_before = descriptors()
    outcomes = gather({"a": int, "b": int}, int, DEADLINE)
    assert [o.error for o in outcomes.values()] == [
        "no process could be started: Resource temporarily unavailable"
    ] * 2
    assert descriptors() == open_before


def test_few_descriptors_are_enough_for_many_tasks() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        outcomes = gather({str(n): os.getpid for n in range(150)}, int, DEADLINE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(outcome.value is not None for outcome in outcomes.values()) == 150


def test_an_interruption_kills_whatis_running(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from nodecheck.machine.child import gather\n"
        "def hang():\n"
        "    open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "    time.sleep(600)\n"
        "gather({'a': hang, 'b': hang}, type(None), 600.0)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert eventually(lambda: len(list(tmp_path.iterdir())) == 2)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    started = [int(file.name) for file in tmp_path.iterdir()]
    assert eventually(lambda: not any(is_running(pid) for pid in started))


def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("nodecheck._native")
    code = (
        "import os, sys, time\n"
        "from nodecheck.machine.child import call\n"
        "def hang():\n"
        "    open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "    time.sleep(600)\n"
        "call(hang, type(None), 600.0)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    assert eventually(lambda: len(list(tmp_path.iterdir())) == 1)
    process.kill()
    process.wait(20)
    assert eventually(lambda: not is_running(int(next(tmp_path.iterdir()).name)))


def test_nothing_is_left_after_100is_running() -> None:
    before, open_before = children(), descriptors()
    for _ in range(100):
        assert call(os.getpid, int, DEADLINE).value
    assert children() == before
    assert descriptors() == open_before


def test_an_abandoned_child_is_reaped_once_it_has_died() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    child.abandon(pid)
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end
        child.reap_abandoned()
        time.sleep(0.01)


def test_the_kernel_library_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodecheck.machine.native", None)
    assert call(os.getpid, int, DEADLINE).value


def test_the_child_keeps_no_handler_of_ours() -> None:
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        outcome = call(lambda: signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, bool, DEADLINE)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert outcome.value is True
