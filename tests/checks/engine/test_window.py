"""What an engine is seen to do, from captured files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodecheck.checks.engine.facts import Thread
from nodecheck.checks.engine.window import Running, watch
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason
from tests.checks.engine import captures
from tests.trees import Tree, plant

SECOND = 1_000_000_000

SERVER: Tree = {
    "proc/77/stat": captures.stat(77, faults=(10, 2), ticks=(100, 50), threads=3),
    "proc/77/stat.2": captures.stat(77, faults=(500, 42), ticks=(900, 250), threads=3),
    "proc/77/statm": "1407 280 100 5 0 123 0\n",
    "proc/77/status": captures.status(77, rss_kib=512),
    "proc/77/status.2": captures.status(77, rss_kib=4096),
    "proc/77/io": captures.io(1000),
    "proc/77/io.2": captures.io(51_000),
    **captures.thread(77, 77, f"{SECOND} 0 9", f"{SECOND + 1} 0 10"),
    **captures.thread(77, 78, f"{3 * SECOND} {SECOND} 9", f"{7 * SECOND} {2 * SECOND} 99"),
    **captures.thread(77, 79, f"{SECOND} {SECOND} 9", f"{2 * SECOND} {4 * SECOND} 99"),
    **captures.node("100 0 100 1000 20 0 0 0 0 0", "600 0 200 1280 50 0 0 90 0 0", (7, 1007)),
    "sys/devices/system/cpu/online": "0-2\n",
}
"""A server of three threads, of which two work, on two CPUs; five seconds."""


def captured(directory: Path, *changes: Tree, pids: tuple[int, ...] = (77,)) -> Running:
    files: Tree = {}
    for each in (SERVER, *changes):
        files |= each
    return watch(Reader(plant(files, directory), "engine"), pids, 5.0)


def test_what_a_process_did(tmp_path: Path) -> None:
    seen = captured(tmp_path)
    (process,) = seen.processes
    assert (seen.seconds, seen.ended) == (5.0, False)
    assert (process.pid, process.name, process.thread_count) == (77, "llama-server", 3)
    assert process.cpu_seconds == 10.0
    assert (process.minor_faults, process.major_faults) == (490, 40)
    assert (process.read_bytes, process.read_total_bytes) == (50_000, 51_000)
    assert (process.resident_bytes, process.swapped_bytes) == (4 << 20, 8 << 10)
    assert (process.allowed_cpus, process.allowed_nodes) == ((0, 1, 2, 3), (0, 1))


def test_the_threads_that_ran(tmp_path: Path) -> None:
    seen = captured(tmp_path)
    busy, waiting = seen.threads
    assert seen.thread_count == 3
    assert busy == Thread(
        pid=77,
        tid=78,
        name="worker 78",
        cpu_share=0.8,
        delay_share=0.2,
        voluntary_switches=1,
        involuntary_switches=2,
        cpu=2,
    )
    assert (waiting.tid, waiting.cpu_share, waiting.delay_share) == (79, 0.2, 0.6)


def test_what_the_node_did(tmp_path: Path) -> None:
    seen = captured(tmp_path)
    assert seen.busy_cpus == pytest.approx(2 * 600 / 1000)
    assert seen.steal_share == pytest.approx(0.09)
    assert seen.file_refaults == 1000
    assert seen.usable_cpus == (0, 1, 2)


@pytest.mark.parametrize(
    ("statm", "page_bytes"),
    [
        ("1407 280", 4096),
        ("1500 280", 4096),  # it mapped more meanwhile
        ("1300 280", 4096),
        ("352 70", 16384),
        ("88 18", 65536),
        ("0 0", None),
        ("x", None),
        ("", None),
    ],
)
def test_the_size_of_a_page(tmp_path: Path, statm: str, page_bytes: int | None) -> None:
    assert captured(tmp_path, {"proc/77/statm": f"{statm}\n"}).page_bytes == page_bytes


def test_the_cpus_are_those_of_the_threads_that_work(tmp_path: Path) -> None:
    bound: Tree = {
        "proc/77/task/78/status.2": captures.status(77, cpus="1"),
        "proc/77/task/79/status.2": captures.status(77, cpus="2"),
    }
    assert captured(tmp_path, bound).usable_cpus == (1, 2)


def test_a_thread_that_began_meanwhile_counts_whole(tmp_path: Path) -> None:
    seen = captured(tmp_path, captures.thread(77, 80, None, f"{SECOND * 9 // 2} {SECOND // 4} 3"))
    assert (seen.threads[0].tid, seen.threads[0].cpu_share) == (80, 0.9)
    assert (seen.threads[0].voluntary_switches, seen.threads[0].involuntary_switches) == (6, 9)


def test_a_thread_of_anothers_id_counts_whole(tmp_path: Path) -> None:
    seen = captured(tmp_path, {"proc/77/task/78/schedstat.2": f"{2 * SECOND} {SECOND} 99"})
    assert (seen.threads[0].cpu_share, seen.threads[0].delay_share) == (0.4, 0.2)


def test_a_kernel_without_schedstat(tmp_path: Path) -> None:
    looks = Reader(
        plant(
            {
                **SERVER,
                **{
                    f"proc/77/task/{tid}/schedstat{end}": "0 0 0\n"
                    for tid in (77, 78, 79)
                    for end in ("", ".2")
                },
                "proc/77/task/77/stat": captures.stat(77),
                "proc/77/task/78/stat": captures.stat(78, ticks=(100, 0)),
                "proc/77/task/78/stat.2": captures.stat(78, "worker", ticks=(300, 50)),
            },
            tmp_path,
        ),
        "engine",
    )
    (thread,) = watch(looks, (77,), 5.0).threads
    assert (thread.tid, thread.cpu_share, thread.delay_share) == (78, 0.5, None)
    (gap,) = looks.gaps
    assert (gap.field, gap.reason) == ("threads.delay_share", Reason.UNSUPPORTED)


def test_the_state_at_both_ends(tmp_path: Path) -> None:
    stopped: Tree = {"proc/77/stat.2": captures.stat(77, state="T")}
    (process,) = captured(tmp_path, stopped).processes
    assert (process.first_state, process.state) == ("S", "T")


def test_a_process_that_was_started_meanwhile(tmp_path: Path) -> None:
    child: Tree = {
        "proc/90/stat.2": captures.stat(90, "runner", parent=77, ticks=(200, 0), faults=(7, 3)),
        "proc/90/status.2": captures.status(90),
        "proc/90/io.2": captures.io(600),
        **captures.thread(90, 90, None, f"{2 * SECOND} 0 3"),
    }
    _, runner = captured(tmp_path, child).processes
    assert (runner.pid, runner.parent, runner.cpu_seconds) == (90, 77, 2.0)
    assert (runner.major_faults, runner.read_bytes, runner.read_total_bytes) == (3, 600, 600)
    assert (runner.first_state, runner.state) == (None, "S")


@pytest.mark.parametrize(
    "later", [None, captures.stat(77, state="Z"), captures.stat(77, start=9999)]
)
def test_a_process_that_ended(tmp_path: Path, later: str | None) -> None:
    """It is gone, waits to be reaped, or another has its id."""
    files = {**SERVER, "proc/77/stat.2": later or ""}
    looks = Reader(plant(files, tmp_path), "engine")
    seen = watch(looks, (77,), 5.0)
    (process,) = seen.processes
    assert seen.ended
    assert (process.ended, process.resident_bytes) == (True, 512 << 10)
    assert looks.gaps == []


def test_a_worker_that_ended_ends_not_the_engine(tmp_path: Path) -> None:
    worker: Tree = {
        "proc/78/stat": captures.stat(78, "worker", parent=77, ticks=(5, 0)),
        "proc/78/stat.2": captures.stat(78, "worker", parent=77, ticks=(9, 0), state="Z"),
    }
    seen = captured(tmp_path, worker)
    assert not seen.ended
    assert [(p.pid, p.ended) for p in seen.processes] == [(77, False), (78, True)]


def test_a_launcher_that_ended_leaves_its_workers(tmp_path: Path) -> None:
    launcher: Tree = {
        "proc/70/stat": captures.stat(70, "sh"),
        "proc/77/stat": captures.stat(77, parent=70),
    }
    seen = captured(tmp_path, launcher, pids=(70, 77))
    assert seen.ended
    assert [(p.pid, p.ended) for p in seen.processes] == [(70, True), (77, False)]
    assert seen.seconds == 5.0


def test_it_had_ended_before_we_looked(tmp_path: Path) -> None:
    seen = captured(tmp_path, pids=(99,))
    assert (seen.ended, seen.processes, seen.seconds) == (True, (), 0.0)


def test_who_else_takes_cpus(tmp_path: Path) -> None:
    others: Tree = {}
    for pid, name, used, flags in (
        (2, "kthreadd", 0, 0x208040),
        (30, "kswapd0", 90, 0x208040),
        (31, "kcompactd0", 150, 0x208040),
        (40, "cc1", 450, 0),
        (41, "sshd", 20, 0),
        (42, "ld", 300, 0),
        (43, "yes", 70, 0),
    ):
        others |= {
            f"proc/{pid}/stat": captures.stat(pid, name, parent=2, flags=flags, ticks=(11, 0)),
            f"proc/{pid}/stat.2": captures.stat(
                pid, name, parent=2, flags=flags, ticks=(11 + used, 0)
            ),
        }
    seen = captured(tmp_path, others)
    assert [(o.name, o.cpus) for o in seen.others] == [
        ("cc1", 0.9),
        ("ld", 0.6),
        ("kcompactd0", 0.3),
    ]


def test_another_process_of_the_same_id_counts_whole(tmp_path: Path) -> None:
    files: Tree = {
        "proc/40/stat": captures.stat(40, "cc1", ticks=(250, 0), start=5000),
        "proc/40/stat.2": captures.stat(40, "ld", ticks=(300, 0), start=9000),
    }
    assert [(o.name, o.cpus) for o in captured(tmp_path, files).others] == [("ld", 0.6)]


def test_others_that_may_not_run_on_its_cpus_are_not_named(tmp_path: Path) -> None:
    others: Tree = {"sys/devices/system/cpu/online": "0-7\n"}
    for pid, used, cpus, cpu in ((40, 450, "4-7", 4), (41, 300, "3-7", 6), (42, 200, "4-7", 2)):
        others |= {
            f"proc/{pid}/stat": captures.stat(pid, "cc1"),
            f"proc/{pid}/stat.2": captures.stat(pid, "cc1", ticks=(used, 0), cpu=cpu),
            f"proc/{pid}/status.2": captures.status(pid, cpus=cpus),
        }
    seen = captured(tmp_path, others)
    assert seen.usable_cpus == (0, 1, 2, 3)
    assert [other.pid for other in seen.others] == [41, 42]


def test_what_its_own_cpus_did(tmp_path: Path) -> None:
    """A neighbour keeps CPU 3 busy, which the engine may not use."""
    first, later = SERVER["proc/stat"], SERVER["proc/stat.2"]
    assert isinstance(first, str)
    assert isinstance(later, str)
    each: Tree = {"sys/devices/system/cpu/online": "0-1\n"}
    for end, text, ticks in (("", first, ((0, 0), (0, 0), (0, 0))),
                             (".2", later, ((500, 0), (100, 300), (500, 0)))):  # fmt: skip
        lines = [f"cpu{n} {busy} 0 0 {idle} 0 0 0 0 0 0" for n, (busy, idle) in enumerate(ticks)]
        each[f"proc/stat{end}"] = "\n".join([text.splitlines()[0], *lines, "intr 5", ""])
    assert captured(tmp_path / "a", each).usable_busy_cpus == pytest.approx(1.25)
    assert captured(tmp_path / "b").usable_busy_cpus is None


def test_what_it_started_and_reaped_is_its_own(tmp_path: Path) -> None:
    """A worker that was there had run for 3 s, and one that nobody saw ran for 1.5 s."""
    children: Tree = {
        "proc/77/stat": captures.stat(77, ticks=(100, 50), reaped=40),
        "proc/77/stat.2": captures.stat(77, ticks=(200, 50), reaped=40 + 320 + 150),
        "proc/78/stat": captures.stat(78, "worker", parent=77, ticks=(300, 0)),
    }
    seen = captured(tmp_path, children)
    assert [each.cpu_seconds for each in seen.processes] == pytest.approx([1.0 + 0.2 + 1.5, 0.0])


def test_what_was_never_reaped_takes_nothing_away(tmp_path: Path) -> None:
    gone: Tree = {"proc/78/stat": captures.stat(78, "worker", parent=77, ticks=(900, 0))}
    assert captured(tmp_path, gone).processes[0].cpu_seconds == 10.0


def test_how_nice_it_is(tmp_path: Path) -> None:
    changed: Tree = {"proc/77/stat.2": captures.stat(77, nice=19)}
    assert captured(tmp_path / "a", changed).nice == 19
    assert captured(tmp_path / "b", {"proc/77/stat.2": ""}).nice is None


def test_threads_that_are_many_are_told_as_far_as_they_ran(tmp_path: Path) -> None:
    pool: Tree = {}
    for tid in range(1000, 1600):
        pool |= captures.thread(77, tid, f"{SECOND} 0 1", f"{SECOND} 0 1")
    seen = captured(tmp_path, pool)
    assert seen.thread_count == 603
    assert [thread.tid for thread in seen.threads] == [78, 79]


class Vanishing(CapturedHost):
    """A node whose engine is gone after so many reads of its files."""

    def __init__(self, directory: Path, reads: int) -> None:
        super().__init__(directory)
        self.reads = reads

    def read(self, path: str) -> str:
        self._count(path)
        return super().read(path)

    def names(self, path: str) -> tuple[str, ...]:
        self._count(path)
        return super().names(path)

    def _count(self, path: str) -> None:
        if path.startswith("/proc/77/"):
            self.reads -= 1
            if self.reads < 0:
                raise UnreadableError(Reason.FAILED, f"{path}: No such process")


def test_it_may_end_at_any_moment(tmp_path: Path) -> None:
    plant(SERVER, tmp_path)
    ended = []
    for reads in range(100):
        host = Vanishing(tmp_path, reads)
        looks = Reader(host, "engine")
        seen = watch(looks, (77,), 5.0)
        ended.append(seen.ended)
        assert looks.gaps == []
    assert host.reads > 0
    assert ended == sorted(ended, reverse=True)
    assert set(ended) == {True, False}
