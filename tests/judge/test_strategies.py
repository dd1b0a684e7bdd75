"""Attribution: what holds each way to serve, and what has nothing to do with it."""

from __future__ import annotations

import msgspec
import pytest

from nodecheck.judge.rates.ceilings import engine_level
from nodecheck.judge.strategies import strategies
from nodecheck.model import Strategy, Viability
from nodecheck.units import GIB
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, qwen_30b_a3b
from tests.nodes import AVX2, SSE2, dram, three_l40


def by_name(seen: object) -> dict[str, Strategy]:
    return {s.strategy: s for s in strategies(seen)}  # type: ignore[arg-type]


def test_gpu_decode_is_held_by_vram_and_its_range_holds_the_measured_rate() -> None:
    alone = by_name(three_l40())["gpu-resident"]
    assert alone.limit.startswith("VRAM bandwidth")
    assert alone.low is not None
    assert alone.high is not None
    assert alone.low < 38.0 < alone.high
    assert alone.viability is Viability.VIABLE


def test_the_instruction_set_does_not_move_gpu_decode() -> None:
    assert by_name(three_l40(SSE2))["gpu-resident"] == by_name(three_l40(AVX2))["gpu-resident"]


def test_masked_cpu_decode_is_held_by_instructions_more_than_by_memory() -> None:
    masked = by_name(three_l40(SSE2))["cpu-only"]
    assert masked.limit.startswith("CPU instruction set (SSE2)")
    assert masked.viability is Viability.NOT_VIABLE
    from_memory_alone = 11.7e9 / (16.3 * GIB)
    assert masked.high is not None
    assert masked.high < from_memory_alone
    unmasked = by_name(three_l40(AVX2))["cpu-only"]
    assert unmasked.limit.startswith("DRAM")


def test_the_host_kv_pool_needs_no_simd() -> None:
    masked, unmasked = (by_name(three_l40(flags))["host-kv-pool"] for flags in (SSE2, AVX2))
    assert masked == unmasked
    assert masked.viability is Viability.VIABLE
    assert masked.low == pytest.approx(10_000 * 65_536 / 11.7e9)


def test_tensor_parallel_is_only_a_ceiling_while_the_link_is_not_measured() -> None:
    together = by_name(three_l40())["tensor-parallel"]
    assert together.low is None
    assert together.viability is Viability.UNKNOWN
    assert "not measured" in together.limit


def test_offload_counts_the_output_layer_as_llama_cpp_does() -> None:
    curve = by_name(three_l40())["partial-offload"].points
    assert [p.setting for p in curve] == ["ngl 64", "ngl 50"]
    assert all(p.low is not None for p in curve)
    assert curve[0].high > curve[1].high


def test_without_a_measurement_memory_bounds_nothing() -> None:
    ways = by_name(three_l40(AVX2, read=None))
    assert ways["cpu-only"].low is None
    assert ways["cpu-only"].viability is Viability.UNKNOWN
    assert "not measured" in ways["cpu-only"].limit
    hopeless = by_name(three_l40(SSE2, read=None))["cpu-only"]
    assert hopeless.viability is Viability.NOT_VIABLE


def test_q8_beats_q4_where_ssse3_is_missing() -> None:
    def speed(kind: str, size_gib: float) -> float:
        work = from_numbers(kind, int(size_gib * GIB), layers=64, weight_type=kind)
        high = by_name(msgspec.structs.replace(three_l40(SSE2, read=100.0), workload=work))[
            "cpu-only"
        ].high
        assert high is not None
        return high

    assert speed("q8_0", 16.3 * 1.8) > 2 * speed("q4_0", 16.3)


def test_a_model_that_fits_no_card_is_split_or_refused() -> None:
    def resident(size_gib: float) -> Strategy:
        work = from_numbers("m", int(size_gib * GIB), layers=80, weight_type="q4_k")
        return by_name(msgspec.structs.replace(three_l40(), workload=work))["gpu-resident"]

    assert "split over 3 cards" in resident(100).basis
    assert resident(200).viability is Viability.NOT_VIABLE
    assert resident(200).limit == "VRAM size"


def test_cpu_only_needs_the_ram() -> None:
    work = from_numbers("m", 200 * GIB, layers=80, weight_type="q4_k")
    alone = by_name(msgspec.structs.replace(three_l40(AVX2), workload=work))["cpu-only"]
    assert alone.viability is Viability.NOT_VIABLE
    assert alone.limit.startswith("RAM")


def test_a_contended_figure_is_not_the_best_one() -> None:
    seen = msgspec.structs.replace(
        three_l40(AVX2), measurements=(dram(40.0, 8, "contended"), dram(12.0, 1))
    )
    assert "12 GB/s" in by_name(seen)["cpu-only"].basis


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        (SSE2, "SSE2"),
        ((*SSE2, "ssse3"), "SSSE3/SSE4"),
        ((*SSE2, "ssse3", "avx"), "AVX"),
        ((*SSE2, "ssse3", "avx", "avx2"), "AVX"),
        (AVX2, "AVX2"),
        ((), None),
    ],
)
def test_engine_levels(flags: tuple[str, ...], level: str | None) -> None:
    assert engine_level(flags) == level


def test_a_disturbed_figure_is_a_lower_bound_and_no_upper_one() -> None:
    seen = msgspec.structs.replace(three_l40(AVX2), measurements=(dram(3.0, 8, "contended"),))
    alone = by_name(seen)["cpu-only"]
    unmeasured = by_name(three_l40(AVX2, read=None))["cpu-only"]
    assert alone.low is not None
    assert 0.7 * 3.0e9 < alone.low * 16.3 * GIB < 3.0e9
    assert alone.high == unmeasured.high
    assert "disturbed by other work" in alone.basis


def test_a_card_that_mig_cuts_up_has_no_rate_of_its_own() -> None:
    seen = three_l40()
    cut = tuple(msgspec.structs.replace(gpu, mig=True) for gpu in seen.facts.gpus)
    seen = msgspec.structs.replace(seen, facts=msgspec.structs.replace(seen.facts, gpus=cut))
    resident = by_name(seen)["gpu-resident"]
    assert resident.viability is Viability.UNKNOWN
    assert "MIG" in resident.basis


def test_a_model_fits_whole_times_on_a_disk() -> None:
    assert "fits 3 times on /" in by_name(three_l40())["model-load"].basis  # 57 / 16.3 = 3.5


def test_attribution_on_the_node_with_three_l40_strategy_by_strategy() -> None:
    """The 27B by its layers: each way is held by its own resource, none by the CPU type alone."""
    ways = by_name(msgspec.structs.replace(three_l40(), workload=qwen_27b()))
    alone, host_pool = ways["gpu-resident"], ways["host-kv-pool"]
    assert alone.limit == "VRAM bandwidth, 864 GB/s"
    assert alone.low is not None
    assert alone.high is not None
    assert alone.low < 38.0 < alone.high
    for on_cpu in ("partial-offload", "cpu-only"):
        assert ways[on_cpu].limit == "CPU instruction set (SSE2), then DRAM"
        assert ways[on_cpu].viability is Viability.NOT_VIABLE
    assert host_pool.viability is Viability.VIABLE
    assert "no SIMD needed" in host_pool.basis
    assert ways["tensor-parallel"].viability is Viability.UNKNOWN
    assert ways["tensor-parallel"].limit == "link between the cards, not measured"


def test_a_mixture_of_experts_can_leave_them_on_the_cpu() -> None:
    seen = msgspec.structs.replace(three_l40(), workload=qwen_30b_a3b())
    order = [s.strategy for s in strategies(seen)]
    assert order[:5] == [
        "gpu-resident",
        "tensor-parallel",
        "partial-offload",
        "expert-offload",
        "cpu-only",
    ]
    assert "expert-offload" not in by_name(three_l40())


def test_without_a_gpu_only_the_cpu_is_left() -> None:
    seen = three_l40()
    bare = msgspec.structs.replace(seen, facts=msgspec.structs.replace(seen.facts, gpus=()))
    assert set(by_name(bare)) == {"cpu-only", "model-load"}


def test_no_more_context_than_the_models_own() -> None:
    """The policy's 8,192 tokens, where nobody asked for more, are too many for some."""
    work = msgspec.structs.replace(qwen_27b(), context_length=4096)
    seen = msgspec.structs.replace(three_l40(), workload=work)
    found = {each.strategy: each for each in strategies(seen)}
    assert "context 0-4,096" in found["gpu-resident"].basis
    assert "at 4,096 tokens of context" in found["kv-on-host"].basis


@pytest.mark.parametrize(
    ("change", "why"),
    [({"lost": True}, "has lost the GPU"), ({"memory_bytes": None}, "did not tell"),
     ({"granted": False}, "not granted")],
)  # fmt: skip
def test_a_gpu_that_does_not_answer_is_not_called_absent(
    change: dict[str, object], why: str
) -> None:
    seen = three_l40()
    gpus = tuple(msgspec.structs.replace(gpu, **change) for gpu in seen.facts.gpus)
    found = by_name(
        msgspec.structs.replace(seen, facts=msgspec.structs.replace(seen.facts, gpus=gpus))
    )
    assert found["gpu-resident"].viability is Viability.UNKNOWN
    assert why in found["gpu-resident"].basis
    assert "host-kv-pool" not in found


def test_a_card_that_shares_the_systems_memory_is_judged_by_no_link_and_no_size() -> None:
    seen = three_l40()
    shared = msgspec.structs.replace(
        seen.facts.gpus[0],
        memory_bytes=None,
        unified_memory=True,
        chip_to_chip=True,
        link_generation=1,
        link_generation_max=1,
        link_width=1,
    )
    facts = msgspec.structs.replace(seen.facts, gpus=(shared,))
    found = {each.strategy: each for each in strategies(msgspec.structs.replace(seen, facts=facts))}
    for name in ("gpu-resident", "partial-offload"):
        assert found[name].viability is Viability.UNKNOWN
        assert "shares the system's memory" in found[name].basis
    assert "PCIe" not in found["host-kv-pool"].limit
