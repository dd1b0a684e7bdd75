"""Room for weights, caches, states and pools: what fits, what is short, what would make it fit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.fits import host_room, room
from nodecheck.judge.fits.fit import fits, largest_context, largest_ngl, largest_requests
from nodecheck.judge.fits.room import LLAMA_CPP, SGLANG, VLLM
from nodecheck.judge.rates.reads import reads
from nodecheck.judge.ways.offload import ngl_cuts
from nodecheck.serving import Fit, Kind, LayerCache, Serving, Workload
from nodecheck.units import GB, GIB, MIB
from nodecheck.workload.assemble import PlacedWeights, assemble
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, qwen_30b_a3b, small_mix, weights
from tests.nodes import AVX2, SSE2, three_l40

STATE = 153_944_064
L40_BYTES = 46_068 * MIB


def node_of(
    *cards: int, serving: Serving | None = None, flags: tuple[str, ...] = AVX2, used: int = 0
) -> Seen:
    """The L40 node with cards of these sizes, on each of which others use some."""
    seen = three_l40(flags)
    gpus: tuple[Gpu, ...] = tuple(
        replace(seen.facts.gpus[0], index=n, memory_bytes=size, memory_used_bytes=used)
        for n, size in enumerate(cards)
    )
    return replace(seen, facts=replace(seen.facts, gpus=gpus), serving=serving or Serving())


def checkpoint(weight_bytes: int, *, mtp: bool = False) -> Workload:
    return replace(qwen_27b(weight_bytes, mtp=mtp), format="safetensors", context_length=262_144)


def named(seen: Seen, work: Workload) -> dict[tuple[str, str | None, str], Fit]:
    return {(f.strategy, f.engine, f.room): f for f in fits(seen, work)}


def needs(fit: Fit) -> dict[str, int]:
    return {need.what: need.bytes for need in fit.needs}


def test_a_hybrid_that_lacked_two_gigabytes() -> None:
    """8 requests and MTP on an L40: 24 slots take 3.4 GiB, 36 states to roll back to 5.2.

    The weights, the cache and what SGLang leaves free would have fitted without them.
    """
    serving = Serving(requests=8, draft_tokens=3)
    work = checkpoint(26_600 * MIB, mtp=True)
    fit = named(node_of(L40_BYTES, serving=serving), work)[
        "speculative", SGLANG, "VRAM of one card"
    ]
    assert fit.fits is False
    states = needs(fit)["61 recurrent states"]
    assert states == (24 + 36 + 1) * STATE
    assert states / GIB == pytest.approx(3.4 + 5.2 + 0.14, abs=0.1)
    short = fit.needed_bytes - (fit.available_bytes or 0)
    assert short / GB == pytest.approx(2, abs=0.5)
    assert fit.needed_bytes - states < (fit.available_bytes or 0)
    assert fit.advice is not None
    assert "requests at once instead of 8" in fit.advice
    assert "no guessing ahead" in fit.advice


def test_the_advice_holds() -> None:
    """As many requests as it names fit, and one more does not."""
    serving = Serving(requests=8, draft_tokens=3)
    work, seen = checkpoint(26_600 * MIB, mtp=True), node_of(L40_BYTES, serving=serving)
    fewer = largest_requests(seen, work)
    assert fewer is not None
    assert fewer < 8

    def enough(requests: int) -> bool | None:
        other = replace(seen, serving=replace(serving, requests=requests))
        found = room.demand(other, work, SGLANG, node.cards(other))
        return found.fits if found else None

    assert enough(fewer)
    assert not enough(fewer + 1)


def test_needs_of_llama_cpp() -> None:
    """Weights without the embedding, an f16 cache, a state in f32, a GiB beside."""
    work = qwen_27b()
    fit = named(node_of(L40_BYTES), work)["gpu-resident", LLAMA_CPP, "VRAM of one card"]
    embedding = room.kind_bytes(work, Kind.EMBEDDING)
    assert needs(fit) == {
        "weights": work.weight_bytes_shipped - embedding,
        "f16 cache of 8,192 tokens": 8192 * 65_536,
        "1 recurrent state": 156_893_184,
        "compute buffers and CUDA context": GIB,
    }
    assert fit.needed_bytes == sum(needs(fit).values())
    assert fit.fits is True


def test_guessing_takes_states_of_llama_cpp_too() -> None:
    seen = node_of(L40_BYTES, serving=Serving(requests=2, draft_tokens=3))
    fit = named(seen, qwen_27b(mtp=True))["speculative", LLAMA_CPP, "VRAM of one card"]
    assert needs(fit)["8 recurrent states"] == 8 * 156_893_184


def test_a_tied_output_is_copied_to_the_card() -> None:
    placed: list[PlacedWeights] = [
        (None, weights(Kind.EMBEDDING, 10**9, "f16", 4096)),
        (None, replace(weights(Kind.OUTPUT, 10**9, "f16"), parameters=0, bytes=0)),
        (0, weights(Kind.FFN, 10**9, "f16")),
    ]
    work = assemble(placed, {}, name="m", layers=1, format="gguf")
    assert work.weight_bytes_shipped == 4 * GB
    assert room.weight_bytes(three_l40(), work, LLAMA_CPP) == 4 * GB


def windowed() -> Workload:
    """As small_mix, every layer with a window of 512 tokens."""
    work = small_mix()
    cache = LayerCache(key_elements=1024, value_elements=1024, window=512)
    groups = tuple(replace(group, cache=cache) for group in work.layer_groups)
    return replace(work, layer_groups=groups)


@pytest.mark.parametrize(
    ("engine", "windows", "tokens"),
    [
        (LLAMA_CPP, True, 1024),
        (LLAMA_CPP, False, 32_768),
        (VLLM, True, 32_768),
        (SGLANG, True, 32_768),
    ],
)
def test_a_window_saves_room_in_llama_cpp_alone(engine: str, windows: bool, tokens: int) -> None:
    seen = replace(three_l40(), serving=Serving(context_tokens=32_768))
    work = replace(windowed(), llama_cpp_windows=windows)
    assert room.cache_bytes(seen, work, engine) == tokens * 16 * 2048 * 2


@pytest.mark.parametrize(
    ("engine", "asked", "given"),
    [(LLAMA_CPP, "bf16", "f16"), (LLAMA_CPP, "fp8", "q8_0"), (LLAMA_CPP, "q4_0", "q4_0"),
     (SGLANG, "q8_0", "fp8"), (VLLM, "q4_0", "fp8"), (VLLM, "f16", "bf16")],
)  # fmt: skip
def test_each_engine_has_its_own_cache_types(engine: str, asked: str, given: str) -> None:
    assert room.cache_type(engine, asked) == given


def test_a_model_that_no_card_holds_is_spread() -> None:
    fit = named(node_of(L40_BYTES, L40_BYTES), qwen_27b(60 * GIB))
    spread = fit["gpu-resident", LLAMA_CPP, "VRAM of 2 cards"]
    assert spread.fits is True
    assert needs(spread)["compute buffers and CUDA context"] == 2 * GIB
    assert needs(spread)["rounding to whole layers"] > 800 * MIB


def test_tensor_parallel_takes_a_power_of_two_of_cards() -> None:
    work = checkpoint(60 * GIB)
    fit = named(node_of(L40_BYTES, L40_BYTES, L40_BYTES), work)
    found = fit["tensor-parallel", SGLANG, "VRAM of each card"]
    assert "on 2 cards" in found.basis
    assert needs(found)["weights"] == work.weight_bytes_shipped // 2
    assert needs(found)["bf16 cache of 8,192 tokens"] == 8192 * 65_536 // 2


def test_three_cards_hold_in_stages_what_two_do_not() -> None:
    work = checkpoint(100 * GIB)
    found = named(node_of(L40_BYTES, L40_BYTES, L40_BYTES), work)[
        "gpu-resident", VLLM, "VRAM of each card"
    ]
    assert "pipeline parallel on 3 cards" in found.basis
    assert needs(found)["weights"] == work.weight_bytes_shipped // 3
    assert needs(found)["rounding to whole layers"] < 2 * GIB
    assert found.fits is True


def test_a_latent_lies_on_every_rank() -> None:
    groups = tuple(
        replace(group, cache=LayerCache(key_elements=576)) for group in small_mix().layer_groups
    )
    latent = replace(small_mix(), layer_groups=groups)
    assert room.cache_ranks(latent, 4) == 1
    assert room.cache_ranks(small_mix(), 4) == 4
    assert room.cache_ranks(replace(small_mix(), kv_heads=2), 4) == 2


def test_what_others_use_is_not_free() -> None:
    work = qwen_27b()
    alone = named(node_of(24 * GIB), work)["gpu-resident", LLAMA_CPP, "VRAM of one card"]
    shared = named(node_of(24 * GIB, used=10 * GIB), work)[
        "gpu-resident", LLAMA_CPP, "VRAM of one card"
    ]
    assert (alone.fits, shared.fits) == (True, False)
    assert shared.available_bytes == 14 * GIB
    assert "other programs use 10 GiB" in shared.basis


def test_a_card_cut_up_leaves_it_open() -> None:
    seen = node_of(L40_BYTES)
    cut = tuple(replace(gpu, mig=True) for gpu in seen.facts.gpus)
    seen = replace(seen, facts=replace(seen.facts, gpus=cut))
    fit = named(seen, qwen_27b())["gpu-resident", LLAMA_CPP, "VRAM of one card"]
    assert fit.fits is None
    assert "MIG" in fit.basis


def test_a_gpu_without_memory_of_its_own_shares_the_ram() -> None:
    seen = node_of(0)
    shared = tuple(replace(g, memory_bytes=None, unified_memory=True) for g in seen.facts.gpus)
    seen = replace(seen, facts=replace(seen.facts, gpus=shared))
    fit = named(seen, qwen_27b())["gpu-resident", LLAMA_CPP, "VRAM of one card"]
    assert fit.available_bytes == 135 * GB


def test_a_cache_that_is_not_known_leaves_it_open() -> None:
    seen = node_of(L40_BYTES)
    fit = named(seen, from_numbers("m", 16 * GIB, 64, "q4_k"))
    assert fit["gpu-resident", LLAMA_CPP, "VRAM of one card"].fits is None
    assert largest_context(seen, from_numbers("m", 16 * GIB, 64, "q4_k")) is None
    large = named(seen, from_numbers("m", 60 * GIB, 64, "q4_k"))
    assert large["gpu-resident", LLAMA_CPP, "VRAM of one card"].fits is False


def test_the_longest_context_fits_and_one_more_step_does_not() -> None:
    seen, work = node_of(24 * GIB), qwen_27b()
    most = largest_context(seen, work)
    assert most is not None
    free = 24 * GIB - (room.weight_bytes(seen, work, LLAMA_CPP) + GIB + 156_893_184)
    assert most == free // 65_536 // 256 * 256


def test_the_longest_context_is_the_models_at_most() -> None:
    work = replace(small_mix(), context_length=32_768)
    assert largest_context(node_of(L40_BYTES), work) == 32_768


def test_without_a_card_the_ram_counts() -> None:
    seen = three_l40()
    bare = replace(seen, facts=replace(seen.facts, gpus=()))
    most = largest_context(bare, qwen_27b())
    assert most is not None
    assert most * 65_536 < 135 * GB


@pytest.mark.parametrize(("vram", "ngl"), [(48, 65), (2, 1), (1, 0)])
def test_the_largest_ngl_is_what_vram_holds(vram: int, ngl: int) -> None:
    """A GiB goes to buffers; the output layer, of 0.8 GB, is the first to go there."""
    seen = node_of(vram * GIB)
    assert largest_ngl(seen, qwen_27b(), node.cards(seen)) == ngl


def test_one_layer_more_than_the_largest_ngl_does_not_fit() -> None:
    seen, work = node_of(12 * GIB), qwen_27b()
    ngl = largest_ngl(seen, work, node.cards(seen))
    cuts = ngl_cuts(reads(seen, work))
    taken, more = (cuts[65 - n].on_gpu.room_bytes for n in (ngl, ngl + 1))
    assert taken <= 11 * GIB < more


def test_a_model_too_large_for_vram_is_told_how_much_of_it_fits() -> None:
    seen = node_of(12 * GIB)
    fit = named(seen, qwen_27b())
    whole = fit["gpu-resident", LLAMA_CPP, "VRAM of one card"]
    ngl = largest_ngl(seen, qwen_27b(), node.cards(seen))
    assert whole.advice is not None
    assert f"-ngl {ngl}, which leaves {65 - ngl} layers on the CPU" in whole.advice
    rest = fit["partial-offload", LLAMA_CPP, "host RAM"]
    assert rest.fits is True
    assert f"-ngl {ngl}" in rest.basis


def test_experts_are_told_as_their_flag() -> None:
    fit = named(node_of(12 * GIB), qwen_30b_a3b())["expert-offload", LLAMA_CPP, "host RAM"]
    assert "--n-cpu-moe" in fit.basis


@pytest.mark.parametrize(
    ("flags", "weight_type", "repacked"),
    [(AVX2, "q4_k", True), (AVX2, "q4_0", True), (AVX2, "mxfp4", True), (AVX2, "q8_0", False),
     (AVX2, "f16", False), (SSE2, "q4_k", False), (SSE2, "q4_0", False)],
)  # fmt: skip
def test_repacked_weights_are_anonymous_memory(
    flags: tuple[str, ...], weight_type: str, repacked: bool
) -> None:
    work = small_mix(weight_type, None)
    anew = host_room.repacked_bytes(three_l40(flags), work)
    table = room.kind_bytes(work, Kind.EMBEDDING)
    assert anew == (work.weight_bytes_shipped - table if repacked else 0)


def test_with_a_gpu_in_use_nothing_is_repacked() -> None:
    fit = named(node_of(12 * GIB), qwen_27b())
    assert "repacked weights (anonymous memory)" not in needs(
        fit["partial-offload", LLAMA_CPP, "host RAM"]
    )
    assert "repacked weights (anonymous memory)" in needs(fit["cpu-only", LLAMA_CPP, "host RAM"])


def test_a_cgroup_bounds_the_ram() -> None:
    seen = node_of(L40_BYTES)
    limits = LimitsFacts(memory_headroom_bytes=8 * GIB)
    seen = replace(seen, facts=replace(seen.facts, limits=limits))
    fit = named(seen, qwen_27b())["cpu-only", LLAMA_CPP, "host RAM"]
    assert fit.fits is False
    assert fit.available_bytes == 8 * GIB
    assert "the cgroup leaves 8 GiB" in fit.basis
    assert fit.advice is not None
    assert "more free RAM" in fit.advice


def test_swap_is_not_room() -> None:
    memory = MemoryFacts(total_bytes=16 * GB, available_bytes=15 * GB, swap_total_bytes=64 * GB)
    seen = node_of(L40_BYTES)
    seen = replace(seen, facts=replace(seen.facts, memory=memory))
    fit = named(seen, qwen_27b())["cpu-only", LLAMA_CPP, "host RAM"]
    assert fit.fits is False
    assert "swap not counted" in fit.basis


def test_a_host_pool_is_held_against_sglangs_allowance() -> None:
    serving = Serving(hicache_size_bytes=200 * GB)
    fit = named(node_of(L40_BYTES, serving=serving), checkpoint(16 * GIB))[
        "host-kv-pool", SGLANG, "host RAM"
    ]
    assert fit.fits is False
    assert fit.available_bytes == 135 * GB - 10 * GIB
    assert "Not enough host memory available" in fit.basis
    assert (
        fit.advice == "--hicache-size 124 (GB a rank), or neither flag: SGLang then takes what fits"
    )


def test_a_model_that_does_not_fit_has_no_pool() -> None:
    found = named(node_of(12 * GIB), checkpoint(16 * GIB))
    assert ("host-kv-pool", SGLANG, "host RAM") not in found


def test_a_hybrids_pools_are_two_needs() -> None:
    fit = named(node_of(L40_BYTES), checkpoint(16 * GIB))["host-kv-pool", SGLANG, "host RAM"]
    kinds = [what.split(" ", 1)[1] for what in needs(fit)]
    assert kinds == ["cached tokens", "states"]
    assert fit.fits is True


@pytest.mark.parametrize(("limit", "fits_in"), [(8 * MIB, None), (200 * GB, True)])
def test_locked_memory_is_told_where_it_is_limited(limit: int, fits_in: bool | None) -> None:
    seen = node_of(L40_BYTES)
    limits = LimitsFacts(memlock_bytes=limit)
    seen = replace(seen, facts=replace(seen.facts, limits=limits))
    fit = named(seen, checkpoint(16 * GIB))["host-kv-pool", SGLANG, "memlock"]
    assert fit.fits is fits_in
    assert (fit.advice is None) is bool(fits_in)


def test_without_a_limit_on_locked_memory_nothing_is_said() -> None:
    assert not any(f.room == "memlock" for f in fits(node_of(L40_BYTES), checkpoint(16 * GIB)))


def test_a_conversion_needs_a_second_copy_on_the_disk() -> None:
    fit = named(node_of(L40_BYTES), checkpoint(16 * GIB))
    assert fit["model-load", None, "disk"].fits is True
    assert fit["model-load", LLAMA_CPP, "disk"].fits is False
    assert fit["model-load", LLAMA_CPP, "disk"].advice is not None


def test_vllm_takes_its_share_of_a_card() -> None:
    fit = named(node_of(L40_BYTES), checkpoint(16 * GIB))["gpu-resident", VLLM, "VRAM of one card"]
    assert fit.available_bytes == round(0.9 * L40_BYTES)


@pytest.mark.parametrize(
    ("form", "weight_type", "engines"),
    [("gguf", "q4_k", (LLAMA_CPP,)), ("gguf", "bf16", (LLAMA_CPP,)),
     ("safetensors", "bf16", (SGLANG, VLLM)), ("config", "fp8_e4m3", (SGLANG, VLLM)),
     ("numbers", "q4_k", (LLAMA_CPP,)), ("numbers", "bf16", (SGLANG, VLLM))],
)  # fmt: skip
def test_engines_by_form(form: str, weight_type: str, engines: tuple[str, ...]) -> None:
    work = replace(from_numbers("m", GIB, 32, weight_type), format=form)
    assert room.engines_for(work) == engines
