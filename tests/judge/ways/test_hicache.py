"""SGLang's host pool: its tokens, its refusals, the second pool of a hybrid."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.judge.ways import hicache, sglang
from nodecheck.judge.ways.hicache import host_pool
from nodecheck.judge.ways.sglang import DevicePools, device_pools
from nodecheck.serving import Serving
from nodecheck.units import GB, GIB, MIB
from tests.judge.models import qwen_27b, small_mix

QWEN3_8B, QWEN35_27B, STATE = 147_456, 65_536, 153_944_064
"""Bytes of a cached token of two models, and of one state of the second."""

ROOMY = 120 * GB


def device(tokens: int, states: int = 0, per_token: int = QWEN3_8B) -> DevicePools:
    return DevicePools(tokens, tokens * per_token, states, states * STATE)


def test_a_pool_of_qwen3_8b_holds_as_many_tokens_as_sglang_said() -> None:
    """Two for each of 138,682 on the card and one to spare, in 40.9 GB."""
    assert 40_899_133_440 // QWEN3_8B == 277_365
    assert hicache.tokens_by_ratio(138_682) == 277_365
    pool = host_pool(device(138_682), QWEN3_8B, 0, Serving(), ROOMY)
    assert (pool.tokens, pool.bytes) == (277_365, 40_899_133_440)


@pytest.mark.parametrize(
    ("wished", "page", "made"),
    [(0, 1, 1), (277_364, 1, 277_365), (128, 64, 192), (127, 64, 128), (63, 64, 64)],
)
def test_a_pool_is_whole_pages_and_one_to_spare(wished: int, page: int, made: int) -> None:
    assert hicache.paged(wished, page) == made


def test_a_size_is_gigabytes_of_one_rank() -> None:
    pool = host_pool(device(1000), QWEN3_8B, 0, Serving(hicache_size_bytes=40 * GB), ROOMY)
    assert pool.tokens == 40 * GB // QWEN3_8B + 1
    assert pool.by == "--hicache-size 40"


def test_a_pool_that_does_not_fit_is_refused_with_the_rule() -> None:
    asked = Serving(hicache_size_bytes=40 * GB)
    pool = host_pool(device(1000), QWEN3_8B, 0, asked, 39 * GB)
    assert pool.refusal is not None
    assert pool.refusal.startswith("Not enough host memory available: 40.00 GB asked for, 39.00 GB")
    assert "less 10 GiB" in pool.refusal
    assert host_pool(device(1000), QWEN3_8B, 0, asked, 41 * GB).refusal is None


def test_a_ratio_that_was_asked_for_is_not_lowered() -> None:
    on_card = device(138_682)
    asked = host_pool(on_card, QWEN3_8B, 0, Serving(hicache_ratio=2.0), 30 * GB)
    unasked = host_pool(on_card, QWEN3_8B, 0, Serving(), 30 * GB)
    assert asked.refusal is not None
    assert unasked.refusal is None
    assert unasked.ratio == pytest.approx(30e9 * 0.8 * 0.95 / (138_682 * QWEN3_8B))
    assert "lowers" in unasked.by


def test_what_is_free_is_shared_by_the_ranks_of_the_node() -> None:
    assert hicache.allowance_bytes(50 * GIB, 2, 10 * GIB) == 20 * GIB
    assert hicache.allowance_bytes(5 * GIB, 1, 10 * GIB) == 0


def test_without_ram_beyond_the_reserve_it_does_not_start() -> None:
    pool = host_pool(device(1000), QWEN3_8B, 0, Serving(), 0)
    assert pool.refusal is not None
    assert "10 GiB reserve" in pool.refusal


def test_a_pool_no_larger_than_the_cards_is_warned_of() -> None:
    small = Serving(hicache_ratio=0.5)
    pool = host_pool(device(100_000), QWEN3_8B, 0, small, ROOMY)
    assert pool.warning is not None
    assert "50,001" in pool.warning
    assert host_pool(device(100_000), QWEN3_8B, 0, Serving(), ROOMY).warning is None


def test_a_hybrid_has_a_second_pool_by_the_same_ratio() -> None:
    pool = host_pool(device(100_000, 24, QWEN35_27B), QWEN35_27B, STATE, Serving(), ROOMY)
    assert (pool.tokens, pool.states) == (200_001, 49)
    assert pool.bytes == 200_001 * QWEN35_27B + 49 * STATE


def test_a_size_is_divided_as_the_cards_memory_is() -> None:
    on_card = DevicePools(1000, 3 * GIB, 7, GIB)
    asked = Serving(hicache_size_bytes=40 * GB)
    pool = host_pool(on_card, QWEN35_27B, STATE, asked, ROOMY)
    assert pool.token_bytes == pytest.approx(30 * GB, rel=0.001)
    assert pool.state_bytes == pytest.approx(10 * GB, rel=0.02)


def test_risks_are_those_of_the_model_and_dated() -> None:
    plain, hybrid = small_mix(), qwen_27b()
    windows = replace(
        plain,
        layer_groups=tuple(
            replace(g, cache=replace(g.cache, window=512)) for g in plain.layer_groups
        ),
    )
    assert not any("hybrids" in risk for risk in hicache.risks(plain, Serving()))
    assert any("sglang#39830 (open, 2026-09)" in risk for risk in hicache.risks(hybrid, Serving()))
    assert any("sglang#33713" in risk for risk in hicache.risks(hybrid, Serving()))
    assert any("MTP" in risk for risk in hicache.risks(hybrid, Serving(draft_tokens=3)))
    assert any("23659" in risk for risk in hicache.risks(windows, Serving()))
    assert any("--disable-radix-cache" in risk for risk in hicache.risks(plain, Serving()))


def test_the_reserve_is_sglangs_own() -> None:
    """An L40: 512 MiB + 4,096 tokens x 1.5 MiB + 1/8 GiB + 32 x 2 MiB + 50 graphs x 8 MiB."""
    card = 46_068 * MIB
    assert sglang.reserve_bytes(card) == (512 + 6144 + 128 + 64 + 400) * MIB
    assert sglang.mem_fraction_static(card) == pytest.approx(0.843)
    assert sglang.reserve_bytes(card, requests=8) == (512 + 6144 + 128 + 16 + 400) * MIB
    assert sglang.reserve_bytes(80 * GIB) >= 10 * GIB
    assert sglang.reserve_bytes(12 * GIB) < sglang.reserve_bytes(24 * GIB)


@pytest.mark.parametrize(
    ("requests", "drafts", "states"),
    [(8, None, 24), (8, 3, 24 + 9 * 4), (1, None, 3), (1, 3, 3 + 2 * 4)],
)
def test_states_of_running_requests(requests: int, drafts: int | None, states: int) -> None:
    assert sglang.needed_states(requests, drafts) == states


def test_states_of_a_27b_take_what_was_seen() -> None:
    """8 requests: 3.4 GiB of slots, and 5.2 GiB to roll back 4 tokens of MTP."""
    assert sglang.needed_states(8, None) * STATE / GIB == pytest.approx(3.4, abs=0.05)
    assert sglang.draft_states(8, 3) * STATE / GIB == pytest.approx(5.2, abs=0.05)


def test_a_dense_model_gets_all_that_is_left() -> None:
    pools = device_pools(20 * GIB, QWEN3_8B)
    assert pools.tokens == 20 * GIB // QWEN3_8B
    assert pools.state_slots == 0


def test_states_take_nine_bytes_for_ten_of_cache() -> None:
    pools = device_pools(19 * GIB, QWEN35_27B, STATE)
    assert pools.state_slots == int((9 * GIB - STATE) // STATE)
    assert pools.state_bytes <= 9 * GIB
    assert pools.cache_bytes == pytest.approx(10 * GIB, rel=0.02)


def test_guessing_takes_from_both() -> None:
    plain = device_pools(19 * GIB, QWEN35_27B, STATE)
    guessing = device_pools(19 * GIB, QWEN35_27B, STATE, draft_tokens=3, requests=8)
    assert guessing.state_slots < plain.state_slots
    assert guessing.draft_state_bytes == 9 * 4 * STATE


@pytest.mark.parametrize("rest", [-GIB, 0, 600 * MIB])
def test_where_states_do_not_fit_there_is_nothing(rest: int) -> None:
    assert device_pools(rest, QWEN35_27B, STATE) == DevicePools(0, 0)
