"""One stretch: each kernel's passes lie all over it, each has its share of the time."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

pytest.importorskip("nodecheck._native")

from msgspec.structs import replace

from nodecheck.checks.dram import session
from nodecheck.checks.dram.plan import STREAMS, WEIGHT_TYPES, Block
from nodecheck.checks.dram.session import Stretch
from nodecheck.machine import child, kernels, memory_limit, native
from nodecheck.machine.host import LiveHost
from nodecheck.machine.kernels import Group, Kernel, Pass
from nodecheck.machine.reader import Reader
from tests.checks.dram.stretches import each_once
from tests.checks.live_tree import live_tree
from tests.trees import Tree

MIB = 1 << 20
CPUS = tuple(sorted(os.sched_getaffinity(0)))
TWO = CPUS[:2]
SMALL = Block(
    cpus=CPUS[:1],
    seconds=0.05,
    source_bytes=8 * MIB,
    destination_bytes=8 * MIB,
    least_bytes=4 * MIB,
    touch_seconds=60.0,
    grace_seconds=60.0,
)


@pytest.fixture(autouse=True)
def the_child_alone_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is to live on, and to be no better a victim than others."""
    monkeypatch.setattr(native, "die_with_parent", lambda: None)
    monkeypatch.setattr(child, "be_first_to_die", lambda: None)


def run(block: Block) -> Stretch:
    return session.run(Reader(LiveHost(), "dram"), block)


def names(stretch: Stretch) -> list[str]:
    return [series.name for series in stretch.series]


# --- what a stretch holds ---


def test_every_operation_on_memory_with_the_kernel_that_won(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_spend", each_once)
    found = run(replace(SMALL, streams=STREAMS))
    assert names(found) == ["dram_read", "dram_write", "dram_copy", "dram_triad"]
    usable = {(f"dram_{k.operation}", k.name) for k in kernels.stream_kernels() if k.usable}
    for series in found.series:
        assert (series.name, series.kernel) in usable
        assert len(series.passes) == session.GROUP_PASSES
        assert all(each.seconds > 0 and each.bytes >= 4 * MIB for each in series.passes)
        assert series.run_delay_seconds is None or series.run_delay_seconds >= 0
    assert found.source_bytes == 8 * MIB
    assert found.touch_bytes_per_second > 0
    assert found.huge_page_share is None or 0 <= found.huge_page_share <= 1
    assert found.chase is None


@pytest.mark.parametrize(
    ("decode", "decode_dram"),
    [(True, ()), (False, ("q4_k",)), (False, WEIGHT_TYPES), (True, WEIGHT_TYPES)],
)
def test_each_weight_type_from_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, decode: bool, decode_dram: tuple[str, ...]
) -> None:
    monkeypatch.setattr(session, "_spend", each_once)
    found = run(replace(SMALL, decode=decode, decode_dram=decode_dram))
    expected = {f"decode_{w}" for w in WEIGHT_TYPES if decode}
    expected |= {f"decode_dram_{w}" for w in decode_dram}
    assert set(names(found)) == expected
    chosen = {k.operation: k.isa for k in session.engine_kernels()}
    for series in found.series:
        assert series.kernel == chosen[series.name.removeprefix("decode_").removeprefix("dram_")]
        assert all(each.bytes > 0 for each in series.passes)


def test_engines_take_their_first_choice_of_what_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        Kernel(0, "q4_0", "avx512", "q8_0", usable=False),
        Kernel(1, "q4_0", "avx2", "q8_0", usable=True),
        Kernel(2, "q4_0", "sse2", "q8_0", usable=True),
        Kernel(3, "f16", "sse2", "f16", usable=True),
    )
    monkeypatch.setattr(kernels, "decode_kernels", lambda: listed)
    assert session.engine_kernels() == (listed[1], listed[3])


def test_latency_alone() -> None:
    found = run(replace(SMALL, latency=True, seconds=0.1))
    assert found.series == ()
    chase = found.chase
    assert chase is not None
    assert (chase.name, chase.spread_bytes) == ("dram_latency", 8 * MIB)
    assert chase.read_bytes_per_second is None
    assert session.GROUP_PASSES <= len(chase.seconds) <= 100
    assert all(1e-9 < seconds < 1e-3 for seconds in chase.seconds)
    assert 0 < chase.cpu_share <= 1


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_latency_while_others_read() -> None:
    chase = run(replace(SMALL, cpus=TWO, latency=True)).chase
    assert chase is not None
    assert chase.name == "dram_latency_loaded"
    assert 1e6 < (chase.read_bytes_per_second or 0) < 1e13


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_round_trips_before_and_after() -> None:
    before, after = run(replace(SMALL, cpus=TWO, streams=("read",))).round_trips
    assert [trip.cpus for trip in before] == [trip.cpus for trip in after] == [TWO]
    assert before[0].seconds != after[0].seconds


def test_one_cpu_has_no_round_trip() -> None:
    assert run(replace(SMALL, streams=("read",))).round_trips == ((), ())


def test_what_is_read_is_read_before_weights_take_its_place() -> None:
    block = replace(SMALL, streams=("read",), decode=True, decode_dram=("q4_k",), seconds=0.3)
    found = run(block)
    assert {"dram_read", "decode_dram_q4_k"} <= set(names(found))


# --- how the time is spent ---


class Clock:
    """Time that passes only when something is done."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("nodecheck.checks.dram.session.time.monotonic", made.monotonic)
    return made


def task(clock: Clock, name: str, seconds: float, firsts: list[int]) -> session._Task:
    def group(first: int) -> Group:
        clock.now += seconds
        firsts.append(first)
        return Group((Pass(seconds / 4, 1, 1.0),) * 4, 0.001 * seconds, 0)

    return session._Task(name, "sse2", group)


def test_each_kernel_has_as_much_of_the_time(clock: Clock) -> None:
    tasks = [task(clock, "slow", 0.3, []), task(clock, "fast", 0.01, [])]
    session._spend(tasks, clock.now + 20)
    assert tasks[0].spent == pytest.approx(10, abs=0.5)
    assert tasks[1].spent == pytest.approx(10, abs=0.5)


def test_passes_lie_all_over_the_stretch_and_go_on_where_the_last_ones_ended(clock: Clock) -> None:
    order: list[str] = []
    firsts: list[int] = []
    tasks = [task(clock, name, 0.1, firsts) for name in "ab"]
    for each in tasks:
        run_it = each.run

        def noted(first: int, name: str = each.name, run_it: object = run_it) -> Group:
            order.append(name)
            return run_it(first)  # type: ignore[operator, no-any-return]

        each.run = noted
    session._spend(tasks, clock.now + 0.95)
    assert "".join(order) == "ababababab"
    assert firsts == [0, 0, 4, 4, 8, 8, 12, 12, 16, 16]
    series = tasks[0].series()
    assert len(series.passes) == 20
    assert series.run_delay_seconds == pytest.approx(5 * 0.001 * 0.1)


def test_a_delay_that_one_group_does_not_tell_is_not_known(clock: Clock) -> None:
    delays = iter([0.1, None])
    unknown = session._Task("a", "sse2", lambda _: Group((), next(delays), 0))
    unknown.make_group()
    unknown.make_group()
    assert unknown.series().run_delay_seconds is None
    assert clock.now == 1000.0


def test_without_time_one_group_is_made(clock: Clock) -> None:
    tasks = [task(clock, name, 0.1, []) for name in "ab"]
    session._spend(tasks, clock.now - 5)
    assert [len(each.groups) for each in tasks] == [1, 0]


def test_types_in_turn_share_the_time_and_late_ones_go_without(clock: Clock) -> None:
    tasks = [task(clock, name, 0.1, []) for name in "abc"]
    session._spend_in_turn(tasks, clock.now + 3)
    assert [len(each.groups) for each in tasks] == [10, 10, 10]
    slow = [task(clock, name, 1.0, []) for name in "abc"]
    session._spend_in_turn(slow, clock.now + 3)
    assert [len(each.groups) for each in slow] == [session.LEAST_GROUPS] * 2 + [0]


def test_weights_that_stay_alone_are_filled_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    class Filled:
        def run(self, passes: int, *, first_window: int = 0) -> Group:
            return Group((Pass(1e-3, first_window, 1.0),) * passes, 0.0, 0)

    def decode(*_: object, window_bytes: int | None = None, **__: object) -> Filled:
        asked.append(window_bytes)
        return Filled()

    monkeypatch.setattr(kernels.Arena, "decode", decode)
    arena = kernels.Arena(CPUS[:1], 2 * MIB, 4 * MIB)
    kernel = session.engine_kernels()[0]
    alone = session.product(arena, kernel, resident=False, window_bytes=16 * MIB, alone=True)
    assert [alone(first).passes[0].bytes for first in (0, 4)] == [0, 4]
    assert asked == [16 * MIB]
    beside = session.product(arena, kernel, resident=False)
    assert [beside(first).passes[0].bytes for first in (0, 4)] == [0, 4]
    assert asked == [16 * MIB, None, None]


def test_nothing_to_run_ends_at_once() -> None:
    session._spend([], time.monotonic() + 60)


def test_the_fastest_variant_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = kernels.Arena(CPUS[:1], 2 * MIB, 2 * MIB)
    listed = (
        Kernel(0, "copy", "avx2", "plain", usable=True),
        Kernel(1, "read", "avx2", "plain", usable=True),
        Kernel(2, "copy", "avx2", "non-temporal", usable=True),
        Kernel(3, "copy", "avx2", "non-temporal prefetch", usable=True),
        Kernel(4, "copy", "avx512", "plain", usable=False),
    )
    seconds = {0: [3.0, 1.5], 2: [9.0, 1.0], 3: [1.2, 1.2]}

    def stream(_arena: object, kernel: Kernel, _passes: int, **_: object) -> Group:
        return Group(tuple(Pass(s, 1, 1.0) for s in seconds[kernel.index]), None, 0)

    monkeypatch.setattr(kernels, "stream_kernels", lambda: listed)
    monkeypatch.setattr(kernels.Arena, "stream", stream)
    assert session._fastest(arena, "copy") == listed[2]


def test_resident_weights_are_repeated_until_a_pass_is_long_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    class Filled:
        def run(self, passes: int, *, repeats: int = 1) -> Group:
            asked.append(repeats)
            return Group((Pass(40e-6 * repeats, 100 * repeats, 1.0),) * passes, 0.0, 0)

    monkeypatch.setattr(kernels.Arena, "decode", lambda *_, **__: Filled())
    arena = kernels.Arena(CPUS[:1], 2 * MIB, 4 * MIB)
    group = session.product(arena, session.engine_kernels()[0], resident=True)(0)
    assert asked == [1, 50]
    passes = session.RESIDENT_PASSES
    assert [each.seconds for each in group.passes] == pytest.approx([2e-3] * passes)


# --- memory ---


def room(directory: Path, kib: int, block: Block) -> Stretch:
    tree: Tree = {"proc/meminfo": f"MemAvailable: {kib} kB\n"}
    return session.run(Reader(live_tree(tree, directory), "dram"), block)


def test_memory_that_others_took_meanwhile_is_left_to_them(tmp_path: Path) -> None:
    """16 MiB are to be taken: as much again is to be left."""
    block = replace(SMALL, streams=("read",))
    with pytest.raises(kernels.NoRoom):
        room(tmp_path / "short", 32 * 1024 - 1, block)
    assert room(tmp_path / "enough", 32 * 1024, block).series


def test_room_is_looked_at_again_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([1 << 40, 1 << 40, 0])
    monkeypatch.setattr(memory_limit, "available_bytes", lambda _: next(left))
    with pytest.raises(kernels.NoRoom):
        run(replace(SMALL, source_bytes=256 * MIB, streams=("read",)))
    assert next(left, None) is None


def test_memory_that_is_backed_slowly_is_made_do_with(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = itertools.count(1 << 41, -1)

    def available(_: Reader) -> int:
        time.sleep(0.05)
        return next(slow)

    monkeypatch.setattr(memory_limit, "available_bytes", available)
    block = replace(
        SMALL, source_bytes=1024 * MIB, least_bytes=64 * MIB, streams=("read",), touch_seconds=0.1
    )
    found = run(block)
    assert 64 * MIB <= found.source_bytes < 1024 * MIB
    assert found.series[0].passes
    with pytest.raises(kernels.TooSlow):
        run(replace(block, least_bytes=1024 * MIB, grace_seconds=0.0))


# --- what else ran ---

STAT = "cpu0 {0} 0 0 {1} 0 0 0 {2}\ncpu1 {3} 0 0 {4} 0 0 0 0\n"


def test_other_work_is_seen_while_kernels_run_and_not_while_memory_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "node"
    tree: Tree = {
        "proc/meminfo": "MemAvailable: 99999999 kB\n",
        "proc/stat": STAT.format(0, 100, 0, 0, 100),
        "proc/pressure/cpu": "some avg10=0 total=0\n",
    }
    reader = Reader(live_tree(tree, node), "dram")

    def touch(*_: object) -> float:
        (node / "proc/stat").write_text(STAT.format(0, 100, 5000, 0, 100))  # the host's own work
        return 1e9

    def spend(*_: object) -> None:
        (node / "proc/stat").write_text(STAT.format(90, 100, 5010, 25, 175))
        (node / "proc/pressure/cpu").write_text("some avg10=0 total=1000000000\n")

    monkeypatch.setattr(session, "_touch", touch)
    monkeypatch.setattr(session, "_spend", spend)
    monkeypatch.setattr(session, "_streams", lambda *_: [])
    load = session.run(reader, replace(SMALL, cpus=(0,))).load
    assert load.other_cpus_busy_share == pytest.approx(0.25)  # not its own CPU 0
    assert load.steal_share == pytest.approx(10 / 200)
    assert load.pressure_share == 1.0


# --- the child ---


def test_the_child_is_the_oom_killers_first_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    def work() -> tuple[str, bool]:
        armed: list[bool] = []
        monkeypatch.setattr(native, "die_with_parent", lambda: armed.append(True))
        session.run(Reader(LiveHost(), "dram"), replace(SMALL, streams=("read",)))
        return Path("/proc/self/oom_score_adj").read_text().strip(), armed == [True]

    assert child.call(work, tuple[str, bool], 60).value == ("1000", True)
