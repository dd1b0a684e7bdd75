"""What an engine is seen to do, of processes that run."""

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
from nodecheck.checks.engine.window import Running, watch
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
from tests.fake_engine.build import FakeEngines, fake_engines

__all__ = ["fake_engines"]

CPUS = sorted(os.sched_getaffinity(0))
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: cannot become another user")


def reader() -> Reader:
    return Reader(open_host(None), "engine")


def look(pid: int, seconds: float = 1.0) -> tuple[Running, Reader]:
    looks = reader()
    return watch(looks, tree.pids(looks, pid), seconds), looks


@contextmanager
def busy(cpu: int, how_many: int = 1) -> Iterator[list[int]]:
    """Processes that do nothing but run, all on one CPU."""
    bound = f"import os; os.sched_setaffinity(0, {{{cpu}}}); print(1, flush=True)\nwhile 1: pass"
    running = [
        subprocess.Popen([sys.executable, "-c", bound], stdout=subprocess.PIPE)
        for _ in range(how_many)
    ]
    try:
        for each in running:
            assert each.stdout is not None
            each.stdout.readline()
        yield [each.pid for each in running]
    finally:
        for each in running:
            each.kill()
            each.communicate()


def test_two_that_share_a_cpu_wait_for_each_other() -> None:
    with busy(CPUS[0], 2) as (pid, other):
        os.setpriority(os.PRIO_PROCESS, other, os.getpriority(os.PRIO_PROCESS, pid))
        seen, _ = look(pid, 2.0)
    (thread,) = seen.threads
    assert thread.delay_share is not None
    assert thread.delay_share > 0.3
    assert 0.7 < thread.cpu_share + thread.delay_share <= 1.1  # a wait counts when it is over
    assert (thread.cpu, thread.involuntary_switches is not None) == (CPUS[0], True)
    assert seen.usable_cpus == (CPUS[0],)
    assert other in {each.pid for each in seen.others} or len(seen.others) == 3
    assert seen.processes[0].cpu_seconds == pytest.approx(seen.seconds * thread.cpu_share, abs=0.1)


def test_an_engine_that_waits_has_no_threads_to_tell(fake_engines: FakeEngines) -> None:
    with fake_engines.running("--threads", "0", "--pool", "5") as engine:
        seen, looks = look(engine.pid)
    assert (seen.threads, seen.thread_count, seen.processes[0].cpu_seconds) == ((), 6, 0.0)
    assert seen.usable_cpus == tuple(CPUS)
    assert [gap for gap in looks.gaps if gap.field != "others"] == []


@pytest.mark.parametrize("is_reaped", [True, False])
def test_it_ends_while_it_is_watched(fake_engines: FakeEngines, *, is_reaped: bool) -> None:
    with fake_engines.running("--threads", "1") as engine:
        timer = threading.Timer(1.2, engine.process.kill)
        timer.start()
        if is_reaped:
            threading.Thread(target=engine.process.wait).start()
        began = time.monotonic()
        seen, looks = look(engine.pid, 10.0)
        took = time.monotonic() - began
    (process,) = seen.processes
    (thread,) = seen.threads
    assert took < 9
    assert seen.ended
    assert process.ended
    assert 0 < seen.seconds < 5
    assert thread.cpu_share + (thread.delay_share or 0) > 0.5
    assert "processes.read_bytes" not in {gap.field for gap in looks.gaps}


def test_one_that_has_ended_and_waits_to_be_reaped() -> None:
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        began = time.monotonic()
        seen, _ = look(zombie.pid, 5.0)
    assert time.monotonic() - began < 2
    assert seen.ended
    assert [process.ended for process in seen.processes] == [True]


STORM = """
import os, threading, time
print(1, flush=True)
while True:
    threads = [threading.Thread(target=time.sleep, args=(0.003,)) for _ in range(8)]
    for each in threads: each.start()
    if not os.fork(): os._exit(0)
    os.wait()
    for each in threads: each.join()
"""


def test_threads_and_processes_that_come_and_go_break_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", STORM], stdout=subprocess.PIPE) as storm:
        try:
            assert storm.stdout is not None
            storm.stdout.readline()
            seen, looks = look(storm.pid, 1.0)
        finally:
            storm.kill()
    assert (seen.ended, seen.processes[0].pid) == (False, storm.pid)
    assert {gap.field for gap in looks.gaps} <= {"others"}


def test_a_thread_of_the_kernel() -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("the kernel's threads are hidden in a container")
    looks = reader()
    kernel = [pid for pid, each in processes(Moment(looks)).items() if each.is_kernels]
    seen = watch(looks, (max(kernel),), 0.5)
    assert seen.processes[0].resident_bytes is None
    assert not seen.ended


def test_pid_1_has_much_below_it() -> None:
    seen, _ = look(1, 0.5)
    assert (seen.processes[0].pid, seen.ended) == (1, False)


def test_we_may_be_asked_for_ourselves() -> None:
    seen, _ = look(os.getpid(), 0.5)
    assert seen.processes[0].pid == os.getpid()
    assert seen.processes[0].cpu_seconds < 0.5


@as_root
def test_another_users_process() -> None:
    with busy(CPUS[0]) as (pid,):
        facts, gaps = as_nobody(pid)
    assert "cpu_share=" in facts
    denied = [gap for gap in gaps if " denied " in gap]
    assert denied == [f"processes.read_bytes denied /proc/{pid}/io: Permission denied"]


LOOKS = """
import os, sys
from nodecheck.checks.engine import tree, window
from nodecheck.machine.host import CapturedHost, open_host
from nodecheck.machine.reader import Reader
reader, pid, user = Reader(open_host(None), "engine"), int(sys.argv[1]), int(sys.argv[2])
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
pids = tree.pids(reader, pid)
print(window.watch(reader, pids, 0.5) if pids else None)
for gap in reader.gaps:
    print(gap.field, gap.reason.value, gap.detail)
"""


def as_nobody(pid: int, *before: str, user: int = NOBODY) -> tuple[str, list[str]]:
    """What another user is told of a process, and the gaps."""
    done = subprocess.run(
        [*before, sys.executable, "-c", LOOKS, str(pid), str(user)],
        capture_output=True,
        text=True,
        check=False,
    )
    if before and "unshare" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    facts, *gaps = done.stdout.splitlines()
    return facts, gaps


HIDDEN = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'


@as_root
def test_a_process_that_is_hidden_from_us() -> None:
    with busy(CPUS[0]) as (pid,):
        facts, gaps = as_nobody(pid, "unshare", "--mount", "sh", "-ec", HIDDEN, "sh")
    assert facts == "None"
    (gap,) = gaps
    assert gap.startswith("processes denied /proc is mounted with hidepid")


@as_root
def test_in_a_container_the_hosts_processes_are_hidden() -> None:
    inside = ("unshare", "--mount", "--pid", "--fork", "--mount-proc")
    facts, gaps = as_nobody(1, *inside, "sh", "-c", 'sleep 9 & "$@"; kill $!', "sh", user=0)
    assert "name='sleep'" in facts
    assert gaps == [
        "others unsupported only this container's processes are seen, not those of the host"
    ]


def test_ten_thousand_threads(fake_engines: FakeEngines) -> None:
    with fake_engines.running("--threads", "1", "--pool", "10000") as engine:
        began, cpu = time.monotonic(), time.process_time()
        seen, _ = look(engine.pid, 1.0)
        took, cpu = time.monotonic() - began - 1.0, time.process_time() - cpu
    sys.stdout.write(f"10,000 threads: {took:.2f} s beside the window, {cpu:.2f} s of a CPU\n")
    assert seen.thread_count == 10_002
    assert [thread.voluntary_switches is not None for thread in seen.threads] == [True]
    assert cpu < 2  # of a CPU: what else this machine does is not the watch's
