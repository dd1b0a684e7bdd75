"""llama-server on this node: which flags, and why.

Flags as in llama.cpp 0c1e57098, common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import figure
from nodecheck.judge.fits import fit, host_room, room
from nodecheck.judge.fits.room import LLAMA_CPP
from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.reads import Reads, Share, context_tokens, reads
from nodecheck.judge.ways import load, offload
from nodecheck.judge.ways.offload import Cut
from nodecheck.judge.ways.resident import place_of
from nodecheck.judge.ways.speculative import drafts_of
from nodecheck.serving import Flag, Kind, Workload
from nodecheck.units import GB, count, gib

PROGRAM, MODEL, DRAFT = "llama-server", "MODEL.gguf", "DRAFT.gguf"

RISK_OF_MTP = (
    "MTP with several slots: answers with text of other requests, llama.cpp#28286 (open, 2026-09)"
)

CACHE_IN_RAM = ("partial-offload", "cpu-only")
"""Ways that leave attention to the CPU, and the cache beside it."""

ON_CPU = (*CACHE_IN_RAM, "expert-offload")
"""Ways that leave weights to the CPU."""


def flags(seen: Seen, work: Workload, way: str, *, guess: bool) -> Iterator[Flag]:
    """The flags beside the model's path, for the way of serving that was chosen."""
    cards = node.cards(seen)
    yield from _layers(seen, work, cards, way)
    yield from _context(seen)
    yield from _cache_type(seen, way)
    yield from _threads(seen, way)
    yield from _loading(seen, work, way)
    yield from _prompts(seen, work, way)
    if guess:
        yield from _guessing(seen, work)


def _layers(seen: Seen, work: Workload, cards: node.Cards, way: str) -> Iterator[Flag]:
    if not cards.gpus:
        return
    everything = f"-ngl {work.layers + 1}"
    if way == "gpu-resident":
        why = f"all {count(work.layers, 'layer')} and the output layer; a larger value adds none"
        yield Flag(flag=everything, why=why)
        yield from _one_card(seen, work, cards)
    elif way == "expert-offload":
        yield Flag(flag=everything, why="all layers on the GPU but the experts named below")
        parts = reads(seen, work)
        cut = fit.first_that_fits(seen, parts, offload.expert_cuts(parts), cards)
        if cut is not None:
            why = f"experts of {count(cut.cpu_layers, 'layer')} on the CPU, as VRAM holds no more"
            yield Flag(flag=fit.flag_of(cut), why=why)
            yield from _shares(seen, parts, cut, cards)
    elif way == "partial-offload":
        ngl = fit.largest_ngl(seen, work, cards)
        left = count(offload.cpu_layers(work, ngl), "layer")
        yield Flag(flag=f"-ngl {ngl}", why=f"the most that VRAM holds; leaves {left} on the CPU")
    else:
        yield Flag(flag="-ngl 0", why="no layer on the GPU")


def _shares(seen: Seen, parts: Reads, cut: Cut, cards: node.Cards) -> Iterator[Flag]:
    """Unasked each card takes layers by its free VRAM, whether they hold their experts or not."""
    if len(cards.gpus) == 1 or not cut.cpu_layers:
        return
    overhead = seen.policy.thresholds.vram_overhead_bytes
    kept = int(cut.setting.split()[1])
    layers = [*parts.blocks[:kept], *parts.both[kept:], parts.output]
    sizes = [layer.room_bytes for layer in layers]
    free = [max(0, cards.free_bytes(gpu) - overhead) for gpu in cards.gpus]
    shares = ",".join(map(str, layers_by_card(sizes, free)))
    why = "layers of each card, by what they weigh there: unasked the last cards get all experts"
    yield Flag(flag=f"-ts {shares}", why=why)


def layers_by_card(sizes: Sequence[float], free: Sequence[float]) -> list[int]:
    """How many layers of these sizes, in their order, fill cards of so much room alike."""
    whole, room = sum(sizes), sum(free)
    ends = list(accumulate(each * whole / room for each in free)) if room else []
    counts, card, filled = [0] * len(free), 0, 0.0
    for size in sizes:
        while card < len(ends) - 1 and filled + size / 2 > ends[card]:
            card += 1
        counts[card] += 1
        filled += size
    return counts


def _one_card(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Flag]:
    """Unasked it spreads layers over all cards."""
    found = room.demand(seen, work, LLAMA_CPP, cards)
    if found is None or found.cards > 1 or len(cards.gpus) == 1 or found.fits is not True:
        return
    if work.kv_bytes_per_token is None:  # and what it takes is not in the demand
        return
    yield Flag(flag="-sm none", why="one card holds it: no hand-over, and the others stay free")
    place = place_of(seen, work, cards)
    number = cards.gpus.index(place.gpus[0]) if place else 0
    if number:
        yield Flag(flag=f"-mg {number}", why="of the cards that it sees, the fastest with room")


def _context(seen: Seen) -> Iterator[Flag]:
    context, requests = context_tokens(seen), seen.serving.requests
    each = f" for each of {requests} requests" if requests > 1 else ""
    yield Flag(flag=f"-c {context * requests}", why=f"{context:,} tokens{each}")
    yield Flag(flag=f"-np {requests}", why=f"{count(requests, 'slot')}; unasked it makes 4")


def _cache_type(seen: Seen, way: str) -> Iterator[Flag]:
    """The type asked for; else q8_0 where the CPU has no instruction for f16."""
    kind = room.cache_type(LLAMA_CPP, seen.serving.kv_type)
    if kind != "f16":
        yield Flag(flag=f"-ctk {kind} -ctv {kind}", why=f"a {kind} cache, as asked")
        return
    level = ceilings.engine_level(seen.facts.cpu.usable_flags or seen.facts.cpu.flags or ())
    if way not in CACHE_IN_RAM or level in (None, "AVX2"):
        return
    f16, q8 = (ceilings.core_rate(level or "", each) for each in ("f16", "q8_0"))
    if f16 and q8:
        why = (
            f"without F16C a core reads an f16 cache at {figure(f16.high / GB)} GB/s, "
            f"q8_0 at {figure(q8.floor / GB)} (reference)"
        )
        yield Flag(flag="-ctk q8_0 -ctv q8_0", why=why)


def _threads(seen: Seen, way: str) -> Iterator[Flag]:
    """Cores that it may use: it counts the machine's, whatever a cgroup's quota leaves."""
    cores, budget = node.cores(seen), seen.facts.limits.thread_budget
    bounded = budget is not None and budget < (seen.facts.cpu.logical_cpus or budget)
    if cores is None or not (way in ON_CPU or bounded):
        return
    number = int(cores.high)
    why = (
        f"the CPU quota's {count(number, 'CPU')}: it counts the machine's"
        if bounded
        else (
            "physical cores"
            if cores.floor == cores.high
            else "vCPUs; try half, if they are siblings"
        )
    )
    yield Flag(flag=f"-t {number}", why=why)


def _loading(seen: Seen, work: Workload, way: str) -> Iterator[Flag]:
    kind = load.slow_to_map(seen, work)
    if kind is not None:
        why = f"{kind}: mapped pages come one by one (older builds: --no-mmap)"
        yield Flag(flag=load.WITHOUT_MAPPING[LLAMA_CPP], why=why)
    elif way in ON_CPU and _may_lock(seen, _in_ram(seen, work, way)):
        yield Flag(flag="--load-mode mmap+mlock", why="there is swap: weights stay in RAM")


def _may_lock(seen: Seen, part: Share) -> bool:
    """Whether there is swap to keep weights from, and the limit on locked memory allows it."""
    limits, memory = seen.facts.limits, seen.facts.memory
    if not memory.swap_total_bytes or limits.nofile is None:
        return False
    return limits.memlock_bytes is None or limits.memlock_bytes >= part.stored_bytes


def _in_ram(seen: Seen, work: Workload, way: str) -> Share:
    """What lies on the CPU with the way chosen."""
    parts, cards = reads(seen, work), node.cards(seen)
    cuts = {"partial-offload": offload.ngl_cuts, "expert-offload": offload.expert_cuts}
    cut = fit.first_that_fits(seen, parts, cuts[way](parts), cards) if way in cuts else None
    if cut is not None:
        return cut.on_cpu
    return parts.embedding if way == "gpu-resident" else host_room.in_ram(seen, work)


def _prompts(seen: Seen, work: Workload, way: str) -> Iterator[Flag]:
    part = _in_ram(seen, work, way)
    needs = host_room.cpu_needs(seen, work, part, repacks=False)
    if not host_room.room_for_prompts(seen, sum(need.bytes for need in needs)):
        most = gib(host_room.PROMPT_CACHE_BYTES)
        why = f"no cache of prompts: unasked it grows to {most} of RAM, which is not free"
        yield Flag(flag="--cache-ram 0", why=why)


def _guessing(seen: Seen, work: Workload) -> Iterator[Flag]:
    drafts = drafts_of(seen)
    if seen.serving.draft_bytes:
        yield Flag(flag=f"--spec-draft-model {DRAFT}", why="the draft model")
    elif room.kind_bytes(work, Kind.MTP):
        yield Flag(flag="--spec-type draft-mtp", why="guesses ahead with the model's MTP block")
    yield Flag(flag=f"--spec-draft-n-max {drafts}", why=f"{count(drafts, 'token')} ahead")


def risks(seen: Seen, work: Workload, *, guess: bool) -> Iterator[str]:
    """What is reported to go wrong with these flags, dated."""
    mtp = room.kind_bytes(work, Kind.MTP) and not seen.serving.draft_bytes
    if guess and mtp and seen.serving.requests > 1:
        yield RISK_OF_MTP
