"""`nodecheck bench` measures the parts that are asked for, within the time, until it is stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("nodecheck._native")

from nodecheck.checks.dram import bench, caches, measure, placement, session
from nodecheck.checks.dram.caches import Cache, Caches
from nodecheck.checks.dram.facts import DramProbe
from nodecheck.checks.dram.plan import STREAMS, WEIGHT_TYPES, Block
from nodecheck.checks.dram.session import Stretch
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.seen import Facts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine import child, lock
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from nodecheck.units import MIB
from tests.checks.dram.stretches import each_once, round_trips, series, stretch

CPUS = tuple(sorted(os.sched_getaffinity(0)))
STEADY = [30.0] * 9


def facts(
    cpus: tuple[int, ...] = (0, 1),
    nodes: tuple[NumaNode, ...] = (),
    available: int = 1 << 40,
    **limits: object,
) -> Facts:
    return Facts(
        limits=LimitsFacts(usable_cpus=cpus, **limits),  # type: ignore[arg-type]
        memory=MemoryFacts(available_bytes=available),
        virt=VirtFacts(guest=False),
        numa=NumaFacts(nodes=nodes),
    )


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "RUN_LOCK", tmp_path)


@pytest.fixture
def reader() -> Reader:
    return Reader(LiveHost(), "dram")


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    """The blocks that were measured, in order; nothing is."""
    seen: list[Block] = []

    def one(_reader: Reader, _facts: Facts, block: Block, _end: float) -> measure.Failure:
        seen.append(block)
        return measure.Failure(Reason.FAILED, "made up")

    monkeypatch.setattr(measure, "one", one)
    monkeypatch.setattr(placement, "everywhere", lambda *_: round_trips([55]))
    return seen


def run(
    reader: Reader, what: Sequence[str] = bench.PARTS, seen: Facts | None = None, **more: object
) -> DramProbe:
    return bench.run(reader, seen or facts(), what, **more)  # type: ignore[arg-type]


def widths(blocks: Sequence[Block]) -> list[int]:
    return [len(block.cpus) for block in blocks]


# --- the parts ---


def test_memory_is_swept_over_threads_in_two_turns(reader: Reader, blocks: list[Block]) -> None:
    run(reader, ["dram"], facts(tuple(range(6))))
    assert widths(blocks) == [6, 4, 2, 1] * 2
    assert {block.streams for block in blocks} == {STREAMS}
    assert not any(block.decode or block.decode_dram or block.latency for block in blocks)
    assert all(block.destination_bytes == block.source_bytes / 2 > 0 for block in blocks)
    assert all(block.grace_seconds == bench.TOUCH_SECONDS for block in blocks)


def test_decode_is_held_against_reads(reader: Reader, blocks: list[Block]) -> None:
    run(reader, ["decode"], facts(tuple(range(6))))
    kinds = [(len(b.cpus), b.streams, b.decode, b.decode_dram) for b in blocks]
    assert (
        kinds
        == [
            (6, (), True, WEIGHT_TYPES),
            (6, ("read",), False, ()),
            (1, (), True, WEIGHT_TYPES),
            (1, ("read",), False, ()),
        ]
        * 2
    )


def test_reads_are_not_taken_twice(reader: Reader, blocks: list[Block]) -> None:
    run(reader, ["dram", "decode"])
    kinds = [(len(b.cpus), b.streams, b.decode) for b in blocks]
    assert kinds == [(2, STREAMS, False), (1, STREAMS, False), (2, (), True), (1, (), True)] * 2


def test_latency_alone_and_while_others_read(reader: Reader, blocks: list[Block]) -> None:
    run(reader, ["latency"], facts(tuple(range(6))))
    assert widths(blocks) == [1, 6]
    assert all(block.latency and not block.streams for block in blocks)
    assert all(block.destination_bytes == block.source_bytes for block in blocks)


def test_placement_is_round_trips_alone(reader: Reader, blocks: list[Block]) -> None:
    found = run(reader, ["placement"])
    assert blocks == []
    assert found.facts.round_trips == round_trips([55])
    assert found.facts.pairs == 1
    assert found.facts.skipped is None


def test_one_cpu_has_no_placement_and_nothing_twice(reader: Reader, blocks: list[Block]) -> None:
    found = run(reader, bench.PARTS, facts((0,)))
    assert widths(blocks) == [1] * len(blocks)
    assert len([block for block in blocks if block.latency]) == 1
    assert found.facts.round_trips == ()


def test_a_quota_bounds_the_threads(reader: Reader, blocks: list[Block]) -> None:
    run(reader, bench.PARTS, facts(tuple(range(16)), thread_budget=3))
    assert max(widths(blocks)) == 3
    assert {len(b.cpus) for b in blocks if b.streams == STREAMS} == {1, 2, 3}


def node(number: int, *cpus: int) -> NumaNode:
    return NumaNode(id=number, cpus=cpus)


def test_each_nodes_cpus_read_each_nodes_memory(reader: Reader, blocks: list[Block]) -> None:
    nodes = (node(0, 0, 1, 2), node(1, 3, 4, 5, 9), node(2), NumaNode(id=3, cpus=None))
    run(reader, ["dram"], facts((0, 1, 3, 4, 5), nodes))
    across = [
        (b.cpu_node, b.memory_node, b.cpus, b.home_cpus)
        for b in blocks
        if b.cpu_node is not None or b.memory_node is not None
    ]
    assert (
        across
        == [
            (0, 0, (0, 1), (0, 1)),
            (0, 1, (0, 1), (3, 4)),
            (1, 0, (3, 4), (0, 1)),
            (1, 1, (3, 4, 5), (3, 4, 5)),
        ]
        * 2
    )
    assert {b.streams for b in blocks if b.cpu_node is not None} == {("read",)}


@pytest.mark.parametrize("nodes", [(), (node(0, 0, 1),), (node(0, 0, 1), node(1, 7))])
def test_one_node_is_not_told_apart(
    reader: Reader, blocks: list[Block], nodes: tuple[NumaNode, ...]
) -> None:
    run(reader, ["dram"], facts((0, 1), nodes))
    assert {block.cpu_node for block in blocks} == {None}


def test_what_is_not_known_is_said(reader: Reader, blocks: list[Block]) -> None:
    assert run(reader, bench.PARTS, Facts()).facts.skipped == "the usable CPUs are not known"
    assert blocks == []


def test_no_second_bench_beside_one(reader: Reader, blocks: list[Block]) -> None:
    def second() -> str:
        return run(reader, ["placement"]).facts.skipped or "it ran"

    with lock.measuring():
        assert child.call(second, str, 20).value == "another nodecheck is measuring on this node"
    assert child.call(second, str, 20).value == "it ran"
    assert blocks == []


def test_a_block_that_fails_leaves_the_others(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(_: Reader, block: Block) -> Stretch:
        if len(block.cpus) == 2:
            raise OSError("no such CPU")
        return stretch(series(STEADY))

    monkeypatch.setattr(session, "run", work)
    found = run(reader, ["dram"])
    assert [(each.threads, each.passes) for each in found.measurements] == [(1, 18)]
    assert "no such CPU" in reader.gaps[0].detail


def test_round_trips_that_fail_are_a_gap(reader: Reader) -> None:
    found = run(reader, ["placement"], facts((CPUS[0], 4095)))
    assert found.facts.round_trips == ()
    assert [gap.field for gap in reader.gaps] == ["round_trips"]
    assert "4095" in reader.gaps[0].detail


# --- on this machine ---


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_all_parts_on_this_machine(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_spend", each_once)
    monkeypatch.setattr(bench, "LATENCY_SECONDS", 0.1)
    small = Caches((Cache(4 * MIB, frozenset(CPUS[:2])),), known=True)
    monkeypatch.setattr(caches, "read", lambda *_: small)
    found = run(reader, bench.PARTS, facts(CPUS[:2], available=256 * MIB))
    assert reader.gaps == []
    names = {each.name for each in found.measurements}
    assert {f"dram_{operation}" for operation in STREAMS} <= names
    assert {"decode_q4_0", "decode_dram_q4_0"} <= names
    assert {each.threads for each in found.measurements} == {1, 2}
    assert [(each.name, each.other_threads) for each in found.latencies] == [
        ("dram_latency", 0),
        ("dram_latency_loaded", 1),
    ]
    assert [trip.cpus for trip in found.facts.round_trips] == [CPUS[:2]]


# --- time ---


def seconds(blocks: Sequence[Block]) -> float:
    return sum(block.seconds for block in blocks)


def test_progress_tells_what_is_measured_and_what_is_left(
    reader: Reader, blocks: list[Block]
) -> None:
    told: list[tuple[str, float | None]] = []
    run(reader, bench.PARTS, progress=lambda doing, left: told.append((doing, left)))
    assert [doing for doing, _ in told[:2]] == [
        "measuring placement",
        "measuring memory on 2 threads",
    ]
    assert {doing for doing, _ in told} >= {
        "measuring memory on 1 thread",
        "measuring decode on 2 threads",
        "measuring latency on 1 thread",
    }
    left = [each or 0.0 for _, each in told]
    assert left[0] == pytest.approx(seconds(blocks) + bench.PLACEMENT_SECONDS)
    assert left[1:] == pytest.approx([seconds(blocks[n:]) for n in range(len(blocks))])


def test_enough_time_changes_nothing(reader: Reader, blocks: list[Block]) -> None:
    run(reader, ["dram"])
    whole = list(blocks)
    blocks.clear()
    run(reader, ["dram"], max_seconds=seconds(whole))
    assert blocks == whole


def test_less_time_is_shared_by_all_blocks(reader: Reader, blocks: list[Block]) -> None:
    run(reader, ["dram"], max_seconds=6.0)
    assert widths(blocks) == [2, 1, 2, 1]
    assert [block.seconds for block in blocks] == pytest.approx([1.5] * 4)


def test_a_block_is_not_cut_to_nothing(reader: Reader, blocks: list[Block]) -> None:
    run(reader, ["dram"], max_seconds=1.0)
    assert min(block.seconds for block in blocks) == pytest.approx(0.2 * bench.STREAM_SECONDS)


def test_placement_takes_no_more_than_its_share_of_less_time(
    reader: Reader, blocks: list[Block], monkeypatch: pytest.MonkeyPatch
) -> None:
    def everywhere(_: object, seconds: float) -> tuple[object, ...]:
        time.sleep(seconds)
        return round_trips([55])

    monkeypatch.setattr(placement, "everywhere", everywhere)
    began = time.monotonic()
    run(reader, ["placement", "latency"], max_seconds=2.0)
    assert 0.9 < time.monotonic() - began < 1.8
    assert len(blocks) == 2


def test_no_more_time_than_is_allowed(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object) -> Stretch:
        time.sleep(60)
        raise AssertionError

    monkeypatch.setattr(session, "run", hang)
    monkeypatch.setattr(placement, "everywhere", lambda *_: round_trips([55]))
    began = time.monotonic()
    found = run(reader, bench.PARTS, max_seconds=1.5)
    assert 1.0 < time.monotonic() - began < 2.5
    assert found.measurements == ()
    assert found.facts.round_trips == round_trips([55])
    assert {gap.reason for gap in reader.gaps} == {Reason.TIMEOUT}


# --- Ctrl-C ---


def first_then_hang(directory: Path) -> Callable[[Reader, Block], Stretch]:
    """One child that measures, the next ones never end."""

    def work(*_: object) -> Stretch:
        mark = directory / "measured"
        if mark.exists():
            time.sleep(60)
        mark.touch()
        return stretch(series(STEADY))

    return work


def interrupted(found: DramProbe) -> bool:
    assert [(each.threads, each.passes) for each in found.measurements] == [(2, 9)]
    told = any(warning.startswith("interrupted after ") for warning in found.facts.warnings)
    assert told == bool(found.facts.interrupted)
    return told


def test_an_interrupt_ends_it_with_what_was_measured(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "run", first_then_hang(tmp_path))
    calls: list[str] = []

    def progress(doing: str, _: float | None) -> None:
        calls.append(doing)
        if len(calls) == 2:
            raise KeyboardInterrupt

    assert interrupted(run(reader, ["dram"], progress=progress))
    assert len(calls) == 2
    assert any("interrupted" in gap.detail for gap in reader.gaps)


def seconds_to_end(reader: Reader) -> float:
    """From a signal that comes while the second block is measured."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    calls: list[str] = []

    def progress(doing: str, _: float | None) -> None:
        calls.append(doing)
        if len(calls) == 2:
            threading.Timer(0.2, interrupt).start()

    found = run(reader, ["dram"], progress=progress)
    took = time.monotonic() - sent[0]
    assert interrupted(found)
    return took


def test_a_signal_while_a_child_measures_ends_it_at_once(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    took = []
    for attempt in range(3):  # the machine may be busy
        directory = tmp_path / str(attempt)
        directory.mkdir()
        monkeypatch.setattr(session, "run", first_then_hang(directory))
        took.append(seconds_to_end(reader))
    assert min(took) < 0.1


def test_an_interrupt_before_anything_was_measured(reader: Reader) -> None:
    def progress(*_: object) -> None:
        raise KeyboardInterrupt

    found = run(reader, ["dram"], progress=progress)
    assert found.measurements == ()
    assert (found.facts.skipped or "").startswith("interrupted after ")
