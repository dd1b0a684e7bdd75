"""A pool of cached tokens in host RAM: time to bring them back, and room."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.strategies import reference_workload
from nodecheck.judge.ways.pool import host_kv_pool, sglang_pool
from nodecheck.model import Strategy, Viability
from nodecheck.policy import Policy
from nodecheck.serving import CacheBytes, Serving, Workload
from nodecheck.units import GB, GIB
from nodecheck.workload.numbers import from_numbers
from tests.judge.models import qwen_27b, small_mix
from tests.nodes import AVX2, SSE2, dram, three_l40

STATE = 153_944_064


def answer(
    work: Workload, seen: Seen | None = None, measured_prefill: float | None = None
) -> Strategy:
    seen = seen or three_l40()
    return host_kv_pool(seen, work, node.cards(seen), measured_prefill)


def with_ram(available: int | None, seen: Seen | None = None) -> Seen:
    seen = seen or three_l40()
    memory = MemoryFacts(total_bytes=153 * GB, available_bytes=available)
    return replace(seen, facts=replace(seen.facts, memory=memory))


def test_memory_holds_it_where_that_is_slower_than_the_link() -> None:
    found = answer(reference_workload(Policy()))
    assert found.low == pytest.approx(10_000 * 65_536 / 11.7e9)
    assert found.limit.startswith("DRAM, 11.7")
    assert found.viability is Viability.VIABLE
    assert "no SIMD" in found.basis


def test_the_link_holds_it_where_that_is_slower() -> None:
    found = answer(reference_workload(Policy()), three_l40(read=100.0))
    assert found.limit.startswith("PCIe")
    assert found.low == pytest.approx(10_000 * 65_536 / (31.5e9 * 0.8), rel=0.01)


def test_instructions_do_not_matter() -> None:
    work = qwen_27b()
    assert answer(work, three_l40(SSE2)) == answer(work, three_l40(AVX2))


def test_a_hybrid_needs_its_state_too() -> None:
    found = answer(qwen_27b())
    assert found.low == pytest.approx((10_000 * 65_536 + STATE) / 11.7e9)
    assert "154 MB of state" in found.basis
    assert "sglang#33713" in found.basis


def test_an_8_bit_cache_comes_back_in_half_the_time() -> None:
    seen = replace(three_l40(), serving=Serving(kv_type="fp8"))
    assert (answer(small_mix(), seen).low or 0) == pytest.approx(
        (answer(small_mix()).low or 0) / 2, rel=0.001
    )


@pytest.mark.parametrize(
    ("prefill", "viability"),
    [
        (2000.0, Viability.VIABLE),  # 5 s to compute, 0.07 to 0.14 to fetch
        (100_000.0, Viability.MARGINAL),  # 0.1 s
        (1e6, Viability.NOT_VIABLE),
    ],
)
def test_a_measured_prefill_is_what_it_is_held_against(
    prefill: float, viability: Viability
) -> None:
    found = answer(qwen_27b(), measured_prefill=prefill)
    assert found.viability is viability
    assert "(measured)" in found.basis


def test_without_one_the_policys_rate_counts() -> None:
    slow, fast = (replace(three_l40(), measurements=(dram(rate, 8),)) for rate in (1.5, 3.0))
    assert answer(qwen_27b(), slow).viability is Viability.NOT_VIABLE
    assert answer(qwen_27b(), fast).viability is Viability.VIABLE


def test_sglangs_reserve_is_no_room() -> None:
    found = answer(qwen_27b(), with_ram(10 * GIB + 100_000))
    assert found.viability is Viability.NOT_VIABLE
    assert found.limit == "RAM size"
    assert found.levers[0].resource == "ram"


def test_a_cgroup_leaves_less_than_the_node() -> None:
    seen = three_l40()
    limits = LimitsFacts(memory_headroom_bytes=10 * GIB + GB)
    seen = replace(seen, facts=replace(seen.facts, limits=limits))
    assert "room for 954 MiB" in answer(qwen_27b(), seen).basis


def test_free_ram_that_is_not_known_leaves_it_open() -> None:
    assert answer(qwen_27b(), with_ram(None)).viability is Viability.UNKNOWN


def test_a_cache_that_is_not_known_leaves_it_open() -> None:
    assert answer(from_numbers("m", GIB, 32, "q4_k")).viability is Viability.UNKNOWN


def test_a_model_of_states_alone_has_nothing_to_keep() -> None:
    work = qwen_27b()
    groups = tuple(
        replace(group, cache=replace(group.cache, key_elements=0, value_elements=0))
        for group in work.layer_groups
    )
    none = replace(
        work, layer_groups=groups, kv_bytes_per_token=CacheBytes(bf16=0, fp8=0, q8_0=0, q4_0=0)
    )
    assert answer(none).limit == "no attention cache"


def test_what_is_slower_moves_it() -> None:
    lever = answer(qwen_27b()).levers[0]
    assert lever.resource == "bandwidth"
    assert lever.low is not None
    assert lever.low < (answer(qwen_27b()).low or 0)
    assert answer(qwen_27b(), three_l40(read=100.0)).levers[0].resource == "link"


def test_flags_that_are_refused_are_told() -> None:
    seen = replace(three_l40(), serving=Serving(hicache_size_bytes=500 * GB))
    assert "Not enough host memory available" in answer(small_mix(), seen).basis


def test_the_pool_is_that_of_what_the_card_has_left() -> None:
    """An L40: what weights, reserve and context leave, over the bytes of a token."""
    work = replace(small_mix(), format="safetensors")
    seen = replace(three_l40(), workload=work)
    found = sglang_pool(seen, work, node.cards(seen))
    assert found is not None
    left = (
        46_068 * 2**20
        - work.weight_bytes_shipped
        - 512 * 2**20
        - (512 + 6144 + 128 + 2 + 400) * 2**20
    )
    assert found.device.tokens == left // 65_536
    assert found.pool.tokens == 2 * found.device.tokens + 1


def test_each_rank_holds_its_heads() -> None:
    work = replace(qwen_27b(54 * GB), format="safetensors")
    seen = replace(three_l40(), workload=work)
    found = sglang_pool(seen, work, node.cards(seen))
    assert found is not None
    assert found.ranks == 2
    assert found.pool.token_bytes == found.pool.tokens * 65_536 // 2
    assert found.pool.state_bytes == found.pool.states * STATE // 2


def test_a_pool_that_is_refused_is_not_viable() -> None:
    seen = replace(three_l40(), serving=Serving(hicache_size_bytes=500 * GB))
    found = answer(replace(small_mix(), format="safetensors"), seen)
    assert found.viability is Viability.NOT_VIABLE
    assert found.limit == "RAM size"
    assert "Not enough host memory available" in found.basis


def test_without_the_model_there_is_no_pool() -> None:
    found = answer(replace(qwen_27b(200 * GIB), format="safetensors"))
    assert found.viability is Viability.NOT_VIABLE
    assert "SGLang does not hold the model" in found.basis
