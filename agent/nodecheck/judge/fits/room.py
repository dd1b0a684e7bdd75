"""What an engine puts on the cards to serve a model, by kind, and the room that it finds there."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.rates.reads import context_tokens, is_latent, reads
from nodecheck.judge.ways import sglang
from nodecheck.model import Struct
from nodecheck.serving import Kind, Need, Workload
from nodecheck.units import GIB, MIB, count, gib
from nodecheck.workload import cache
from nodecheck.workload.gguf.ggml import GGUF_ONLY

LLAMA_CPP, SGLANG, VLLM = "llama.cpp", "SGLang", "vLLM"

VLLM_UTILISATION = 0.90
"""Share of a card for weights, cache and activations, as it is asked of vLLM. Unasked it takes 0.92
in 0.33.0 (config/cache.py), 0.9 before."""

CUDA_CONTEXT_BYTES = 512 * MIB
"""What a process takes of a card before it loads anything. Source: 200 to 600 MB are seen."""

CONTEXT_STEP = 256
"""llama.cpp rounds a context up to as many tokens. Source: src/llama-context.cpp."""

WEIGHTS, DRAFT, KEPT_FREE, CONTEXT, ROUNDING = (
    "weights",
    "draft model",
    "activations and CUDA graphs",
    "CUDA context",
    "rounding to whole layers",
)
"""How needs are called that do not grow with the context or the requests."""

FIXED = (WEIGHTS, DRAFT, KEPT_FREE, CONTEXT, ROUNDING)

LLAMA_CPP_CACHE = {"bf16": "f16", "f16": "f16", "fp8": "q8_0", "q8_0": "q8_0", "q4_0": "q4_0"}
"""Its nearest cache type."""

OTHERS_CACHE = {"bf16": "bf16", "f16": "bf16", "fp8": "fp8", "q8_0": "fp8", "q4_0": "fp8"}
"""The same of SGLang and vLLM, which have no type of 4 bits for every model."""


class Demand(Struct, frozen=True, kw_only=True):
    """What an engine needs on so many cards, and what they have free; None where that is not known.

    With `ranks` above 1 each card computes a part of every layer (tensor parallel), with `stages`
    it holds some of the layers (pipeline parallel); the figures are then those of one card.
    llama.cpp spreads layers over all cards together.
    """

    engine: str
    cards: int
    ranks: int
    stages: int
    needs: tuple[Need, ...]
    free_bytes: int | None
    note: str | None = None

    @property
    def needed_bytes(self) -> int:
        """The sum of all needs."""
        return sum(need.bytes for need in self.needs)

    @property
    def fits(self) -> bool | None:
        """Whether there is the room."""
        return None if self.free_bytes is None else self.needed_bytes <= self.free_bytes

    @property
    def room(self) -> str:
        """How that room is called."""
        if self.ranks * self.stages > 1:
            return "VRAM of each card"
        return "VRAM of one card" if self.cards == 1 else f"VRAM of {self.cards} cards"


def engines_for(work: Workload) -> tuple[str, ...]:
    """The engines that read a model in this form, the first to try first.

    Of one that is known by numbers alone, the storage type tells the form.
    """
    if work.format == "gguf" or (work.format == "numbers" and work.weight_type in GGUF_ONLY):
        return (LLAMA_CPP,)
    return SGLANG, VLLM


def within_model(seen: Seen, work: Workload) -> Seen:
    """With the policy's context cut to the model's own, where none was asked for."""
    own = work.context_length
    if seen.serving.context_tokens or not own or own >= context_tokens(seen):
        return seen
    return replace(seen, serving=replace(seen.serving, context_tokens=own))


def cache_type(engine: str, kv_type: str) -> str:
    """The type of cache that the engine has nearest to the one asked for."""
    return (LLAMA_CPP_CACHE if engine == LLAMA_CPP else OTHERS_CACHE)[kv_type]


def cache_bytes(seen: Seen, work: Workload, engine: str) -> int | None:
    """Bytes of attention cache of one sequence in this engine; None where it is not known.

    llama.cpp keeps a window's tokens and a batch. The others are taken to size every layer alike,
    as a vLLM log of a model with windows shows (hf-mem#60).
    """
    context, kind = context_tokens(seen), cache_type(engine, seen.serving.kv_type)
    windows = any(g.cache.window is not None for g in work.layer_groups)
    if engine == LLAMA_CPP:
        context = -(-context // CONTEXT_STEP) * CONTEXT_STEP
        if windows and work.llama_cpp_windows:
            return cache.context_bytes(work.layer_groups, context, kind).llama_cpp
    return cache.whole_context_bytes(work, context, kind)


def states(seen: Seen, work: Workload, engine: str) -> int:
    """Recurrent states that all requests take.

    llama.cpp keeps one for each and one more for each guessed token (n_rs_seq). SGLang keeps slots
    and states to roll back to, and a spare one. vLLM's own sizes were not derived: one each.
    """
    serving = seen.serving
    if work.state_bytes_per_sequence is None:
        return 0
    if engine == LLAMA_CPP:
        return serving.requests * (1 + (serving.draft_tokens or 0))
    if engine == VLLM:
        return serving.requests
    return 1 + sglang.needed_states(serving.requests, serving.draft_tokens)


def state_bytes(work: Workload, engine: str) -> int:
    """Bytes of one state; 0 where the model has none."""
    state = work.state_bytes_per_sequence
    if state is None:
        return 0
    return state.llama_cpp if engine == LLAMA_CPP else state.sglang or state.llama_cpp


def weight_bytes(seen: Seen, work: Workload, engine: str) -> int:
    """Bytes of weights that the engine puts on the cards when it puts all there that it can.

    llama.cpp leaves the input embedding in RAM and puts a copy of a tied one on the card. The
    others load MTP modules only to guess with them.
    """
    if engine == LLAMA_CPP:
        return round(reads(seen, work).without_embedding.stored_bytes)
    unused = 0 if seen.serving.draft_tokens else kind_bytes(work, Kind.MTP)
    return work.weight_bytes_shipped - unused


def kind_bytes(work: Workload, kind: Kind) -> int:
    """Bytes of all weights of a kind."""
    outside = sum(w.bytes for w in work.outside if w.kind is kind)
    return outside + sum(
        len(g.numbers) * w.bytes for g in work.layer_groups for w in g.weights if w.kind is kind
    )


def demand(seen: Seen, work: Workload, engine: str, cards: node.Cards) -> Demand | None:
    """The fewest cards on which the engine has the room, else the most; None without a card.

    All requests are taken to fill their context at once.
    """
    if not cards.gpus:
        return None
    found = [_demand(seen, work, engine, cards, each) for each in spreads(engine, len(cards.gpus))]
    return next((each for each in found if each.fits is not False), found[-1])


class Spread(Struct, frozen=True):
    """How many cards hold a model, in how many parts of each layer and of all layers."""

    cards: int
    ranks: int = 1
    stages: int = 1


def spreads(engine: str, cards: int) -> list[Spread]:
    """How an engine spreads a model, fewer cards first.

    llama.cpp puts layers on any number. The others cut layers across a power of two of cards, or
    hand a token from stage to stage.
    """
    if engine == LLAMA_CPP:
        return [Spread(n) for n in range(1, cards + 1)]
    cut = [Spread(n, ranks=n) for n in (1, 2, 4, 8, 16) if n <= cards]
    staged = [Spread(n, stages=n) for n in range(cut[-1].cards + 1, cards + 1)]
    return [*cut, *staged]


def _demand(seen: Seen, work: Workload, engine: str, cards: node.Cards, spread: Spread) -> Demand:
    taken = cards.roomiest(spread.cards)
    free = _free(seen, cards, spread.cards)
    size = min((g.memory_bytes or 0 for g in taken), default=0)
    needs = _held(seen, work, engine, spread) + _beside(seen, work, engine, spread, size)
    room = sum(free) if engine == LLAMA_CPP else min(free, default=0)
    if engine == VLLM:
        room = min(room, round(size * VLLM_UTILISATION)) if size else room
    needed = sum(need.bytes for need in needs)
    if not free and needed > (whole := sum(g.memory_bytes or 0 for g in taken)) > 0:
        free, room = [whole], whole  # MIG: no instance is larger than its card
    return Demand(
        engine=engine,
        cards=spread.cards,
        ranks=spread.ranks,
        stages=spread.stages,
        needs=tuple(need for need in needs if need.bytes),
        free_bytes=room if free else None,
        note=_note(cards),
    )


def _free(seen: Seen, cards: node.Cards, number: int) -> list[int]:
    """Free bytes of the roomiest cards, so many; nothing where that of a card is not known."""
    if cards.share_memory:
        shared = node.free_ram_bytes(seen)
        return [shared] if shared is not None and number == 1 else []
    if any(g.mig for g in cards.gpus):
        return []
    return [cards.free_bytes(gpu) for gpu in cards.roomiest(number)]


def _held(seen: Seen, work: Workload, engine: str, spread: Spread) -> tuple[Need, ...]:
    """Weights, cache and states: what a card holds of the model, all of them with llama.cpp."""
    requests, parts = seen.serving.requests, spread.ranks * spread.stages
    times = f" x {count(requests, 'request')}" if requests > 1 else ""
    kind = cache_type(engine, seen.serving.kv_type)
    number = states(seen, work, engine)
    cached = (cache_bytes(seen, work, engine) or 0) * requests
    return (
        Need(what=WEIGHTS, bytes=weight_bytes(seen, work, engine) // parts),
        Need(what=DRAFT, bytes=(seen.serving.draft_bytes or 0) // parts),
        Need(
            what=f"{kind} cache of {context_tokens(seen):,} tokens{times}",
            bytes=cached // (cache_ranks(work, spread.ranks) * spread.stages),
        ),
        Need(
            what=count(number, "recurrent state"),
            bytes=number * state_bytes(work, engine) // parts,
        ),
    )


def cache_ranks(work: Workload, ranks: int) -> int:
    """Over how many ranks the cache is divided: a head at least each, a latent over none."""
    return 1 if is_latent(work) else min(ranks, work.kv_heads or ranks)


def _beside(
    seen: Seen, work: Workload, engine: str, spread: Spread, card_bytes: int
) -> tuple[Need, ...]:
    """What an engine takes beside the model, and what whole layers leave unused."""
    overhead = seen.policy.thresholds.vram_overhead_bytes
    whole = (spread.cards - 1) if engine == LLAMA_CPP else int(spread.stages > 1)
    rounding = Need(what=ROUNDING, bytes=whole * _largest_layer(work))
    if engine == LLAMA_CPP:
        return Need(
            what="compute buffers and CUDA context", bytes=spread.cards * overhead
        ), rounding
    if engine == VLLM:
        return Need(what=KEPT_FREE, bytes=overhead), rounding
    ranks = spread.ranks * spread.stages
    reserve = sglang.reserve_bytes(card_bytes, ranks, seen.serving.requests) if card_bytes else 0
    return (
        Need(what=KEPT_FREE, bytes=reserve),
        Need(what=CONTEXT, bytes=CUDA_CONTEXT_BYTES),
        rounding,
    )


def _largest_layer(work: Workload) -> int:
    """Bytes of the heaviest block, MTP modules left out."""
    if not work.layer_groups:
        return work.weight_bytes_shipped // (work.layers + 1)
    return max(
        sum(w.bytes for w in group.weights if w.kind is not Kind.MTP) for group in work.layer_groups
    )


def _note(cards: node.Cards) -> str | None:
    """What the room rests on."""
    if any(g.mig for g in cards.gpus):
        return "MIG: a job gets an instance, whose size is not the card's"
    if cards.share_memory:
        return "the GPU shares the system's memory"
    used = sum(g.memory_used_bytes or 0 for g in cards.gpus)
    return f"other programs use {gib(used)} of VRAM" if used > max(GIB, cards.idle_bytes) else None
