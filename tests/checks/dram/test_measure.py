"""A report's kernels run one block at a time, each in a child that takes nobody along."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("nodecheck._native")

from nodecheck.checks.dram import DEADLINE_SECONDS, caches, measure, session
from nodecheck.checks.dram.caches import Cache, Caches
from nodecheck.checks.dram.facts import DramProbe
from nodecheck.checks.dram.figures import Result
from nodecheck.checks.dram.plan import Block
from nodecheck.checks.dram.room import Room
from nodecheck.checks.dram.session import Stretch
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts
from nodecheck.machine import kernels
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from nodecheck.units import GB, MIB
from tests.checks.dram.stretches import block, each_once, result, round_trips, series, stretch
from tests.checks.live_tree import live_tree
from tests.trees import Tree

LIMIT_SECONDS = measure.LIMIT_SECONDS
CPUS = tuple(sorted(os.sched_getaffinity(0)))
WEIGHTS = {"q4_0", "q4_k", "q6_k", "q8_0", "f16", "bf16", "fp8_e4m3", "int4_g128"}
STEADY = [30.0] * 9


def facts(available: int = 4 << 30, cpus: tuple[int, ...] = CPUS, **limits: object) -> Facts:
    return Facts(
        limits=LimitsFacts(usable_cpus=cpus, **limits),  # type: ignore[arg-type]
        memory=MemoryFacts(available_bytes=available),
    )


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy; whatever its caches, a little memory lies beyond them."""
    small = Caches((Cache(4 * MIB, frozenset(CPUS)),), known=True)
    monkeypatch.setattr(caches, "read", lambda *_: small)
    monkeypatch.setattr(measure, "KERNEL_SECONDS", 1.0)
    monkeypatch.setattr(measure, "LIMIT_SECONDS", 60.0)
    monkeypatch.setattr(measure, "TOUCH_SECONDS", 30.0)


@pytest.fixture
def reader() -> Reader:
    return Reader(LiveHost(), "dram")


def told(reader: Reader) -> list[tuple[Reason, str]]:
    return [(gap.reason, gap.detail) for gap in reader.gaps]


# --- on this machine ---


def test_reads_and_decode_on_one_and_on_all_cpus(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_spend", each_once)
    found = measure.run(reader, facts(), ("q4_k",))
    assert reader.gaps == []
    counts = sorted({1, len(CPUS)})
    for count in counts:
        names = {each.name for each in found.measurements if each.threads == count}
        assert names == {"dram_read", "decode_dram_q4_k"} | {f"decode_{w}" for w in WEIGHTS}
    assert {each.threads for each in found.measurements} == set(counts)
    assert all(each.passes >= 1 for each in found.measurements)
    assert all(each.median_bytes_per_second > 1e7 for each in found.measurements)
    reads = [each for each in found.measurements if each.name == "dram_read"]
    assert found.facts.kernel == reads[-1].kernel
    assert found.facts.skipped is None
    assert found.facts.pairs == len(CPUS) * (len(CPUS) - 1) // 2
    assert (found.facts.buffer_bytes_per_thread or 0) >= 4 * MIB


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_several_types_are_measured_from_memory_on_all_cpus(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_spend", each_once)
    monkeypatch.setattr(measure, "KERNEL_SECONDS", 60.0)
    found = measure.run(reader, facts(cpus=CPUS[:2]), ("q6_k", "q4_k"))
    from_memory = {(m.name, m.threads) for m in found.measurements if "decode_dram" in m.name}
    assert from_memory == {
        ("decode_dram_q6_k", 1),
        ("decode_dram_q6_k", 2),
        ("decode_dram_q4_k", 2),
    }


def test_a_model_of_types_without_kernels_leaves_the_reads(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_spend", each_once)
    names = {m.name for m in measure.run(reader, facts(), ()).measurements}
    assert "dram_read" in names
    assert not any(name.startswith("decode_dram") for name in names)


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_round_trips_before_and_after_come_with_the_figures(reader: Reader) -> None:
    found = measure.run(reader, facts(cpus=CPUS[:2]), ("q4_k",))
    assert [trip.cpus for trip in found.facts.round_trips] == [CPUS[:2]]
    for each in found.measurements:
        assert (each.round_trip_seconds is None) == (each.threads == 1)
        assert all(1e-9 < seconds < 1 for seconds in each.round_trip_seconds or ())


def test_a_quota_bounds_the_threads(reader: Reader) -> None:
    found = measure.run(reader, facts(thread_budget=1), ("q4_k",))
    assert {each.threads for each in found.measurements} == {1}


def test_a_cpu_that_cannot_be_had_is_a_gap(reader: Reader) -> None:
    assert measure.run(reader, facts(cpus=(4095,)), ("q4_k",)).measurements == ()
    assert [reason for reason, _ in told(reader)] == [Reason.FAILED]
    assert "memory on 1 thread: OSError" in told(reader)[0][1]
    assert "4095" in told(reader)[0][1]


# --- what there is no room for ---


@pytest.mark.parametrize("seen", [Facts(), Facts(limits=LimitsFacts(usable_cpus=CPUS))])
def test_what_is_not_known_is_not_guessed(reader: Reader, seen: Facts) -> None:
    found = measure.run(reader, seen, ("q4_k",))
    assert found.measurements == ()
    assert "not known" in (found.facts.skipped or "")
    assert len(reader.gaps) == 1


@pytest.mark.parametrize("available", [0, 6 * MIB])
def test_too_little_memory_is_said_plainly(reader: Reader, available: int) -> None:
    found = measure.run(reader, facts(memory_headroom_bytes=available), ("q4_k",))
    assert found.measurements == ()
    assert (found.facts.skipped or "").startswith("not measurable on 1 thread")
    assert [reason for reason, _ in told(reader)] == [Reason.UNSUPPORTED] * len({1, len(CPUS)})


# --- children that fail ---

Fault = Callable[[Reader, Block], Stretch]


def hang(*_: object) -> Stretch:
    time.sleep(60)
    raise AssertionError


def die(*_: object) -> Stretch:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def run_out_of_room(*_: object) -> Stretch:
    raise kernels.NoRoom


def be_slow(*_: object) -> Stretch:
    raise kernels.TooSlow("memory is touched at 0.15 GB/s")


@pytest.mark.parametrize(
    ("fault", "reason", "word"),
    [
        (hang, Reason.TIMEOUT, "no answer within"),
        (die, Reason.FAILED, "died by SIGKILL"),
        (run_out_of_room, Reason.FAILED, "other work took the memory meanwhile"),
        (be_slow, Reason.FAILED, "memory on 1 thread: memory is touched at 0.15 GB/s"),
    ],
)
def test_a_block_that_fails_takes_nobody_along(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, fault: Fault, reason: Reason, word: str
) -> None:
    monkeypatch.setattr(session, "run", fault)
    monkeypatch.setattr(measure, "LIMIT_SECONDS", 0.8)
    began = time.monotonic()
    found = measure.run(reader, facts(thread_budget=1), ("q4_k",))
    assert time.monotonic() - began < 10
    assert found.measurements == ()
    assert found.facts.skipped == "the kernels failed"
    [(given_reason, detail)] = told(reader)
    assert given_reason is reason
    assert word in detail


class Children:
    """Stands in for the session: what it does in each child in turn, told apart by a file."""

    def __init__(self, counter: Path, *faults: Fault | None) -> None:
        self.counter = counter
        self.faults = faults

    def __call__(self, reader: Reader, wanted: Block) -> Stretch:
        number = len(self.counter.read_text()) if self.counter.exists() else 0
        self.counter.write_text("x" * (number + 1))
        fault = self.faults[number] if number < len(self.faults) else None
        return fault(reader, wanted) if fault else stretch(series([30.0 + number] * 5))

    @property
    def count(self) -> int:
        return len(self.counter.read_text())


@pytest.mark.parametrize(
    ("faults", "failed"),
    [((), 0), ((die,), 0), ((None, die), 0), ((die, be_slow), 1)],
)
def test_a_block_that_fails_has_a_second_chance(
    reader: Reader,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    faults: tuple[Fault | None, ...],
    failed: int,
) -> None:
    children = Children(tmp_path / "count", *faults)
    monkeypatch.setattr(session, "run", children)
    found = measure.run(reader, facts(thread_budget=1), ("q4_k",))
    assert children.count == measure.TURNS
    assert len(found.measurements) == 1 - failed
    assert len(reader.gaps) == failed
    if failed:
        assert "0.15 GB/s" in reader.gaps[0].detail  # the last word
    else:
        assert found.measurements[0].passes == 5 * (2 - len([f for f in faults if f]))


def test_thread_counts_are_measured_in_turns_the_widest_first(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def noted(_: Reader, wanted: Block) -> Stretch:
        with log.open("a") as file:
            file.write(f"{len(wanted.cpus)} ")
        return stretch(series([30.0] * 5))

    monkeypatch.setattr(session, "run", noted)
    found = measure.run(reader, facts(available=1 << 38, cpus=tuple(range(16))), ("q4_k",))
    assert log.read_text() == "16 8 1 16 8 1 "
    assert [each.threads for each in found.measurements] == [1, 8, 16]
    assert {each.passes for each in found.measurements} == {10}


def test_on_a_busy_node_the_widest_is_measured_at_least(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_: Reader, wanted: Block) -> Stretch:
        if len(wanted.cpus) == 1:
            return hang()
        time.sleep(0.5)
        return stretch(series([30.0] * 5))

    monkeypatch.setattr(session, "run", slow)
    monkeypatch.setattr(measure, "LIMIT_SECONDS", 1.4)
    found = measure.run(reader, facts(cpus=(0, 1)), ("q4_k",))
    assert [each.threads for each in found.measurements] == [2]
    assert [reason for reason, _ in told(reader)] == [Reason.TIMEOUT]


def test_a_node_that_leaves_no_time_is_said_to(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "LIMIT_SECONDS", 0.1)
    measure.run(reader, facts(thread_budget=1), ("q4_k",))
    assert told(reader) == [(Reason.TIMEOUT, "memory on 1 thread: no time was left for it")]


def test_gaps_are_told_in_the_order_of_the_blocks(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "run", die)
    measure.run(reader, facts(available=1 << 38, cpus=tuple(range(16))), ("q4_k",))
    words = [detail.partition(":")[0] for _, detail in told(reader)]
    assert words == ["memory on 16 threads", "memory on 8 threads", "memory on 1 thread"]


def test_the_kernels_end_before_the_probe_must() -> None:
    assert DEADLINE_SECONDS > 1 + LIMIT_SECONDS


# --- what else ran ---


def changing(directory: Path, monkeypatch: pytest.MonkeyPatch, tree: Tree, later: Tree) -> Reader:
    """A node whose counters move while a child measures."""

    def work(*_: object) -> Stretch:
        for path, text in later.items():
            (directory / path).write_text(str(text))
        return stretch(series(STEADY))

    monkeypatch.setattr(session, "run", work)
    return Reader(live_tree(tree, directory), "dram")


def test_a_quota_that_stopped_the_kernels_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = changing(
        tmp_path / "node",
        monkeypatch,
        {"sys/cpu.stat": "nr_periods 1\nnr_throttled 1\nthrottled_usec 5\n"},
        {"sys/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_usec 5\n"},
    )
    seen = facts(throttled_source="/sys/cpu.stat")
    found = measure.one(reader, seen, block(1), time.monotonic() + 60)
    assert isinstance(found, Result)
    assert found.throttled


def test_a_quota_that_did_not_bite_is_no_throttling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = changing(
        tmp_path / "node",
        monkeypatch,
        {"sys/cpu.stat": "nr_periods 1\nnr_throttled 1\n"},
        {"sys/cpu.stat": "nr_periods 9\nnr_throttled 1\n"},
    )
    end = time.monotonic() + 60
    for seen in (facts(throttled_source="/sys/cpu.stat"), facts()):
        found = measure.one(reader, seen, block(1), end)
        assert isinstance(found, Result)
        assert not found.throttled


# --- what is told ---


def concluded(*results: Result, known: bool = True) -> DramProbe:
    caches = Caches((Cache(32 * MIB, frozenset({0, 1})),) * 2, known=known)
    room = Room((0, 1, 2), 1 << 34, caches, guest=True)
    return measure.result(Reader(LiveHost(), "dram"), room, results)


def test_figures_by_threads_and_the_facts_of_the_widest() -> None:
    found = concluded(
        result(series(STEADY, kernel="avx512"), of=block(3), source_bytes=64 * MIB),
        result(series([20.0] * 9), series([9.0] * 9, name="decode_q4_k"), of=block(1)),
    )
    assert [(each.threads, each.name) for each in found.measurements] == [
        (1, "decode_q4_k"),
        (1, "dram_read"),
        (3, "dram_read"),
    ]
    assert (found.facts.kernel, found.facts.buffer_bytes_per_thread) == ("avx512", 64 * MIB)
    assert (found.facts.llc_bytes, found.facts.llc_count) == (64 * MIB, 2)
    assert found.facts.pairs == 3
    assert found.facts.warnings == ()


def test_the_kernel_is_that_of_the_node_and_not_of_one_of_its_parts() -> None:
    found = concluded(
        result(series(STEADY, kernel="avx512"), of=block(3)),
        result(series(STEADY, kernel="sse2"), of=block(1, cpu_node=1, memory_node=1)),
    )
    assert found.facts.kernel == "avx512"


def test_a_cache_size_that_was_assumed_is_no_fact() -> None:
    found = concluded(result(series(STEADY)), known=False)
    assert (found.facts.llc_bytes, found.facts.llc_count) == (None, None)
    assert "assumed" in found.facts.warnings[0]


def test_the_round_trips_are_the_last_of_the_most_cpus() -> None:
    found = concluded(
        result(series(STEADY), of=block(3), after=[55, 56]),
        result(series(STEADY), of=block(2), after=[1]),
        result(series(STEADY), of=block(3), after=[57, 58]),
        result(series(STEADY), of=block(2), after=[2]),
    )
    assert found.facts.round_trips == round_trips([57, 58])


@pytest.mark.parametrize(
    ("share", "rate", "words"),
    [
        (1.0, 6 * GB, []),
        (None, 6 * GB, []),
        (0.5, 0.5 * GB, []),
        (0.4, 6 * GB, ["small pages"]),
        (1.0, 0.15 * GB, ["touched at 0.1 GB/s"]),
        (0.0, 0.15 * GB, ["small pages", "0.1 GB/s"]),
    ],
)
def test_memory_that_is_unlike_a_servers_is_said(
    share: float | None, rate: float, words: list[str]
) -> None:
    made = stretch(series(STEADY), huge_page_share=share, touch_rate=rate)
    warnings = concluded(Result(block(), made, result().load, False)).facts.warnings
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))
