"""SGLang and vLLM on this node: which flags, and why.

Flags as in SGLang 0.5.23, srt/arg_groups/fields, and vLLM 0.33.0, engine/arg_utils.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.fits import room
from nodecheck.judge.fits.room import SGLANG, VLLM, Demand
from nodecheck.judge.rates.reads import context_tokens
from nodecheck.judge.ways import hicache, load, pool, sglang
from nodecheck.judge.ways.speculative import drafts_of
from nodecheck.serving import Flag, Workload
from nodecheck.units import GB, MIB, count, gib, percent

PROGRAMS = {SGLANG: "python3 -m sglang.launch_server --model-path", VLLM: "vllm serve"}

MODEL, DRAFT = "MODEL", "DRAFT_MODEL"

UTILISATION_STEP = 0.01
"""Of --gpu-memory-utilization: below what is free by one, since vLLM refuses to start otherwise."""

VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}
"""What tells the driver which cards a process may see, by the maker. NVIDIA's numbers are those of
nvidia-smi with CUDA_DEVICE_ORDER=PCI_BUS_ID alone (CUDA C++ Programming Guide)."""


def sglang_flags(
    seen: Seen, work: Workload, found: Demand, *, guess: bool, pooled: bool
) -> Iterator[Flag]:
    """The flags of SGLang beside the model's path."""
    yield from _ranks(found, "--tp", "--pp-size")
    yield from _static_share(seen, found)
    yield Flag(flag=f"--context-length {context_tokens(seen)}", why=_context(seen, work))
    requests = seen.serving.requests
    why = f"{count(requests, 'request')} at once: CUDA graphs for no more"
    yield Flag(flag=f"--max-running-requests {requests}", why=why)
    yield from _states(seen, work, found)
    if room.cache_type(SGLANG, seen.serving.kv_type) == "fp8":
        yield Flag(flag="--kv-cache-dtype fp8_e4m3", why=_cache_why(seen))
    if pooled:
        yield from _pool(seen, work)
    if guess:
        yield from _sglang_guessing(seen)
    yield from _loading(seen, work, SGLANG)


def vllm_flags(seen: Seen, work: Workload, found: Demand, *, guess: bool) -> Iterator[Flag]:
    """The flags of vLLM beside the model's path."""
    yield from _ranks(found, "--tensor-parallel-size", "--pipeline-parallel-size")
    share = utilisation(seen, found.cards)
    why = f"{percent(share)} of a card for weights, cache and activations"
    if share < room.VLLM_UTILISATION:
        why += ": other programs use some of it, and vLLM refuses to start with more"
    yield Flag(flag=f"--gpu-memory-utilization {share:.2f}", why=why)
    yield Flag(flag=f"--max-model-len {context_tokens(seen)}", why=_context(seen, work))
    requests = seen.serving.requests
    yield Flag(flag=f"--max-num-seqs {requests}", why=f"{count(requests, 'request')} at once")
    if room.cache_type(VLLM, seen.serving.kv_type) == "fp8":
        yield Flag(flag="--kv-cache-dtype fp8", why=_cache_why(seen))
    if guess:
        yield from _vllm_guessing(seen)
    yield from _loading(seen, work, VLLM)


def utilisation(seen: Seen, number: int = 1) -> float:
    """The share of each card that vLLM may ask for: no more than what is free of the fullest.

    `number` are the cards that it takes, the roomiest.
    """
    cards = node.cards(seen)
    taken = cards.roomiest(number)
    free = [cards.free_bytes(g) / g.memory_bytes for g in taken if g.memory_bytes]
    most = int((min(free, default=1.0) - UTILISATION_STEP) / UTILISATION_STEP) * UTILISATION_STEP
    return max(UTILISATION_STEP, min(room.VLLM_UTILISATION, most))


def _ranks(found: Demand, cut: str, staged: str) -> Iterator[Flag]:
    if found.ranks > 1:
        why = f"one card does not hold it; every layer cut over {found.ranks} (link not measured)"
        yield Flag(flag=f"{cut} {found.ranks}", why=why)
    elif found.stages > 1:
        why = f"layers over {found.stages} cards, one after the other, as fewer do not hold it"
        yield Flag(flag=f"{staged} {found.stages}", why=why)


def visible(cards: node.Cards, number: int) -> Flag | None:
    """What shows an engine the roomiest cards, where it would take others: it takes the first."""
    taken = cards.roomiest(number)
    name = VISIBLE.get(taken[0].vendor or "") if taken else None
    indices = [gpu.index for gpu in cards.gpus if gpu in taken]
    if name is None or None in indices or taken == cards.gpus[:number]:
        return None
    order = "CUDA_DEVICE_ORDER=PCI_BUS_ID " if name.startswith("CUDA") else ""
    why = f"{count(number, 'card')} with the most free VRAM; unasked it takes the first"
    return Flag(flag=f"{order}{name}={','.join(map(str, indices))}", why=why)


def _static_share(seen: Seen, found: Demand) -> Iterator[Flag]:
    taken = node.cards(seen).roomiest(found.cards)
    sizes = [g.memory_bytes for g in taken if g.memory_bytes]
    if not sizes or any(g.mig for g in taken):
        return
    card, ranks = min(sizes), found.ranks * found.stages
    share = sglang.mem_fraction_static(card, ranks, seen.serving.requests)
    kept = gib(sglang.reserve_bytes(card, ranks, seen.serving.requests))
    yield Flag(
        flag=f"--mem-fraction-static {share:.3f}",
        why=f"leaves {kept} of a card for activations and CUDA graphs, by SGLang's own rule",
    )


def _context(seen: Seen, work: Workload) -> str:
    tokens = context_tokens(seen)
    whole = f"; the model's own is {work.context_length:,}" if work.context_length else ""
    return f"{tokens:,} tokens{whole}"


def _states(seen: Seen, work: Workload, found: Demand) -> Iterator[Flag]:
    """Slots for states, five for each request where there is the room for its extra buffer."""
    each = room.state_bytes(work, SGLANG) // (found.ranks * found.stages)
    if not each:
        return
    requests, least = seen.serving.requests, sglang.STATE_SLOTS_PER_REQUEST
    most = sglang.STATE_SLOTS_WITH_EXTRA_BUFFER
    left = (found.free_bytes or 0) - found.needed_bytes
    slots = most if left >= (most - least) * requests * each else least
    fewer = "" if slots == most else f"; the extra buffer wants {most}, and halves the requests"
    yield Flag(
        flag=f"--max-mamba-cache-size {slots * requests}",
        why=f"{slots} states of {each / MIB:.0f} MiB for each request{fewer}; unasked, states take "
        f"{sglang.STATE_TO_CACHE_RATIO:g} bytes for each byte of cache",
    )


def _cache_why(seen: Seen) -> str:
    asked = seen.serving.kv_type
    return "as asked" if asked == "fp8" else f"the nearest it has to {asked}"


def _pool(seen: Seen, work: Workload) -> Iterator[Flag]:
    """The pool in RAM, of a size at which SGLang starts."""
    found = pool.sglang_pool(seen, work, node.cards(seen))
    if found is None:
        return
    largest = (found.pool.allowed_bytes or 0) // GB
    if found.pool.refusal and not largest:
        return
    why = "cached prefixes stay in RAM when the card forgets them; moving them needs no SIMD"
    yield Flag(flag="--enable-hierarchical-cache", why=why)
    if found.pool.refusal:
        yield Flag(
            flag=f"--hicache-size {largest}",
            why="GB a rank, the most that starts; what was asked for is refused",
        )
    elif size := hicache.asked_gb(seen.serving):
        yield Flag(flag=f"--hicache-size {size}", why=f"GB a rank: {hicache.said(found.pool)}")
    elif seen.serving.hicache_ratio is not None:
        ratio = f"--hicache-ratio {seen.serving.hicache_ratio:g}"
        yield Flag(flag=ratio, why=hicache.said(found.pool))


def _sglang_guessing(seen: Seen) -> Iterator[Flag]:
    drafts = drafts_of(seen)
    if seen.serving.draft_bytes:
        yield Flag(flag="--speculative-algorithm STANDALONE", why="guesses with a draft model")
        yield Flag(flag=f"--speculative-draft-model-path {DRAFT}", why="the draft model")
    else:
        yield Flag(flag="--speculative-algorithm NEXTN", why="guesses with the MTP module")
    yield Flag(
        flag=f"--speculative-num-steps {drafts} --speculative-eagle-topk 1 "
        f"--speculative-num-draft-tokens {drafts + 1}",
        why=f"{count(drafts, 'token')} ahead, checked in one pass of {drafts + 1}",
    )


def _vllm_guessing(seen: Seen) -> Iterator[Flag]:
    drafts = drafts_of(seen)
    method: dict[str, str | int] = {"method": "mtp", "num_speculative_tokens": drafts}
    if seen.serving.draft_bytes:
        method = {"model": DRAFT, "num_speculative_tokens": drafts}
    why = f"{count(drafts, 'token')} ahead"
    yield Flag(flag=f"--speculative-config '{json.dumps(method)}'", why=why)


def _loading(seen: Seen, work: Workload, engine: str) -> Iterator[Flag]:
    if kind := load.slow_to_map(seen, work):
        why = f"{kind}: mapped pages come one by one; this reads whole files"
        yield Flag(flag=load.WITHOUT_MAPPING[engine], why=why)
