"""Kernels run only where they may, one at a time, and never take the node down."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from nodecheck.checks.dram import DEADLINE_SECONDS, measure
from nodecheck.checks.dram.buffers import Buffers
from nodecheck.checks.dram.probe import probe
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts
from nodecheck.machine import child, lock
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from tests.checks.live_tree import live_tree, while_sleeping
from tests.trees import Tree

pytest.importorskip("nodecheck._native")

from nodecheck.machine import native

MIB = 1 << 20
LIMIT_SECONDS = measure.LIMIT_SECONDS
CPUS = tuple(sorted(os.sched_getaffinity(0)))


def facts(available: int = 4 << 30, **limits: object) -> Facts:
    return Facts(
        limits=LimitsFacts(usable_cpus=CPUS, **limits),  # type: ignore[arg-type]
        memory=MemoryFacts(available_bytes=available),
    )


@pytest.fixture(autouse=True)
def short_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "KERNEL_SECONDS", 0.3)
    monkeypatch.setattr(measure, "LIMIT_SECONDS", 30.0)
    monkeypatch.setattr(lock, "RUN_LOCK", tmp_path)


def test_one_and_all_threads_are_measured() -> None:
    reader = Reader(LiveHost(), "dram")
    found = probe(reader, facts(), "always")
    assert reader.gaps == []
    assert [each.threads for each in found.measurements] == sorted({1, len(CPUS)})
    assert all(
        each.passes >= 1 and each.median_bytes_per_second > 1e8 for each in found.measurements
    )
    assert found.facts.skipped is None
    assert found.facts.kernel == native.usable_kernel()
    assert all(each.load is not None for each in found.measurements)


def test_a_quota_bounds_the_threads() -> None:
    reader = Reader(LiveHost(), "dram")
    found = probe(reader, facts(thread_budget=1), "always")
    assert [each.threads for each in found.measurements] == [1]


def test_too_little_memory_is_said_plainly() -> None:
    reader = Reader(LiveHost(), "dram")
    found = probe(reader, facts(memory_headroom_bytes=6 * MIB), "always")
    assert found.measurements == ()
    assert "not measurable" in (found.facts.skipped or "")
    assert len(reader.gaps) >= 1


@pytest.mark.parametrize(
    "seen", [Facts(), Facts(limits=LimitsFacts(usable_cpus=CPUS)), facts(available=0)]
)
def test_what_is_not_known_is_not_guessed(seen: Facts) -> None:
    reader = Reader(LiveHost(), "dram")
    assert probe(reader, seen, "always").measurements == ()
    assert reader.gaps != []


def test_a_cpu_that_cannot_be_had_is_a_gap() -> None:
    reader = Reader(LiveHost(), "dram")
    seen = Facts(
        limits=LimitsFacts(usable_cpus=(4095,)), memory=MemoryFacts(available_bytes=1 << 32)
    )
    assert probe(reader, seen, "always").measurements == ()
    assert "4095" in reader.gaps[0].detail


def test_a_second_measurement_waits_for_none() -> None:
    def second() -> str:
        return probe(Reader(LiveHost(), "dram"), facts(), "always").facts.skipped or ""

    with lock.measuring() as alone:
        assert alone
        assert "another nodecheck" in (child.call(second, str, 10).value or "")


def test_a_busy_gpu_is_left_alone() -> None:
    seen = Facts(gpus=(Gpu(name="a card", utilisation_share=0.5),))
    found = probe(Reader(LiveHost(), "dram"), seen, "auto")
    assert found.facts.skipped == "a card is busy (50 %)"


def stat(idle: int, busy: int) -> str:
    return f"cpu  0 0 0 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\nintr 5\n"


@pytest.mark.parametrize(("busy", "expected"), [(12, True), (8, False)])
def test_busy_cpus_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int, expected: bool
) -> None:
    tree: Tree = {"proc/stat": stat(100, 100)}
    later: Tree = {"proc/stat": stat(120 - busy, 100 + busy)}
    host = live_tree(tree, tmp_path / "node")
    while_sleeping(monkeypatch, "nodecheck.checks.dram.probe", tmp_path / "node", later)
    skipped = probe(Reader(host, "dram"), Facts(), "auto").facts.skipped or ""
    assert ("CPUs are busy" in skipped) is expected


def test_never_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "run", lambda *_: pytest.fail("a kernel ran"))
    found = probe(Reader(LiveHost(), "dram"), facts(), "never")
    assert found.facts.skipped == "not asked for"


def test_a_missing_extension_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise native.NativeUnavailable("the C extension cannot be loaded: no file")

    monkeypatch.setattr(measure, "run", missing)
    reader = Reader(LiveHost(), "dram")
    assert "C extension" in (probe(reader, facts(), "always").facts.skipped or "")
    assert len(reader.gaps) == 1


def hang(*_: object) -> None:
    time.sleep(60)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("fault", "word"), [(hang, "no answer"), (die, "SIGKILL")])
def test_a_kernel_that_hangs_or_is_killed_takes_nobody_along(
    monkeypatch: pytest.MonkeyPatch, fault: object, word: str
) -> None:
    monkeypatch.setattr(measure._Kernel, "__call__", fault)
    monkeypatch.setattr(measure, "LIMIT_SECONDS", 0.8)
    monkeypatch.setattr(measure, "LEAST_SECONDS", 0.1)
    reader = Reader(LiveHost(), "dram")
    found = probe(reader, facts(), "always")
    assert found.measurements == ()
    assert word in reader.gaps[0].detail


def test_the_child_offers_itself_to_the_oom_killer() -> None:
    def work() -> str:
        native.dram_read = lambda *_: None  # type: ignore[assignment] # in the child only
        measure._Kernel((0,), Buffers(2 * MIB, undersized=False), 0.0)()
        return Path("/proc/self/oom_score_adj").read_text().strip()

    assert child.call(work, str, 10).value == "1000"


@pytest.mark.parametrize(
    ("cpus", "budget", "counts"),
    [
        (1, None, (1,)),
        (2, None, (1, 2)),
        (7, None, (1, 7)),
        (8, None, (1, 4, 8)),
        (96, 7, (1, 7)),
        (96, None, (1, 48, 96)),
        (4, 9, (1, 4)),
    ],
)
def test_thread_counts(cpus: int, budget: int | None, counts: tuple[int, ...]) -> None:
    assert measure.thread_counts(cpus, budget) == counts


def siblings(pairs: dict[int, str]) -> Tree:
    root = "sys/devices/system/cpu"
    return {f"{root}/cpu{c}/topology/thread_siblings_list": f"{s}\n" for c, s in pairs.items()}


@pytest.mark.parametrize(
    "pairs",
    [
        {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"},
        {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"},
    ],
)
def test_half_of_the_threads_are_one_a_core(tmp_path: Path, pairs: dict[int, str]) -> None:
    reader = Reader(live_tree(siblings(pairs), tmp_path / "node"), "dram")
    cpus = measure.by_core(reader, (0, 1, 2, 3))
    chosen = measure.spread(cpus, 2)
    assert len({pairs[cpu] for cpu in chosen}) == 2
    assert measure.spread(cpus, 4) == cpus


def test_the_kernels_end_before_the_probe_must() -> None:
    assert DEADLINE_SECONDS > 1 + LIMIT_SECONDS
