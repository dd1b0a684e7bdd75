"""Weights on the cards and the cache in host RAM: llama.cpp's --no-kv-offload.

The CPU attends over the cached tokens of every layer that has some, and works on recurrent states.
Source: llama.cpp, src/llama-kv-cache.cpp and src/llama-memory-recurrent.cpp (offload).
"""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between
from nodecheck.judge.fits import room
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.rates.cpu_rates import Cost, cost, used_up
from nodecheck.judge.rates.cpu_stage import STATE_TYPE
from nodecheck.judge.rates.gpu_stage import gpu_seconds
from nodecheck.judge.rates.reads import QUERIES_OF_KEY, Share, context_tokens, is_latent, reads
from nodecheck.judge.ways.answers import TOKENS, refused, speed_viability, unknown
from nodecheck.judge.ways.offload import CROSSING_SECONDS
from nodecheck.judge.ways.resident import placement
from nodecheck.model import Strategy, Viability
from nodecheck.serving import Workload
from nodecheck.units import gib
from nodecheck.workload.cache import layers_with_kv

NAME = "kv-on-host"


def kv_on_host(seen: Seen, work: Workload, cards: node.Cards) -> Strategy | None:
    """What a token at the full context takes there; None without a GPU or an attention cache."""
    parts = reads(seen, work)
    part = parts.whole
    if not cards.gpus or not part.cache_bytes:
        return None
    kind = room.cache_type(room.LLAMA_CPP, seen.serving.kv_type)
    spent, state = cost(seen, kind), cost(seen, STATE_TYPE)
    if isinstance(spent, str):
        return unknown(NAME, spent)
    without = parts.without_embedding
    alone = Share(without.stored_bytes, part.weights, step_bytes=part.step_bytes)
    need = alone.room_bytes + seen.policy.thresholds.vram_overhead_bytes
    place = placement(seen, need, cards)
    if place is None:
        return refused(NAME, "VRAM size", f"the weights alone need {gib(need)}")
    held = round(part.cache_bytes + part.state_bytes)
    free = node.free_ram_bytes(seen)
    if free is not None and held > free:
        return refused(NAME, "RAM size", f"{gib(held)} of cache, {gib(free)} free")
    if place.rate is None:
        return unknown(NAME, "the VRAM rate of a card is not known")
    added = _added_seconds(seen, work, part, spent, spent if isinstance(state, str) else state)
    on_gpu = gpu_seconds(alone, place.rate, work.layers)
    speed = _speed(on_gpu, added, spent, latent=is_latent(work))
    in_vram = placement(seen, need + held, cards)
    return _answer(seen, spent, added, speed, fits_in_vram=in_vram is not None)


def _added_seconds(seen: Seen, work: Workload, part: Share, spent: Cost, state: Cost) -> Range:
    """What the CPU adds to a token at the full context, fastest to slowest."""
    layers = layers_with_kv(work.layer_groups) or work.layers
    low, high = CROSSING_SECONDS
    handed = Range(2 * layers * low, 2 * layers * high)
    slowest = part.cache_bytes * _slowest(seen, work, spent)
    cached = Range(spent.seconds_per_byte.floor * part.cache_bytes, slowest)
    return handed + cached + state.seconds_per_byte.times(2 * part.state_bytes)


def _slowest(seen: Seen, work: Workload, spent: Cost) -> float:
    """Seconds for a byte that all query heads that share it use up again after it was read."""
    if is_latent(work):
        return spent.seconds_per_byte.high
    compute = used_up(seen, room.cache_type(room.LLAMA_CPP, seen.serving.kv_type))
    again = QUERIES_OF_KEY / compute.floor if compute else spent.seconds_per_byte.high
    return spent.seconds_per_byte.high + again


def _speed(on_gpu: Range, added: Range, spent: Cost, *, latent: bool) -> Range:
    low = None if spent.ceiling_only or latent else 1 / (on_gpu.high + added.high)
    return Range(low, 1 / (on_gpu.floor + added.floor))


def _answer(seen: Seen, spent: Cost, added: Range, speed: Range, *, fits_in_vram: bool) -> Strategy:
    """Never faster than with the cache in VRAM: at best worth it where that does not hold it."""
    viability = speed_viability(seen, speed)
    if fits_in_vram and viability is Viability.VIABLE:
        viability = Viability.MARGINAL
    there = "the cache fits in VRAM too" if fits_in_vram else "VRAM does not hold the cache"
    milliseconds = between(1000 * added.floor, 1000 * added.high)
    return Strategy(
        strategy=NAME,
        viability=viability,
        limit=spent.limit,
        low=speed.low,
        high=speed.high,
        unit=TOKENS,
        basis=f"--no-kv-offload adds {milliseconds} ms a token at {context_tokens(seen):,} tokens "
        f"of context, and no speed; {there}; {spent.basis}",
    )
