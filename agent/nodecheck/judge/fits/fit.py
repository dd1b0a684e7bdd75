"""Whether each way to serve a model has the room that it needs, and what would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.fits import host_fit, host_room, room
from nodecheck.judge.fits.room import LLAMA_CPP, Demand
from nodecheck.judge.rates.reads import Reads, context_tokens, reads
from nodecheck.judge.ways import offload
from nodecheck.judge.ways.offload import Cut
from nodecheck.judge.ways.speculative import drafts_of
from nodecheck.serving import Fit, Kind, Serving, Workload
from nodecheck.units import count, gib

CONTEXT_MOST = 1 << 20
"""The longest context that is looked for, where a model names none."""

REQUESTS_MOST = 1024

CACHE_UNKNOWN = "bytes of cache a token are not known"


def fits(seen: Seen, work: Workload) -> tuple[Fit, ...]:
    """Every room that some way to serve the model needs on this node."""
    return tuple(_every(room.within_model(seen, work), work))


def _every(seen: Seen, work: Workload) -> Iterator[Fit]:
    cards = node.cards(seen)
    plain = without_guessing(seen)
    whole = [found for engine in room.engines_for(work) if (found := _vram(plain, work, engine))]
    yield from whole
    yield from _guessing(seen, work)
    reads_gguf = LLAMA_CPP in room.engines_for(work)
    if reads_gguf and cards.gpus and not any(each.fits for each in whole):
        yield from _split(seen, work, cards)
    if reads_gguf and seen.facts.cpu.arch is not None:
        yield host_fit.cpu_only(seen, work)
    if cards.gpus:
        yield from host_fit.host_pool(seen, work, cards)
    yield from host_fit.disk(seen, work)


def without_guessing(seen: Seen) -> Seen:
    """The same with neither an MTP module nor a draft model in use."""
    return replace(seen, serving=replace(seen.serving, draft_tokens=None, draft_bytes=None))


def _vram(seen: Seen, work: Workload, engine: str) -> Fit | None:
    found = room.demand(seen, work, engine, node.cards(seen))
    if found is None:
        return None
    strategy = "tensor-parallel" if found.ranks > 1 else "gpu-resident"
    return _from_demand(seen, work, found, strategy)


def _from_demand(seen: Seen, work: Workload, found: Demand, strategy: str) -> Fit:
    unknown_cache = room.cache_bytes(seen, work, found.engine) is None
    enough = None if unknown_cache and found.fits else found.fits
    return Fit(
        strategy=strategy,
        engine=found.engine,
        room=found.room,
        needs=found.needs,
        needed_bytes=found.needed_bytes,
        available_bytes=found.free_bytes,
        fits=enough,
        basis=_vram_basis(found, unknown_cache=unknown_cache),
        advice=vram_advice(seen, work, found) if found.fits is False else None,
    )


def _vram_basis(found: Demand, *, unknown_cache: bool) -> str:
    parts = [_spread(found), "every request at its full context", found.note]
    parts += [CACHE_UNKNOWN] if unknown_cache else []
    return "; ".join(part for part in parts if part)


def _spread(found: Demand) -> str:
    if found.ranks > 1:
        return f"tensor parallel on {found.ranks} cards"
    if found.stages > 1:
        return f"pipeline parallel on {found.stages} cards"
    return "one card" if found.cards == 1 else f"layers over {found.cards} cards"


def vram_advice(seen: Seen, work: Workload, found: Demand) -> str:
    """What to lower, and to where, for the engine to have the room; else how much is missing."""
    short = f"{gib(found.needed_bytes - (found.free_bytes or 0))} too much"
    ways = [way for way in _ways_to_fit(seen, work, found.engine) if way]
    return f"{short}: {', or '.join(ways)}" if ways else f"{short}: no setting makes it fit"


def _ways_to_fit(seen: Seen, work: Workload, engine: str) -> Iterator[str | None]:
    serving = seen.serving

    def enough(other: Serving) -> bool:
        return has_room(replace(seen, serving=other), work, engine)

    if serving.draft_tokens and enough(replace(serving, draft_tokens=None, draft_bytes=None)):
        yield "no guessing ahead"
    if serving.requests > 1 and (fewer := largest_requests(seen, work, engine)):
        yield f"{count(fewer, 'request')} at once instead of {serving.requests}"
    shorter = largest_context(seen, work, engine)
    if shorter and shorter < context_tokens(seen):
        yield f"a context of {shorter:,} tokens"
    smaller = "q8_0" if engine == LLAMA_CPP else "fp8"
    if serving.kv_type in ("bf16", "f16") and enough(replace(serving, kv_type=smaller)):
        yield f"a cache of {smaller}"
    if engine == LLAMA_CPP:
        yield _with_the_cpu(seen, work)


def _with_the_cpu(seen: Seen, work: Workload) -> str | None:
    """What to leave to the CPU, if RAM holds it: experts where there are some, else layers."""
    parts, cards = reads(seen, work), node.cards(seen)
    for cuts, what in ((offload.expert_cuts(parts), "experts of "), (offload.ngl_cuts(parts), "")):
        cut = first_that_fits(seen, parts, cuts, cards) if len(cuts) > 1 else None
        if cut is None or not (cut.cpu_layers and cut.gpu_blocks):
            continue
        if not offload.ram_shortage(seen, cut.on_cpu):
            left = count(cut.cpu_layers, "layer")
            return f"{flag_of(cut)}, which leaves {what}{left} on the CPU"
    return None


def has_room(seen: Seen, work: Workload, engine: str) -> bool:
    """Whether the engine has the room on this node's cards, or without any in RAM."""
    found = room.demand(seen, work, engine, node.cards(seen))
    if found is not None:
        return found.fits is True
    return host_fit.cpu_only(seen, work).fits is True


def largest_context(seen: Seen, work: Workload, engine: str | None = None) -> int | None:
    """Tokens of the longest context, in steps of 256, that fits with the requests in question.

    No longer than the model's own; None where its cache is not known, or where none fits.
    """
    if work.kv_bytes_per_token is None:
        return None
    first = engine or room.engines_for(work)[0]
    most = (work.context_length or CONTEXT_MOST) // room.CONTEXT_STEP

    def enough(steps: int) -> bool:
        serving = replace(seen.serving, context_tokens=steps * room.CONTEXT_STEP)
        return has_room(replace(seen, serving=serving), work, first)

    steps = _largest(most, enough)
    return steps * room.CONTEXT_STEP if steps else None


def largest_requests(seen: Seen, work: Workload, engine: str | None = None) -> int | None:
    """Requests of the context in question that fit at once; None where not one does."""
    first = engine or room.engines_for(work)[0]

    def enough(number: int) -> bool:
        serving = replace(seen.serving, requests=number)
        return has_room(replace(seen, serving=serving), work, first)

    return _largest(REQUESTS_MOST, enough) or None


def _largest(most: int, enough: Callable[[int], bool]) -> int:
    """The largest number up to `most` that is enough, 0 where none is; more takes more room."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if enough(middle) else (low, middle - 1)
    return low


def largest_ngl(seen: Seen, work: Workload, cards: node.Cards) -> int:
    """The largest -ngl for which the cards hold what it puts there; 0 where they hold nothing.

    llama.cpp counts the output layer: one more than the layers puts all of them there.
    """
    parts = reads(seen, work)
    cut = first_that_fits(seen, parts, offload.ngl_cuts(parts), cards)
    return 0 if cut is None else work.layers + 1 - cut.cpu_layers


def first_that_fits(seen: Seen, parts: Reads, cuts: list[Cut], cards: node.Cards) -> Cut | None:
    """The one that leaves least on the CPU."""
    free = offload.free_for_layers(seen, parts, cards)
    return next((cut for cut in cuts if cut.on_gpu.room_bytes <= free), None)


def _split(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Fit]:
    """Host RAM for what VRAM does not hold: layers, or experts."""
    parts = reads(seen, work)
    for strategy, cuts in (
        ("partial-offload", offload.ngl_cuts(parts)),
        ("expert-offload", offload.expert_cuts(parts)),
    ):
        cut = first_that_fits(seen, parts, cuts, cards) if len(cuts) > 1 else None
        if cut is not None:
            needs = host_room.cpu_needs(seen, work, cut.on_cpu, repacks=False)
            yield host_fit.ram(seen, strategy, needs, f"{flag_of(cut)}, the most that VRAM holds")


def flag_of(cut: Cut) -> str:
    """A setting as llama.cpp takes it."""
    name, _, value = cut.setting.partition(" ")
    return f"--n-cpu-moe {value}" if name == "ncmoe" else f"-{name} {value}"


def _guessing(seen: Seen, work: Workload) -> Iterator[Fit]:
    """VRAM with MTP or a draft model: what it adds is told where the model alone has the room."""
    if not (room.kind_bytes(work, Kind.MTP) or seen.serving.draft_bytes):
        return
    guessing = replace(seen, serving=replace(seen.serving, draft_tokens=drafts_of(seen)))
    for engine in room.engines_for(work):
        found = room.demand(guessing, work, engine, node.cards(seen))
        if found is not None:
            yield _from_demand(guessing, work, found, "speculative")
