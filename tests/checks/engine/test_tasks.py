"""What is read of a process's and a thread's files."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from nodecheck.checks.engine.tasks import (
    Moment,
    Ran,
    Status,
    parse_io,
    parse_schedstat,
    parse_stat,
    parse_status,
    processes,
    ran,
    stat,
    status,
    threads,
)
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
from tests.checks.engine import captures
from tests.trees import plant


def here() -> Moment:
    return Moment(Reader(open_host(None), "engine"))


def test_a_stat_line() -> None:
    found = parse_stat(
        captures.stat(
            77, parent=12, faults=(5, 3), ticks=(100, 20), threads=9, start=41, cpu=2, reaped=7
        )
    )
    assert found is not None
    assert (found.name, found.state, found.parent) == ("llama-server", "S", 12)
    assert (found.minor_faults, found.major_faults, found.cpu_ticks) == (5, 3, 120)
    assert found.reaped_ticks == 7
    assert (found.threads, found.start_ticks, found.cpu) == (9, 41, 2)
    assert not found.is_kernels


@pytest.mark.parametrize("name", ["a) R 1 (b", ")", "", "two\nlines", "a b\tc", "((", "é"])
def test_a_process_may_call_itself_anything(name: str) -> None:
    found = parse_stat(captures.stat(77, name, parent=12, start=41))
    assert found is not None
    assert (found.state, found.parent, found.start_ticks) == ("S", 12, 41)
    assert found.name == name.replace("\n", "?").replace("\t", "?")


def test_a_name_moves_no_cursor() -> None:
    found = parse_stat(captures.stat(77, "\x1b[2Jevil\r"))
    assert found is not None
    assert found.name == "?[2Jevil?"


@pytest.mark.parametrize(
    "text",
    ["", "77", "77 (a", "77 a) S 1", "77 (a) S 1 2", "x (a) " + "S " * 40, "77 (a) S" + " x" * 40],
)
def test_what_is_no_stat_line(text: str) -> None:
    assert parse_stat(text) is None


def test_an_emulated_kernel_leaves_fields_out() -> None:
    line = " ".join(captures.stat(77).split()[:24])
    found = parse_stat(line)
    assert found is not None
    assert found.cpu is None


def test_the_kernels_own_threads_are_known() -> None:
    found = parse_stat(captures.stat(2, "kthreadd", flags=0x208040))
    assert found is not None
    assert found.is_kernels


@pytest.mark.parametrize(
    ("state", "threads", "is_over"),
    [("S", 1, False), ("Z", 1, True), ("X", 0, True), ("Z", 4, False)],
)
def test_a_process_is_over_when_its_last_thread_is(
    state: str, threads: int, *, is_over: bool
) -> None:
    found = parse_stat(captures.stat(77, state=state, threads=threads))
    assert found is not None
    assert found.is_over is is_over


def test_schedstat() -> None:
    assert parse_schedstat("1500000000 250000000 17\n", 3.0) == Ran(1.5, 0.25, 3.0)


@pytest.mark.parametrize("text", ["", "1500000000", "a b c", "-1 2 3", "1.5 2 3"])
def test_what_is_no_schedstat(text: str) -> None:
    assert parse_schedstat(text, 0.0) is None


def test_a_status() -> None:
    assert parse_status(captures.status(77, cpus="0,2-3", switches=(11, 4))) == Status(
        process=77,
        allowed_cpus=(0, 2, 3),
        allowed_nodes=(0, 1),
        resident_bytes=1 << 20,
        swapped_bytes=8 << 10,
        locked_bytes=64 << 10,
        voluntary_switches=11,
        involuntary_switches=4,
    )


def test_a_kernel_thread_has_no_memory() -> None:
    found = parse_status("Name:\tkthreadd\nTgid:\t2\nCpus_allowed_list:\t0\n")
    assert found == Status(process=2, allowed_cpus=(0,))


def test_a_status_that_lies() -> None:
    found = parse_status("VmRSS:\t-4 kB\nCpus_allowed_list:\t0-99999999\nTgid:\tx\n" + "9" * 30)
    assert found == Status()


def test_io() -> None:
    assert parse_io(captures.io(4096)) == 4096
    assert parse_io("rchar: 5\n") is None


def test_a_captures_second_end_lies_beside_the_first(tmp_path: Path) -> None:
    host = plant({"proc/vmstat": "a 1", "proc/vmstat.2": "a 2"}, tmp_path)
    reader = Reader(host, "engine")
    first, last = Moment(reader), Moment(reader, 5.0)
    assert (first.text("/proc/vmstat"), last.text("/proc/vmstat")) == ("a 1", "a 2")
    assert last.now() - first.now() == 5.0


def test_this_process() -> None:
    found = processes(here())
    assert found[os.getpid()].parent == os.getppid()
    seen = status(here(), os.getpid())
    assert seen is not None
    assert seen.allowed_cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert seen.process == os.getpid()


def test_what_this_thread_runs_is_counted() -> None:
    task = (os.getpid(), os.getpid())
    before, began = ran(here(), threads(here(), (os.getpid(),)))[task], time.process_time()
    while time.process_time() < began + 0.2:
        pass
    after = ran(here(), threads(here(), (os.getpid(),)))[task]
    coarse = ran(here(), threads(here(), (os.getpid(),)), has_delays=False)[task]
    assert after.run_seconds - before.run_seconds == pytest.approx(0.2, abs=0.1)
    assert coarse.run_seconds == pytest.approx(after.run_seconds, abs=0.1)
    assert coarse.waited_seconds is None


def test_what_is_gone_has_nothing() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert stat(here(), gone.pid) is None
    assert status(here(), gone.pid) is None
    assert ran(here(), threads(here(), (gone.pid,))) == {}


def test_a_zombie_is_over() -> None:
    with subprocess.Popen(["true"]) as zombie:
        while (found := stat(here(), zombie.pid)) and found.state != "Z":
            time.sleep(0.01)
        assert found is not None
        assert found.is_over
