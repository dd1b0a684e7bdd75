"""What would move a strategy, and to where: the same arithmetic with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from nodecheck.checks.cpu import masking
from nodecheck.checks.cpu.masking import Cause, Diagnosis
from nodecheck.checks.cpu.witness import is_avx2_generation
from nodecheck.checks.seen import Facts, Seen
from nodecheck.judge import node
from nodecheck.judge.fits.host_room import in_ram
from nodecheck.judge.rates.weight_types import as_type, bits_per_weight
from nodecheck.judge.ways import offload, resident
from nodecheck.judge.ways.ranking import ranked
from nodecheck.model import Lever, Measurement, Strategy
from nodecheck.serving import Workload
from nodecheck.units import count, gib

Again = Callable[[Seen, Workload, node.Cards], "Strategy | None"]
"""The strategy anew."""

GAIN_MIN = 1.15
"""Times as fast in the middle of the range, from which a change is worth telling."""

TWICE = 2.0
"""What is told of a bandwidth: it scales."""

SMALLER_TYPES = ("f16", "q8_0", "q6_k", "q5_k", "q4_k")
"""Types to go down to, in the order of their size; below four bits answers get worse. Source:
llama.cpp, tools/quantize, perplexities by type."""

SMALLER_CHECKPOINTS = ("bf16", "fp8_e4m3", "int4_g128")
"""The same for checkpoints of transformers."""

CONVERTED_TYPE = "q8_0"
"""What a checkpoint is converted to for llama.cpp with next to nothing lost."""

STEP_BITS = 0.5
"""Bits a weight that a type must be smaller by."""

AVX2_FLAGS = frozenset({"ssse3", "avx", "avx2", "fma", "f16c"})


def with_levers(seen: Seen, work: Workload, cards: node.Cards, found: Strategy) -> Strategy:
    """The strategy with its levers, the largest first; one that has some keeps them."""
    make = _LEVERS.get(found.strategy)
    if found.levers or make is None:
        return found
    levers = sorted(make(seen, work, cards, found), key=lambda each: -(each.high or 0))
    return replace(found, levers=tuple(levers))


def _of_resident(seen: Seen, work: Workload, cards: node.Cards, found: Strategy) -> Iterator[Lever]:
    again: Again = resident.gpu_resident
    if found.limit == "VRAM size":
        yield _more_vram(seen, work, cards)
        yield from _smaller(seen, work, cards, found, again)
        return
    if found.high is None:
        return
    faster = again(seen, work, cards.times_as_fast(TWICE))
    yield from _gain(found, faster, "bandwidth", "VRAM of twice the rate")
    yield from _smaller(seen, work, cards, found, again)


def _of_parallel(_: Seen, __: Workload, ___: node.Cards, found: Strategy) -> Iterator[Lever]:
    change = "a link over which all-reduces cost next to nothing (NVLink, direct peer copies)"
    yield Lever(resource="link", change=change, high=found.high)


def _of_partial(seen: Seen, work: Workload, cards: node.Cards, found: Strategy) -> Iterator[Lever]:
    yield from _on_cpu(seen, work, cards, found, offload.partial_offload)
    yield from _all_in_vram(seen, work, cards)


def _of_experts(seen: Seen, work: Workload, cards: node.Cards, found: Strategy) -> Iterator[Lever]:
    yield from _on_cpu(seen, work, cards, found, offload.expert_offload)
    yield from _all_in_vram(seen, work, cards)


def _of_cpu_only(seen: Seen, work: Workload, cards: node.Cards, found: Strategy) -> Iterator[Lever]:
    def again(other: Seen, model: Workload, _: node.Cards) -> Strategy:
        return offload.cpu_only(other, model)

    yield from _on_cpu(seen, work, cards, found, again)


_LEVERS: dict[str, Callable[[Seen, Workload, node.Cards, Strategy], Iterator[Lever]]] = {
    "gpu-resident": _of_resident,
    "tensor-parallel": _of_parallel,
    "partial-offload": _of_partial,
    "expert-offload": _of_experts,
    "cpu-only": _of_cpu_only,
}


def _on_cpu(
    seen: Seen, work: Workload, cards: node.Cards, found: Strategy, again: Again
) -> Iterator[Lever]:
    """What moves weights on a CPU: RAM where that is short, else instructions, memory, type."""
    if found.limit == "RAM size":
        roomy = again(_without_ram_limit(seen), work, cards)
        need = gib(offload.ram_needed(in_ram(seen, work)))
        speed = (roomy.low, roomy.high) if roomy else (None, None)
        change = f"more free RAM: {need} hold all of it"
        yield Lever(resource="ram", change=change, low=speed[0], high=speed[1])
        return
    if found.high is None:
        yield from _converted(seen, work, cards, again)
        return
    yield from _instructions(seen, work, cards, found, again)
    read_alone, twice = _memory_anew(seen, 1.0), _memory_anew(seen, TWICE)
    before, after = again(read_alone, work, cards), again(twice, work, cards)
    if before and after and "DRAM" in found.limit:
        change = "twice the memory bandwidth (all channels filled, no neighbours that take it)"
        yield from _gain(found, _in_proportion(found, before, after), "bandwidth", change)
    yield from _other_type(seen, work, cards, found, again)


def _converted(seen: Seen, work: Workload, cards: node.Cards, again: Again) -> Iterator[Lever]:
    """A type whose rate is known, where that of the model's own is not."""
    if bits_per_weight(work.weight_type) is None and not work.parameters:
        return
    other = as_type(work, CONVERTED_TYPE)
    after = again(seen, other, cards) if other else None
    if after and after.high is not None:
        change = _said(other, work)
        yield Lever(resource="quantisation", change=change, low=after.low, high=after.high)


def _gain(found: Strategy, after: Strategy | None, resource: str, change: str) -> Iterator[Lever]:
    """A lever where the change is worth it."""
    if after is None or after.high is None or _middle(after) < GAIN_MIN * _middle(found):
        return
    yield Lever(resource=resource, change=change, low=after.low, high=after.high)


def _middle(found: Strategy) -> float:
    high = found.high or 0.0
    return ((high if found.low is None else found.low) + high) / 2


def _in_proportion(found: Strategy, before: Strategy, after: Strategy) -> Strategy:
    """What was found, moved as the same way of reckoning moves before and after."""

    def moved(value: float | None, old: float | None, new: float | None) -> float | None:
        return value * new / old if value and old and new else None

    return replace(
        found,
        low=moved(found.low, before.low, after.low),
        high=moved(found.high, before.high, after.high),
    )


def _memory_anew(seen: Seen, factor: float) -> Seen:
    """Memory that reads so many times as fast; what was measured with both in one is left out."""
    apart = (m for m in seen.measurements if not m.name.startswith("decode_dram_"))
    return replace(seen, measurements=tuple(_scaled(m, factor) for m in apart))


def _scaled(each: Measurement, factor: float) -> Measurement:
    if each.name != "dram_read":
        return each
    ends = {
        name: value * factor
        for name in ("median", "p10", "p90", "max")
        if (value := getattr(each, f"{name}_bytes_per_second")) is not None
    }
    return replace(each, **{f"{name}_bytes_per_second": value for name, value in ends.items()})


def _instructions(
    seen: Seen, work: Workload, cards: node.Cards, found: Strategy, again: Again
) -> Iterator[Lever]:
    """AVX2 where the silicon has it and something hides it; a word where it has not."""
    diagnosis = masking.diagnose(seen)
    if diagnosis is None:
        return
    silicon = diagnosis.silicon
    if diagnosis.cause is Cause.SILICON:
        if silicon and "avx2" not in silicon.features:
            change = f"none: {silicon.name} has {silicon.reach}"
            yield Lever(resource="instruction_set", change=change)
        return
    reached = frozenset(silicon.features if silicon else AVX2_FLAGS)
    after = again(_with_flags(seen, reached), work, cards)
    yield from _gain(found, after, "instruction_set", _unmask(seen, diagnosis))


def _with_flags(seen: Seen, flags: frozenset[str]) -> Seen:
    """The node with these instruction sets too: rates measured without them say nothing then."""
    have = tuple(sorted({*(seen.facts.cpu.usable_flags or ()), *flags}))
    cpu = replace(seen.facts.cpu, flags=have, usable_flags=have)
    kept = tuple(m for m in seen.measurements if not m.name.startswith("decode_"))
    return replace(seen, facts=replace(seen.facts, cpu=cpu), measurements=kept)


def _unmask(seen: Seen, diagnosis: Diagnosis) -> str:
    if not diagnosis.cause.masked:
        named = ", ".join(each.value for each in diagnosis.switches) or "XSAVE"
        return f"vector instructions switched on again ({named})"
    silicon = diagnosis.silicon
    sure = bool(silicon) or is_avx2_generation(seen.facts.cpu)
    return f"CPU type host{'' if sure else ', if the host has AVX2'}"


def _other_type(
    seen: Seen, work: Workload, cards: node.Cards, found: Strategy, again: Again
) -> Iterator[Lever]:
    """The next smaller type, or a larger one where this CPU decodes that faster."""
    now = _bits(work)
    if now is None:
        return
    larger = [each.weight_type for each in ranked(seen, work) if each.bits >= now + STEP_BITS]
    step = _next_smaller(work, SMALLER_TYPES)
    gains: list[Lever] = []
    for weight_type in (*larger, *([step] if step else [])):
        other = as_type(work, weight_type)
        after = again(seen, other, cards) if other else None
        gains += _gain(found, after, "quantisation", _said(other, work))
    yield from sorted(gains, key=lambda each: -(each.high or 0.0))[:1]


def _smaller(
    seen: Seen, work: Workload, cards: node.Cards, found: Strategy, again: Again
) -> Iterator[Lever]:
    """The next smaller type; where the model did not fit, the largest one that does."""
    in_checkpoints = work.format in ("safetensors", "config")
    types = SMALLER_CHECKPOINTS if in_checkpoints else SMALLER_TYPES
    first = _next_smaller(work, types)
    for weight_type in types[types.index(first) :] if first else ():
        other = as_type(work, weight_type)
        after = again(seen, other, cards) if other else None
        if after and after.high is not None:
            yield from _gain(found, after, "quantisation", _said(other, work))
            return


def _next_smaller(work: Workload, types: tuple[str, ...]) -> str | None:
    """The first of the types that is smaller than the model's own."""
    now = _bits(work)
    if now is None:
        return None
    return next((t for t in types if (bits_per_weight(t) or now) <= now - STEP_BITS), None)


def _bits(work: Workload) -> float | None:
    """Bits of a weight: of the type of most that is read, of the mean of all where that is less."""
    mean = 8 * work.weight_bytes_shipped / work.parameters if work.parameters else None
    known = [bits for bits in (bits_per_weight(work.weight_type), mean) if bits]
    return min(known, default=None)


def _said(other: Workload | None, work: Workload) -> str:
    if other is None:
        return ""
    return f"{other.weight_type} instead of {work.weight_type}, {gib(other.weight_bytes_shipped)}"


def _more_vram(seen: Seen, work: Workload, cards: node.Cards) -> Lever:
    """A card, or several, that hold the model, as fast as the fastest here."""
    fastest = max(cards.gpus, key=lambda gpu: gpu.vram_bytes_per_second or 0.0)
    need = resident.needed_vram_bytes(seen, work, max(cards.gpus, key=cards.free_bytes))
    name = (fastest.name or "the card").removeprefix("NVIDIA ")
    change = f"{gib(need)} of VRAM in all, as fast as {name}"
    rate = fastest.vram_bytes_per_second
    if rate is None:
        return Lever(resource="vram", change=change)
    after = resident.on_cards(seen, work, resident.Placement((fastest,), rate), cards)
    return Lever(resource="vram", change=change, low=after.low, high=after.high)


def _all_in_vram(seen: Seen, work: Workload, cards: node.Cards) -> Iterator[Lever]:
    """What the cards alone reach: no lever where that is not known."""
    whole = resident.gpu_resident(seen, work, cards)
    if whole.high is not None:
        number = count(work.layers, "layer")
        change = f"all of the {number} on the GPUs: they fit (-ngl {work.layers + 1})"
        yield Lever(resource="vram", change=change, low=whole.low, high=whole.high)
    elif whole.limit == "VRAM size":
        yield _more_vram(seen, work, cards)


def _without_ram_limit(seen: Seen) -> Seen:
    memory = replace(seen.facts.memory, available_bytes=None)
    facts: Facts = replace(seen.facts, memory=memory)
    return replace(seen, facts=facts)
