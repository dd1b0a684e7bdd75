"""Weights on the GPU and the cache in RAM: it attaches, and adds no speed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.judge import node
from nodecheck.judge.ways.kv_host import kv_on_host
from nodecheck.judge.ways.resident import gpu_resident
from nodecheck.model import Strategy, Viability
from nodecheck.serving import LayerCache, Serving, Workload
from nodecheck.units import GIB
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, small_mix
from tests.nodes import AVX2, SSE2, three_l40


def answer(
    work: Workload,
    context: int = 8192,
    flags: tuple[str, ...] = SSE2,
    kv_type: str = "bf16",
    requests: int = 1,
) -> Strategy | None:
    serving = Serving(context_tokens=context, kv_type=kv_type, requests=requests)
    seen = replace(three_l40(flags), workload=work, serving=serving)
    return kv_on_host(seen, work, node.cards(seen))


def high(found: Strategy | None) -> float:
    assert found is not None
    assert found.high is not None
    return found.high


@pytest.mark.parametrize("flags", [SSE2, AVX2])
@pytest.mark.parametrize("context", [4096, 32768, 131072])
def test_it_is_never_faster_than_the_cache_in_vram(flags: tuple[str, ...], context: int) -> None:
    seen = replace(three_l40(flags), serving=Serving(context_tokens=context))
    alone = gpu_resident(seen, qwen_27b(), node.cards(seen))
    assert alone.high is not None
    assert high(answer(qwen_27b(), context, flags)) < alone.high


def test_it_is_no_recommendation_where_the_cache_fits() -> None:
    found = answer(small_mix(), 256, AVX2)
    assert found is not None
    assert found.viability is Viability.MARGINAL
    assert "no speed" in found.basis
    assert "fits in VRAM too" in found.basis


def test_a_long_context_makes_it_hopeless() -> None:
    found = answer(qwen_27b(), 131072)
    assert found is not None
    assert found.viability is Viability.NOT_VIABLE
    assert high(answer(qwen_27b(), 8192)) > high(found)


def test_f16c_and_q8_0_move_it() -> None:
    """SSE2 uses f16 up at 2 GB/s a core and q8_0 at 6, which has half the bytes."""
    slow, wide = answer(qwen_27b(), 32768, SSE2), answer(qwen_27b(), 32768, AVX2)
    small = answer(qwen_27b(), 32768, SSE2, "q8_0")
    assert slow is not None
    assert slow.low is not None
    assert wide is not None
    assert wide.low is not None
    assert small is not None
    assert small.low is not None
    assert wide.low > 1.3 * slow.low
    assert small.low > 1.5 * slow.low


def test_it_tells_what_it_adds_to_a_token() -> None:
    found = answer(qwen_27b(), 8192)
    assert found is not None
    assert "ms a token at 8,192 tokens" in found.basis


def test_ram_must_hold_the_cache() -> None:
    found = answer(qwen_27b(), 1 << 20, requests=4)
    assert found is not None
    assert found.limit == "RAM size"


def test_vram_must_hold_the_weights() -> None:
    found = answer(qwen_27b(200 * GIB))
    assert found is not None
    assert found.limit == "VRAM size"


def test_a_latent_has_no_lower_bound() -> None:
    """How often its one key is used up is not worked out."""
    work = small_mix()
    latent = replace(
        work,
        layer_groups=tuple(
            replace(group, cache=LayerCache(key_elements=576)) for group in work.layer_groups
        ),
    )
    found = answer(latent)
    assert found is not None
    assert found.low is None


def test_without_a_cache_or_a_card_there_is_none() -> None:
    assert answer(from_numbers("m", GIB, 32, "q4_k")) is None
    seen = three_l40()
    bare = replace(seen, facts=replace(seen.facts, gpus=()))
    assert kv_on_host(bare, qwen_27b(), node.cards(bare)) is None
