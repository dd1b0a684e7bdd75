"""What SGLang makes of a card's memory: its reserve, state slots and tokens. Arithmetic alone.

Source: SGLang 0.5.23, arg_groups/memory_hook.py and mem_cache/kv_cache_configurator.py.
"""

from __future__ import annotations

from typing import NamedTuple

from nodecheck.model import Struct
from nodecheck.units import GIB, MIB

STATE_SLOTS_PER_REQUEST = 3
"""States of a hybrid that SGLang keeps for each running request while its prefix cache is on."""

STATE_SLOTS_WITH_EXTRA_BUFFER = 5
"""The same with the extra buffer, which it turns on by itself for Qwen3.5, Qwen3-Next, Nemotron-H,
Falcon-H1 and Granite-H where its scheduler overlaps."""

STATE_TO_CACHE_RATIO = 0.9
"""--mamba-full-memory-ratio: bytes of states for each byte of attention cache, unless said."""

ACTIVATION_BYTES_PER_TOKEN = 1.5 * MIB
"""It sets as much aside for each token of a chunk of prompt."""

GRAPH_BYTES_PER_REQUEST = 2 * MIB
"""And for each request of the largest batch with a CUDA graph."""

METADATA_BYTES = 512 * MIB

LARGE_CARD_BYTES, LARGE_CARD_RESERVE_BYTES = 60 * GIB, 10 * GIB
"""On a card above the first it sets aside the second at least."""


class _Tier(NamedTuple):
    """Defaults for cards below a size: tokens of a chunk, largest batch, prompt graphs in bytes."""

    below_bytes: float
    chunk_tokens: int
    batch: int
    batch_wide: int
    prompt_graph_bytes: int


_TIERS = (
    _Tier(20 * GIB, 2048, 8, 8, 42 * 8 * MIB),
    _Tier(35 * GIB, 4096, 48, 160, 50 * 8 * MIB),
    _Tier(60 * GIB, 4096, 32, 160, 50 * 8 * MIB),
    _Tier(160 * GIB, 8192, 256, 512, 58 * 8 * MIB),
    _Tier(float("inf"), 16384, 512, 512, 74 * 8 * MIB),
)
"""`batch_wide` counts from 4 ranks on; each captured prompt size takes 8 MiB."""


class DevicePools(Struct, frozen=True):
    """What one rank keeps on its card: tokens of attention cache, states, and their bytes."""

    tokens: int
    cache_bytes: int
    state_slots: int = 0
    state_bytes: int = 0
    draft_state_bytes: int = 0


def reserve_bytes(card_bytes: int, ranks: int = 1, requests: int | None = None) -> int:
    """Bytes of a card that are left for activations and CUDA graphs.

    `requests` is --max-running-requests: graphs are made for no more.
    """
    tier = next(t for t in _TIERS if card_bytes < t.below_bytes)
    batch = tier.batch_wide if ranks >= 4 else tier.batch
    batch = min(batch, requests) if requests else batch
    reserve = METADATA_BYTES + tier.chunk_tokens * ACTIVATION_BYTES_PER_TOKEN
    reserve += ranks / 8 * GIB + batch * GRAPH_BYTES_PER_REQUEST + tier.prompt_graph_bytes
    if card_bytes > LARGE_CARD_BYTES:
        reserve = max(reserve, LARGE_CARD_RESERVE_BYTES)
    return round(reserve)


def mem_fraction_static(card_bytes: int, ranks: int = 1, requests: int | None = None) -> float:
    """Share of a card for weights, states and cache, as SGLang itself would set it."""
    return round(1 - reserve_bytes(card_bytes, ranks, requests) / card_bytes, 3)


def draft_states(requests: int, draft_tokens: int | None) -> int:
    """States beside the slots that speculation rolls back to; 0 without it.

    One more than the guessed tokens, for each request and a spare one.
    """
    return (requests + 1) * (draft_tokens + 1) if draft_tokens else 0


def needed_states(
    requests: int, draft_tokens: int | None, slots: int = STATE_SLOTS_PER_REQUEST
) -> int:
    """States that so many running requests take, without the spare one of each pool."""
    return requests * slots + draft_states(requests, draft_tokens)


def device_pools(
    rest_bytes: int,
    cache_bytes_per_token: int,
    state_bytes: int = 0,
    draft_tokens: int | None = None,
    requests: int | None = None,
) -> DevicePools:
    """How SGLang splits what weights and reserve leave of one rank's card, where no flag says it.

    Sizes are those of the rank. Where the states alone do not fit, there are none and no tokens.
    """
    if not state_bytes:
        tokens = max(0, rest_bytes) // cache_bytes_per_token if cache_bytes_per_token else 0
        return DevicePools(tokens, tokens * cache_bytes_per_token)
    slots = _state_slots(rest_bytes, state_bytes, draft_tokens)
    if slots < STATE_SLOTS_PER_REQUEST:
        return DevicePools(0, 0)
    running = slots // STATE_SLOTS_PER_REQUEST
    drafts = draft_states(min(requests or running, running), draft_tokens) * state_bytes
    states = (slots + 1) * state_bytes
    left = max(0, rest_bytes - states - drafts)
    tokens = left // cache_bytes_per_token if cache_bytes_per_token else 0
    return DevicePools(tokens, tokens * cache_bytes_per_token, slots, states, drafts)


def _state_slots(rest_bytes: int, state_bytes: int, draft_tokens: int | None) -> int:
    """States for which the share of the memory that is theirs has the room."""
    budget = rest_bytes * STATE_TO_CACHE_RATIO / (1 + STATE_TO_CACHE_RATIO)
    drafts = draft_tokens + 1 if draft_tokens else 0
    spare = state_bytes * (1 + drafts)
    each = state_bytes * (1 + drafts / STATE_SLOTS_PER_REQUEST)
    return int((budget - spare) // each)
