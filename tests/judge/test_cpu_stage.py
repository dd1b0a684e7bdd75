"""What weights on the CPU cost, from the best that was measured."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.judge import ceilings
from nodecheck.judge.cpu_stage import CpuStage, cpu_stage
from nodecheck.judge.strategies import reference_workload
from nodecheck.model import Measurement
from nodecheck.policy import Policy
from tests.nodes import AVX2, dram, three_l40


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
    assert (low, high) == pytest.approx((5.6 * 0.80, 5.6 * 1.35))


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
    alone = ceilings.from_caches(13e9, 13e9)
    assert alone.high / alone.floor > 2 * 1.35 / 0.80 / 1.2
