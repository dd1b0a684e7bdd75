"""A model that lies in VRAM altogether: on one card, in layers over several, or cut across them."""

from __future__ import annotations

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between
from nodecheck.judge.fits.room import (
    LLAMA_CPP,
    VLLM,
    VLLM_UTILISATION,
    Demand,
    demand,
    engines_for,
)
from nodecheck.judge.peers import between as between_cards
from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.rates.gpu_stage import gpu_limit, gpu_seconds, starts
from nodecheck.judge.rates.reads import NOTHING_READ, context_tokens, reads
from nodecheck.judge.ways.answers import (
    SHARED_MEMORY,
    TOKENS,
    refused,
    speed_viability,
    unknown,
)
from nodecheck.model import Strategy, Struct, Viability
from nodecheck.serving import Workload
from nodecheck.units import GB, count, gib

ALL_REDUCES = 2
"""Of each block in tensor parallel: behind attention and behind the feed-forward part. Source:
Megatron-LM's split, which vLLM and SGLang follow."""

ACTIVATION_BYTES = 2
"""Of one element that an all-reduce sums: bf16."""


class Placement(Struct, frozen=True):
    """The cards that hold a model, and the bytes a second at which a token passes them all."""

    gpus: tuple[Gpu, ...]
    rate: float | None

    @property
    def has_mig(self) -> bool:
        """Whether one of them is cut up, so that its rate as a whole says nothing."""
        return any(gpu.mig for gpu in self.gpus)


def needed_vram_bytes(seen: Seen, work: Workload, gpu: Gpu) -> int:
    """The smallest card that one of the engines that read the model holds all of it on."""
    return min(map(_card_bytes, _demands(seen, work, _alone(seen, gpu))))


def _card_bytes(found: Demand) -> int:
    share = VLLM_UTILISATION if found.engine == VLLM else 1.0
    return round(found.needed_bytes / share)


def _alone(seen: Seen, gpu: Gpu) -> node.Cards:
    return node.Cards((gpu,), seen.policy.thresholds.gpu_memory_idle_bytes)


def _demands(seen: Seen, work: Workload, cards: node.Cards) -> list[Demand]:
    every = (demand(seen, work, engine, cards) for engine in engines_for(work))
    return [each for each in every if each]


def _holds(seen: Seen, work: Workload, gpu: Gpu) -> bool:
    """Whether a card has the room; one that MIG cuts up counts as a whole."""
    if gpu.mig:
        return needed_vram_bytes(seen, work, gpu) <= (gpu.memory_bytes or 0)
    return any(each.fits for each in _demands(seen, work, _alone(seen, gpu)))


def place_of(seen: Seen, work: Workload, cards: node.Cards) -> Placement | None:
    """The fastest card that has room for a model, else the roomiest few; None if none have."""
    holders = [gpu for gpu in cards.gpus if _holds(seen, work, gpu)]
    if holders:
        best = max(holders, key=_known_rate)
        return Placement((best,), _rate(seen, (best,)))
    if any(gpu.mig for gpu in cards.gpus):
        roomiest = max(cards.gpus, key=cards.free_bytes)
        return _spread(seen, needed_vram_bytes(seen, work, roomiest), cards)
    enough = [each.cards for each in _demands(seen, work, cards) if each.fits]
    if not enough:
        return None
    few = cards.roomiest(min(enough))
    return Placement(few, _rate(seen, few))


def placement(seen: Seen, need: int, cards: node.Cards) -> Placement | None:
    """The fastest card that has `need` bytes free, else the roomiest few; None if none have.

    `need` holds an engine's overhead on one card; each further card takes it too.
    """
    holders = [gpu for gpu in cards.gpus if cards.free_bytes(gpu) >= need]
    if holders:
        best = max(holders, key=_known_rate)
        return Placement((best,), _rate(seen, (best,)))
    return _spread(seen, need, cards)


def _spread(seen: Seen, need: int, cards: node.Cards) -> Placement | None:
    """The roomiest few that hold layers of a model, more than one."""
    taken: list[Gpu] = []
    overhead = seen.policy.thresholds.vram_overhead_bytes
    for gpu in sorted(cards.gpus, key=cards.free_bytes, reverse=True):
        taken.append(gpu)
        whole = sum(map(cards.free_bytes, taken)) - overhead * (len(taken) - 1)
        if len(taken) > 1 and whole >= need:
            return Placement(tuple(taken), _rate(seen, tuple(taken)))
    return None


def _rate(seen: Seen, gpus: tuple[Gpu, ...]) -> float | None:
    return node.Cards(gpus, seen.policy.thresholds.gpu_memory_idle_bytes).split_rate


def _known_rate(gpu: Gpu) -> float:
    return 0.0 if gpu.mig else gpu.vram_bytes_per_second or 0.0


def gpu_resident(seen: Seen, work: Workload, cards: node.Cards) -> Strategy:
    """All of the model in VRAM: held by what a token reads over the cards' rate."""
    if cards.share_memory:
        return unknown("gpu-resident", SHARED_MEMORY)
    if not reads(seen, work).whole.weight_bytes.high:
        return unknown("gpu-resident", NOTHING_READ)
    place = place_of(seen, work, cards)
    if place is None:
        why = "; ".join((_too_little(seen, work, cards), *_in_llama_cpp(seen, work, cards)))
        return refused("gpu-resident", "VRAM size", why)
    if place.rate is None:
        why = "MIG: a job gets an instance" if place.has_mig else "its VRAM rate is not known"
        held = "the card as a whole" if len(place.gpus) == 1 else "the cards as a whole"
        return unknown("gpu-resident", f"{why}; {held} could hold the model")
    return on_cards(seen, work, place, cards)


def on_cards(seen: Seen, work: Workload, place: Placement, cards: node.Cards) -> Strategy:
    """What a model reaches on the cards that hold it, whose rate is known."""
    part = reads(seen, work).whole
    rate = place.rate or 0.0
    speed = ceilings.tokens_per_second(gpu_seconds(part, rate, work.layers))
    return Strategy(
        strategy="gpu-resident",
        viability=speed_viability(seen, speed),
        limit=gpu_limit(part, rate, work.layers),
        low=speed.low,
        high=speed.high,
        unit=TOKENS,
        basis=_basis(seen, work, place, cards) + _each(seen.serving.requests, speed),
    )


def _too_little(seen: Seen, work: Workload, cards: node.Cards) -> str:
    """What the engine lacks that lacks least."""
    found = min(
        _demands(seen, work, cards), key=lambda each: each.needed_bytes - (each.free_bytes or 0)
    )
    if found.engine == LLAMA_CPP or found.free_bytes is None:
        return f"{gib(found.needed_bytes)} needed, {_free(cards)}"
    each = f" on each of {count(found.cards, 'card')}" if found.cards > 1 else ""
    there = f"{gib(found.free_bytes)} there for it"
    return f"{found.engine} needs {gib(found.needed_bytes)}{each}, {there}"


def _in_llama_cpp(seen: Seen, work: Workload, cards: node.Cards) -> list[str]:
    """What is said where it alone has the room, and does not read the model in its form."""
    if LLAMA_CPP in engines_for(work):
        return []
    found = demand(seen, work, LLAMA_CPP, cards)
    return ["llama.cpp would hold it, as a GGUF file of this size"] if found and found.fits else []


def _free(cards: node.Cards) -> str:
    """The VRAM that there is, and of it what is free where other programs use some."""
    number = count(len(cards.gpus), "card")
    if cards.all_free_bytes == cards.total_bytes:
        return f"{gib(cards.total_bytes)} of VRAM on {number}"
    return f"{gib(cards.all_free_bytes)} of {gib(cards.total_bytes)} of VRAM free on {number}"


def _basis(seen: Seen, work: Workload, place: Placement, cards: node.Cards) -> str:
    part, vram = reads(seen, work).whole, place.rate or 0.0
    low, high = ceilings.VRAM_EFFICIENCY
    least, most = part.bytes.floor / GB, part.bytes.high / GB
    ends = dict.fromkeys((f"{least:.1f}", f"{most:.1f}"))
    context = f", context 0-{context_tokens(seen):,}" if part.cache_bytes else ""
    if work.kv_bytes_per_token is None:
        context = ", the cache not known and not counted"
    starting = starts(part, vram, work.layers)
    read = f"{low:.1f}-{high:.1f} x {vram / GB:.0f} / {'-'.join(ends)} GB{starting}{context}"
    return read + _where(place, cards)


def _each(requests: int, speed: Range) -> str:
    """What all requests get together, where there are several."""
    if requests == 1:
        return ""
    every = between(requests * speed.floor, requests * speed.high)
    return f"; each of {requests} requests, {every} together"


def _where(place: Placement, cards: node.Cards) -> str:
    number = len(place.gpus)
    if number > 1:
        return f", layers split over {count(number, 'card')}"
    mixed = len({gpu.name for gpu in cards.gpus}) > 1
    return f", on one {(place.gpus[0].name or 'card').removeprefix('NVIDIA ')}" if mixed else ""


def tensor_parallel(seen: Seen, work: Workload, cards: node.Cards) -> Strategy | None:
    """Every layer cut across the cards: a ceiling alone, since no all-reduce is measured.

    None where there is one card, or where its parts do not fit.
    """
    rate, number = cards.slowest_rate, parallel_cards(work, len(cards.gpus))
    part = reads(seen, work).whole
    if number < 2 or rate is None or not part.weight_bytes.high:
        return None
    overhead = seen.policy.thresholds.vram_overhead_bytes
    smallest = sorted(map(cards.free_bytes, cards.gpus), reverse=True)[number - 1]
    if part.room_bytes / number + overhead > smallest:
        return None
    alone = gpu_seconds(part, rate, work.layers).floor
    way = between_cards(seen, cards)
    link = way.bytes_per_second
    together = alone / number + (_sent_seconds(work, number, link) if link else 0.0)
    return Strategy(
        strategy="tensor-parallel",
        viability=Viability.UNKNOWN,
        limit="link between the cards" + ("" if way.measured else ", not measured"),
        high=1 / together,
        unit=TOKENS,
        basis=f"ceiling: {number} x {rate / GB:.0f} GB/s{_of(work, number, len(cards.gpus))}; "
        f"{_break_even(work, alone, together)}; {way.words}",
    )


def parallel_cards(work: Workload, cards: int) -> int:
    """Cards that a model can be cut across: its KV heads divide by them, or they by its heads.

    Source: vLLM and SGLang, which copy heads where there are fewer than cards: twice, four times
    and so on, as the query heads must divide too. All of them where the heads are not known.
    """
    heads = work.kv_heads
    if not heads:
        return cards
    copies = {heads << power for power in range(cards.bit_length())}
    return max((n for n in range(1, cards + 1) if heads % n == 0 or n in copies), default=1)


def all_reduces(work: Workload) -> int:
    """Sums over all cards that one token waits for."""
    return ALL_REDUCES * max(1, work.layers - work.mtp_layers)


def _sent_seconds(work: Workload, number: int, link: float) -> float:
    """The least that the sums take: a ring's bytes over the encoded rate, no waiting in it."""
    size = (work.hidden_size or 0) * ACTIVATION_BYTES
    return all_reduces(work) * 2 * (number - 1) / number * size / link


def _of(work: Workload, number: int, cards: int) -> str:
    return "" if number == cards else f" ({work.kv_heads} KV heads, so {number} of {cards} cards)"


def _break_even(work: Workload, alone: float, together: float) -> str:
    """How long a sum may take before one card, or layers split over them, is as fast."""
    sums = all_reduces(work)
    most = 1e6 * (alone - together) / sums
    return f"pays while each of {sums} all-reduces a token takes under {most:.0f} us"
