"""What weights on the CPU cost, from the best that was measured."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.dram.plan import WEIGHT_TYPES
from nodecheck.judge import node
from nodecheck.judge.rates import ceilings, weight_types
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.rates.cpu_rates import Cost, cost
from nodecheck.judge.rates.cpu_stage import CpuStage, cpu_stage, stage_of
from nodecheck.judge.rates.reads import Share
from nodecheck.judge.strategies import reference_workload
from nodecheck.model import Measurement
from nodecheck.policy import Policy
from nodecheck.serving import Serving
from tests.judge.models import qwen_30b_a3b, small_mix
from tests.nodes import AVX2, SSE2, dram, three_l40


def decode(
    gigabytes: float, *flags: str, name: str = "decode_q4_k", threads: int = 8
) -> Measurement:
    return replace(dram(gigabytes, threads, *flags), name=name, kernel="avx2")


def whole(gigabytes: float, *flags: str) -> Measurement:
    return decode(gigabytes, *flags, name="decode_dram_q4_k")


def stage(*measured: Measurement) -> CpuStage:
    seen = replace(three_l40(AVX2), measurements=measured)
    found = cpu_stage(seen, reference_workload(Policy()))
    assert isinstance(found, CpuStage)
    return found


def rates(found: CpuStage) -> tuple[float, float]:
    """GB of weights a second, slowest and fastest."""
    fast, slow = found.seconds_per_byte.low, found.seconds_per_byte.high
    assert fast is not None
    return 1e-9 / slow, 1e-9 / fast


def test_products_from_memory_hold_the_engines_that_were_measured() -> None:
    """Emerald Rapids, 1 thread: read 13, from memory 5.6, llama.cpp 5.3 to 5.7 GB/s."""
    low, high = rates(stage(dram(13.0, 1), decode(12.7), whole(5.6)))
    assert low < 5.3
    assert high > 5.7
    assert (low, high) == pytest.approx((5.6 * 0.45, 5.6 * 1.35))


@pytest.mark.parametrize(
    ("read", "products", "engine"),
    [
        (13.0, 12.7, 5.5),  # Emerald Rapids, AVX2: one after the other
        (31.0, 35.4, 27.7),  # Zen 4, AVX2, two threads: nearly at once
        (13.4, 0.75, 0.71),  # SSE2: memory is of no matter
        (31.0, 2.1, 1.88),
    ],
)
def test_products_in_caches_beside_reads_give_a_range_that_holds_them(
    read: float, products: float, engine: float
) -> None:
    found = stage(dram(read, 8), decode(products))
    low, high = rates(found)
    assert low < engine < high
    assert "measured" in found.basis
    assert not found.ceiling_only


def test_what_is_measured_comes_before_the_reference() -> None:
    assert "reference" in stage(dram(11.7, 8)).basis
    assert "reference" not in stage(dram(11.7, 8), decode(20.0)).basis
    assert "from memory" in stage(dram(11.7, 8), decode(20.0), whole(9.0)).basis


def test_the_most_threads_count() -> None:
    found = stage(dram(30.0, 8), decode(5.0, threads=1), decode(20.0))
    assert found.basis.startswith("20 GB/s used up from the caches on 8 threads")


def test_one_thread_does_not_stand_for_eight_that_were_disturbed() -> None:
    found = stage(dram(30.0, 8), decode(5.0, threads=1), decode(20.0, "contended"))
    assert "reference" in found.basis


@pytest.mark.parametrize(
    "disturbed",
    [
        (dram(11.7, 8), decode(2.0, "contended")),
        (dram(11.7, 8, "contended"), decode(20.0)),
        (dram(11.7, 8), whole(2.0, "contended")),
    ],
)
def test_what_was_disturbed_is_not_taken(disturbed: tuple[Measurement, ...]) -> None:
    assert "reference" in stage(*disturbed).basis


def test_another_type_of_weights_says_nothing() -> None:
    assert "reference" in stage(dram(11.7, 8), decode(20.0, name="decode_q8_0")).basis


@pytest.mark.parametrize(
    ("products", "limit"),
    [
        (5.0, "CPU cores, then DRAM"),
        (40.0, "DRAM, 13 GB/s"),
        (12.0, "CPU cores and DRAM, 13 GB/s"),
    ],
)
def test_the_limit_is_what_is_clearly_slower(products: float, limit: str) -> None:
    assert stage(dram(13.0, 8), decode(products)).limit == limit
    assert stage(dram(13.0, 8), decode(products), whole(4.0)).limit == limit


def test_without_reads_the_limit_is_not_told() -> None:
    assert stage(whole(4.0)).limit == "CPU cores or DRAM"


def test_the_instruction_set_is_named_where_it_is_narrow() -> None:
    narrow = replace(decode(1.0), kernel="sse2")
    assert stage(dram(13.0, 8), narrow).limit == "CPU instruction set (SSE2), then DRAM"


def test_the_range_from_caches_is_wider_than_from_memory() -> None:
    alone, whole_rate = ceilings.from_caches(13e9, 13e9), ceilings.from_memory(13e9)
    assert alone.high / alone.floor > whole_rate.high / whole_rate.floor


# --- types that have no figures of their own, and several types in one file ---


def cost_of(weight_type: str, *measured: Measurement) -> Cost | str:
    return cost(replace(three_l40(SSE2), measurements=measured), weight_type)


@pytest.mark.parametrize(
    ("weight_type", "like"),
    [("q5_k", "q4_k"), ("q3_k", "q4_k"), ("iq4_xs", "q4_0"), ("mxfp4", "q4_0"), ("f32", "f16")],
)
def test_a_type_without_a_kernel_is_taken_for_one_with_a_wider_range(
    weight_type: str, like: str
) -> None:
    products = decode(1.0, name=f"decode_{like}")
    own, assumed = (
        cost_of(like, dram(11.7, 8), products),
        cost_of(weight_type, dram(11.7, 8), products),
    )
    assert isinstance(own, Cost)
    assert isinstance(assumed, Cost)
    assert f"assumed from {like}" in assumed.basis
    width, assumed_width = (
        each.seconds_per_byte.high / each.seconds_per_byte.floor for each in (own, assumed)
    )
    assert assumed_width > width


def test_the_reference_is_assumed_from_too() -> None:
    found = cost_of("q5_k", dram(11.7, 8))
    assert isinstance(found, Cost)
    assert found.rate == "4-8 cores x 0.7-1.5 GB/s (reference, assumed from q4_k)"
    own = cost_of("q6_k", dram(11.7, 8))
    assert isinstance(own, Cost)
    assert own.rate == "4-8 cores x 0.9-1.4 GB/s (reference)"


@pytest.mark.parametrize("weight_type", ["bnb_fp4", "tq1_0", "unknown"])
def test_a_type_that_is_like_no_other_is_not_guessed(weight_type: str) -> None:
    assert cost_of(weight_type, dram(11.7, 8)) == f"no reference rate for {weight_type} weights"


def test_each_type_of_a_file_takes_its_own_time() -> None:
    measured = (
        dram(13.0, 8),
        decode(5.0, name="decode_dram_q4_k"),
        decode(10.0, name="decode_dram_q6_k"),
    )
    seen = replace(three_l40(AVX2), measurements=measured, serving=Serving(context_tokens=1))
    part = Share(0, {"q4_k": Range(3e9, 3e9), "q6_k": Range(1e9, 1e9)})
    found = stage_of(seen, part)
    assert isinstance(found, CpuStage)
    seconds = 3 / 5 + 1 / 10
    assert found.seconds(part).floor == pytest.approx(seconds / 1.35)
    assert found.seconds(part).high == pytest.approx(seconds / 0.45)
    assert found.basis == (
        "q4_k: 5 GB/s used up from memory on 8 threads (measured); "
        "q6_k: 10 GB/s used up from memory on 8 threads (measured)"
    )


def test_a_small_part_of_unknown_type_does_not_hide_the_rest() -> None:
    seen = replace(three_l40(AVX2), measurements=(dram(13.0, 8),))
    known = Range(1e9, 1e9)
    small = stage_of(seen, Share(0, {"q4_k": known, "tq1_0": Range(4e7, 4e7)}))
    assert isinstance(small, CpuStage)
    large = stage_of(seen, Share(0, {"q4_k": known, "tq1_0": known}))
    assert large == "no reference rate for tq1_0 weights, 50 % of what a token reads"


def test_a_cache_on_the_cpu_is_read_at_the_end_and_used_up_by_each_head() -> None:
    seen = replace(three_l40(AVX2), measurements=(dram(10.0, 8), decode(20.0, name="decode_f16")))
    weights = {"f16": Range(1e9, 1e9)}
    found = stage_of(seen, Share(0, weights))
    assert isinstance(found, CpuStage)
    empty, full = (
        found.seconds(Share(0, weights)),
        found.seconds(Share(0, weights, cache_bytes=1e9, attended_bytes=8e9)),
    )
    assert full.low == empty.low
    assert full.high - empty.high == pytest.approx(1 / (0.75 * 20 / 3) + 8 / 20)


# --- what to measure ---


def test_what_is_measured_has_a_kernel() -> None:
    assert weight_types.MEASURED_TYPES == WEIGHT_TYPES


@pytest.mark.parametrize(
    ("read", "measured"),
    [
        ({"q4_k": 84, "q6_k": 15, "f32": 1}, ("q4_k", "q6_k")),
        ({"q5_k": 60, "q6_k": 40}, ("q4_k", "q6_k")),
        ({"q4_k": 30, "q5_k": 30, "q6_k": 40}, ("q4_k", "q6_k")),
        ({"mxfp4": 50, "q8_0": 40, "f32": 10}, ("q4_0", "q8_0", "f16")),
        ({"q4_0": 25, "q4_k": 26, "q8_0": 24, "f16": 25}, ("q4_k", "q4_0", "f16")),
        ({"tq1_0": 100}, ()),
        ({}, ()),
    ],
)
def test_most_of_what_is_read_is_measured_most_first(
    read: dict[str, float], measured: tuple[str, ...]
) -> None:
    assert weight_types.measurable(read) == measured


def test_what_a_model_reads_counts_by_layer() -> None:
    assert node.measurable_types(small_mix()) == ("q4_k", "q6_k")
    assert node.measurable_types(reference_workload(Policy())) == ("q4_k",)
    assert node.measurable_types(qwen_30b_a3b("q5_k")) == ("q4_k", "q6_k", "f16")


def test_a_cpu_that_was_not_read_is_called_so() -> None:
    seen = three_l40()
    unread = replace(seen, facts=replace(seen.facts, cpu=CpuFacts()), measurements=())
    assert cost(unread, "q4_k") == "the CPU was not read"


def test_a_cpu_gains_little_or_nothing_from_several_requests_at_once() -> None:
    seen = three_l40(AVX2)
    work = reference_workload(seen.policy)
    times = []
    for requests in (1, 8):
        asked = replace(seen, serving=Serving(requests=requests))
        stage = cpu_stage(asked, work)
        assert isinstance(stage, CpuStage)
        times.append(stage.seconds(Share(weights={"q4_k": Range(1e9, 1e9)})))
    assert times[1].floor == pytest.approx(8 / 1.7 * times[0].floor)
    assert times[1].high == pytest.approx(8 * times[0].high)
