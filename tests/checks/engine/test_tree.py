"""Which processes an engine is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodecheck.checks.engine import tree
from nodecheck.checks.engine.tasks import Moment, processes
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from tests.checks.engine import captures
from tests.checks.live_tree import live_tree
from tests.trees import Tree, plant

FAMILY = "sh -c 'sleep 60 & sleep 60 & echo ready; wait' & wait"


def reader() -> Reader:
    return Reader(open_host(None), "engine")


@contextmanager
def family() -> Iterator[int]:
    """A shell, a shell below it, and two sleepers below that."""
    with subprocess.Popen(
        ["setsid", "sh", "-c", FAMILY], stdout=subprocess.PIPE, text=True
    ) as shell:
        try:
            assert shell.stdout is not None
            assert shell.stdout.readline() == "ready\n"
            sleepers_run(shell.pid)
            yield shell.pid
        finally:
            os.killpg(shell.pid, 9)


def sleepers_run(session: int) -> None:
    """Wait for the sleepers: a shell's child has the shell's name until it becomes another."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        stats = processes(Moment(reader()))
        if [stats[pid].name for pid in tree.below(stats, (session,))].count("sleep") == 2:
            return
        time.sleep(0.01)
    pytest.fail("the sleepers did not begin")


def names(pids: tuple[int, ...]) -> list[str]:
    return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids]


def test_all_that_it_started_is_of_the_engine() -> None:
    with family() as pid:
        pids = tree.pids(reader(), pid)
        assert pids[0] == pid
        assert names(pids) == ["sh", "sh", "sleep", "sleep"]


def test_neither_its_parent_nor_its_siblings_are() -> None:
    with family() as first, family() as second:
        pids = tree.pids(reader(), first)
    assert os.getpid() not in pids
    assert second not in pids


def test_a_threads_id_names_its_process() -> None:
    is_done = threading.Event()
    thread = threading.Thread(target=is_done.wait)
    thread.start()
    assert thread.native_id is not None
    try:
        assert tree.pids(reader(), thread.native_id)[0] == os.getpid()
    finally:
        is_done.set()


def test_there_is_no_such_process() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    looks = reader()
    assert tree.pids(looks, gone.pid) == ()
    assert looks.gaps == []


WE = """
import os
from nodecheck.checks.engine import tree
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
if not (forked := os.fork()):
    print(*tree.pids(Reader(open_host(None), "engine"), int(os.environ["SHELL_PID"])))
    print(os.getppid(), os.getpid(), flush=True)
    os._exit(0)
os.waitpid(forked, 0)
"""


def test_we_are_no_part_of_the_engine() -> None:
    shell = 'export SHELL_PID=$$; sleep 60 & "$0" -c "$1"; kill $!'
    done = subprocess.run(
        ["sh", "-c", shell, sys.executable, WE], capture_output=True, text=True, check=False
    )
    seen, ours = (set(map(int, line.split())) for line in done.stdout.splitlines())
    assert len(seen) == 2, done.stderr
    assert not seen & ours


def test_who_asks_for_us_gets_us() -> None:
    assert os.getpid() in tree.pids(reader(), os.getpid())


def test_pid_1_has_all_but_us() -> None:
    with family() as pid:
        pids = tree.pids(reader(), 1)
        assert pids[0] == 1
        assert pid in pids
        assert os.getpid() not in pids


def test_parents_that_go_round_in_a_circle(tmp_path: Path) -> None:
    host = plant(
        {
            "proc/7/stat": captures.stat(7, parent=8),
            "proc/8/stat": captures.stat(8, parent=7),
            "proc/9/stat": captures.stat(9, parent=9),
        },
        tmp_path,
    )
    assert tree.pids(Reader(host, "engine"), 7) == (7, 8)
    assert tree.pids(Reader(host, "engine"), 9) == (9,)


def test_where_others_are_hidden_that_is_said(tmp_path: Path) -> None:
    mine: Tree = {"proc/50/stat": captures.stat(50)}
    looks = Reader(live_tree(mine, tmp_path), "engine")
    assert tree.pids(looks, 77) == ()
    (gap,) = looks.gaps
    assert (gap.field, gap.reason) == ("processes", Reason.DENIED)
    assert "hidepid" in gap.detail


def test_processes_that_come_and_go_break_nothing() -> None:
    storm = "import os\nfor _ in range(1500):\n    os.fork() or os._exit(0)\n    os.wait()"
    with subprocess.Popen([sys.executable, "-c", storm]) as process:
        while process.poll() is None:
            stats = processes(Moment(reader()))
            tree.ourselves(reader(), stats)
            assert os.getpid() in stats
