"""The stretches of one kernel on the same CPUs come to one figure, with the worst of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram.figures import CONVENTIONS, Result, latencies, measurements
from nodecheck.checks.dram.session import Chase, Series
from nodecheck.machine.kernels import Pass
from nodecheck.model import Load, Measurement
from nodecheck.units import GB, MIB
from tests.checks.dram.stretches import block, result, series

STEADY = [30.0] * 9


def only(*results: Result) -> Measurement:
    found = measurements(results)
    assert len(found) == 1
    return found[0]


def test_two_stretches_are_one_figure() -> None:
    found = only(result(series([30.0] * 5)), result(series([32.0] * 5)))
    assert found.median_bytes_per_second == pytest.approx(31 * GB)
    assert found.p10_bytes_per_second == pytest.approx(30 * GB)
    assert found.p90_bytes_per_second == pytest.approx(32 * GB)
    assert found.max_bytes_per_second == pytest.approx(32 * GB)
    assert (found.name, found.kernel, found.threads) == ("dram_read", "avx2", 2)
    assert (found.passes, found.flags) == (10, ())
    assert "counted once" in found.convention


def test_passes_of_different_lengths_count_by_their_own_bytes() -> None:
    short, long = Pass(0.001, 10 * MIB, 1.0), Pass(0.01, 100 * MIB, 1.0)
    found = only(result(Series("decode_q4_k", "avx2", (short,) * 5 + (long,) * 5)))
    assert found.p10_bytes_per_second == pytest.approx(10_000 * MIB)
    assert found.p90_bytes_per_second == pytest.approx(10_000 * MIB)


def test_kernels_and_cpus_and_nodes_are_kept_apart() -> None:
    found = measurements([
        result(series(STEADY), series(STEADY, name="dram_copy")),
        result(series(STEADY), of=block(1)),
        result(series(STEADY), of=block(cpu_node=0, memory_node=0)),
        result(series(STEADY), of=block(cpu_node=0, memory_node=1)),
        result(series(STEADY), of=block(decode=True, undersized=True)),  # the same CPUs: not apart
    ])  # fmt: skip
    told = [(each.name, each.threads, each.cpu_node, each.memory_node) for each in found]
    assert told == [
        ("dram_read", 2, None, None),
        ("dram_copy", 2, None, None),
        ("dram_read", 1, None, None),
        ("dram_read", 2, 0, 0),
        ("dram_read", 2, 0, 1),
    ]
    assert found[0].passes == 18


def test_of_two_kernels_that_won_a_race_the_one_that_won_more_is_told() -> None:
    found = only(
        result(series([20.0] * 9)),
        result(series([30.0] * 6, kernel="avx512 prefetch")),
        result(series([40.0] * 6, kernel="avx512 prefetch")),
    )
    assert (found.kernel, found.passes) == ("avx512 prefetch", 12)
    assert found.median_bytes_per_second == pytest.approx(35 * GB)


def test_a_disturbed_pass_does_not_count() -> None:
    found = only(result(series([30.0] * 6)), result(series([14.0] * 9, cpu_share=0.5)))
    assert found.median_bytes_per_second == pytest.approx(30 * GB)
    assert (found.passes, found.flags) == (6, ())
    assert found.load is not None
    assert found.load.thread_cpu_share_min == 0.5


def test_too_few_clean_passes_are_contention() -> None:
    found = only(result(series([30.0] * 4)), result(series([14.0] * 9, cpu_share=0.5)))
    assert found.median_bytes_per_second == pytest.approx(14 * GB)
    assert "contended" in found.flags


@pytest.mark.parametrize("passes", [(), (Pass(0.0, 5, 1.0),), (Pass(-1.0, 5, 1.0),)])
def test_no_usable_pass_is_no_figure(passes: tuple[Pass, ...]) -> None:
    assert measurements([result(Series("dram_read", "avx2", passes))]) == ()


@pytest.mark.parametrize(
    "disturbed",
    [
        result(series(STEADY), load=Load(other_cpus_busy_share=0.5)),
        result(series(STEADY), load=Load(steal_share=0.03)),
        result(series(STEADY), load=Load(pressure_share=0.2)),
        result(series(STEADY), throttled=True),
        # 9 passes of 2.2 ms on two threads
        result(series(STEADY, run_delay_seconds=0.1 * 9 * 2 * 64 * MIB / (30 * GB))),
    ],
)
def test_one_disturbed_stretch_disturbs_the_figure(disturbed: Result) -> None:
    calm = result(series(STEADY))
    assert only(calm).flags == ()
    assert only(calm, disturbed).flags == ("contended",)
    assert only(disturbed, calm).flags == ("contended",)


def test_a_load_holds_the_worst_of_each() -> None:
    one = Load(other_cpus_busy_share=0.1, steal_share=None, pressure_share=0.01)
    other = Load(other_cpus_busy_share=0.05, steal_share=0.01, pressure_share=None)
    wall = 9 * 2 * 64 * MIB / (30 * GB)
    found = only(
        result(series(STEADY, cpu_share=0.99, run_delay_seconds=0.01 * wall), load=one),
        result(series(STEADY, run_delay_seconds=0.03 * wall), load=other),
    )
    assert found.load is not None
    assert found.load.run_delay_share == pytest.approx(0.03)
    assert (found.load.other_cpus_busy_share, found.load.steal_share) == (0.1, 0.01)
    assert (found.load.pressure_share, found.load.thread_cpu_share_min) == (0.01, 0.99)


def test_a_delay_that_the_kernel_does_not_tell_is_not_known() -> None:
    found = only(result(series(STEADY, run_delay_seconds=None)))
    assert found.load is not None
    assert found.load.run_delay_share is None


# --- placement ---


@pytest.mark.parametrize(
    ("trips", "told", "moved"),
    [
        ([((), ())], None, False),
        ([((55.0,), (58.0,))], (55, 58), False),
        ([((55.0, 60.0), (58.0, 50.0))], (60, 58), False),  # the slowest pair
        ([((55.0,), (350.0,))], (55, 350), True),
        ([((55.0,), (56.0,)), ((57.0,), (58.0,))], (55, 58), False),
        ([((55.0,), (350.0,)), ((350.0,), (56.0,))], (55, 350), True),  # and back again
    ],
)
def test_how_far_apart_the_cpus_lay(
    trips: list[tuple[tuple[float, ...], tuple[float, ...]]],
    told: tuple[float, float] | None,
    moved: bool,
) -> None:
    found = only(*(result(series(STEADY), before=b, after=a) for b, a in trips))
    if told is None:
        assert found.round_trip_seconds is None
    else:
        assert found.round_trip_seconds == pytest.approx([each * 1e-9 for each in told])
    assert ("bimodal" in found.flags) is moved


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("dram_read", True),
        ("decode_dram_q4_k", True),
        ("decode_q4_k", False),
        ("decode_f16", False),
        ("decode_int4_g128", False),
    ],
)
def test_where_weights_stay_in_a_cores_caches_neither_place_nor_memory_matters(
    name: str, matters: bool
) -> None:
    found = only(
        result(series(STEADY, name=name), before=[55], after=[350], of=block(undersized=True))
    )
    assert found.flags == (("bimodal", "undersized") if matters else ())


# --- size ---


@pytest.mark.parametrize(
    ("source", "undersized"), [(256 * MIB, False), (128 * MIB, False), (126 * MIB, True)]
)
def test_a_source_that_was_cut_short_is_undersized(source: int, undersized: bool) -> None:
    """Caches of 32 MiB: twice is the least, four times is enough."""
    found = only(result(series(STEADY), source_bytes=source))
    assert ("undersized" in found.flags) is undersized


# --- what is counted ---


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dram_write", "none of them zero"),
        ("dram_copy", "bytes read + bytes written"),
        ("dram_triad", "a = b + c / 2"),
        ("decode_dram_f16", "weights from memory"),
        ("decode_f16", "own caches"),
    ],
)
def test_what_is_counted_is_said(name: str, told: str) -> None:
    assert told in only(result(series(STEADY, name=name))).convention


def test_no_convention_hides_another() -> None:
    starts = list(CONVENTIONS)
    for place, start in enumerate(starts):
        assert not any(start.startswith(earlier) for earlier in starts[:place])


# --- latency ---


def chase(seconds: list[float], cpu_share: float = 1.0) -> Chase:
    return Chase("dram_latency_loaded", tuple(seconds), cpu_share, 128 * MIB, 20.0 * GB)


def test_a_latency() -> None:
    [found] = latencies([result(chase=chase([90e-9, 100e-9, 95e-9])), result(series(STEADY))])
    assert found.name == "dram_latency_loaded"
    assert found.median_seconds == pytest.approx(95e-9)
    assert found.p10_seconds == pytest.approx(91e-9)
    assert found.p90_seconds == pytest.approx(99e-9)
    assert (found.other_threads, found.passes, found.spread_bytes) == (1, 3, 128 * MIB)
    assert found.read_bytes_per_second == 20 * GB
    assert "waits" in found.convention
    assert found.flags == ()


@pytest.mark.parametrize(
    ("made", "flags"),
    [
        (result(chase=chase([9e-8] * 9), throttled=True), ("contended",)),
        (result(chase=chase([9e-8] * 9), load=Load(steal_share=0.5)), ("contended",)),
        (result(chase=chase([9e-8] * 9), of=block(undersized=True)), ("undersized",)),
        (result(chase=chase([9e-8] * 9, cpu_share=0.5)), ()),  # a median of many
    ],
)
def test_a_latency_says_how_far_it_can_be_trusted(made: Result, flags: tuple[str, ...]) -> None:
    [found] = latencies([made])
    assert found.flags == flags


# --- whatever was measured ---

PASSES = st.lists(
    st.builds(
        Pass,
        st.floats(1e-9, 10) | st.sampled_from([0.0, -1.0]),
        st.integers(0, 1 << 40),
        st.floats(0, 1),
    ),
    max_size=12,
)
SHARES = st.none() | st.floats(0, 1)
RESULTS = st.builds(
    lambda passes, name, kernel, delay, trips, shares: result(
        Series(name, kernel, tuple(passes), delay),
        load=Load(other_cpus_busy_share=shares[0], steal_share=shares[1], pressure_share=shares[2]),
        before=trips[0],
        after=trips[1],
    ),
    PASSES,
    st.sampled_from(["dram_read", "dram_copy", "decode_q4_k"]),
    st.sampled_from(["sse2", "avx2"]),
    st.none() | st.floats(0, 1),
    st.tuples(*[st.lists(st.floats(0, 1000), max_size=3)] * 2),
    st.tuples(SHARES, SHARES, SHARES),
)


@given(st.lists(RESULTS, max_size=5))
def test_whatever_was_measured_gives_figures_in_order(results: list[Result]) -> None:
    for found in measurements(results):
        low, high = found.p10_bytes_per_second, found.p90_bytes_per_second
        assert low is not None
        assert high is not None
        assert low <= found.median_bytes_per_second * (1 + 1e-9)
        assert found.median_bytes_per_second <= high * (1 + 1e-9)
        assert high <= (found.max_bytes_per_second or 0) * (1 + 1e-9)
        assert found.passes >= 1
        assert found.convention
