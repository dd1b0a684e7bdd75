"""What a plan comes to, and what its model is, in words: the same at a terminal and in a page."""

from __future__ import annotations

from collections import Counter

from nodecheck.judge.fits.room import LLAMA_CPP, engines_for
from nodecheck.judge.strategies import ADDED, best
from nodecheck.judge.verdict import rate
from nodecheck.judge.ways.load import NAME as MODEL_LOAD
from nodecheck.judge.ways.load import holes
from nodecheck.model import Strategy, Viability
from nodecheck.plan import Plan
from nodecheck.serving import CacheBytes, Kind, Layers, Weights, Workload
from nodecheck.units import GB, count, gib, percent
from nodecheck.workload.cache import whole_context_bytes

TOKENS = "tok/s"

WAYS = {
    "gpu-resident": "All of it on the GPU",
    "tensor-parallel": "Split over the cards",
    "partial-offload": "Some layers on the CPU",
    "expert-offload": "Experts on the CPU",
    "kv-on-host": "Weights on the GPU and the cache in RAM",
    "cpu-only": "The CPU alone",
}
"""Strategy -> how a sentence begins that tells of it."""

ON_CPU = ("cpu-only", "partial-offload")
LLAMA_CPP_ALONE = (*ON_CPU, "expert-offload", "kv-on-host")
"""Ways that the other engines have not."""

TYPES_TOLD = 3

FORMATS = {"gguf": "GGUF", "config": "config.json"}
"""How a format is written; others as they are."""

Told = tuple[str, tuple[str, ...]]
"""A label and what is told of it."""


def headline(plan: Plan) -> tuple[Viability, str]:
    """Whether the model can be served here, and how, or why not."""
    first = best(plan.strategies)
    if first is None:
        return _without_a_rate(plan)
    way = WAYS.get(first.strategy, first.strategy)
    requests = plan.serving.requests
    each = f" to each of {requests} requests" if requests > 1 else ""
    speed = f"{rate(first)}{each}, limited by {first.limit}"
    if first.viability is Viability.NOT_VIABLE and (unknown := _unknown(plan)):
        why = f"{unknown.strategy}: {unknown.basis}"
        return Viability.UNKNOWN, f"Whether it runs well is not known ({why}). {way} gives {speed}."
    said = {
        Viability.VIABLE: f"{way} ({first.strategy}) gives {speed}.",
        Viability.MARGINAL: f"{way} ({first.strategy}) gives {speed}.",
        Viability.UNKNOWN: f"Whether it runs well is not known: {first.strategy} gives "
        f"{rate(first)} ({first.limit}).",
        Viability.NOT_VIABLE: f"No way to serve it here is viable: the fastest, {first.strategy}, "
        f"gives {speed}.",
    }[first.viability]
    after = (*_refused(plan, first), *_converted(plan, first), *_avoid(plan, first))
    return first.viability, " ".join([said, *after])


def _unknown(plan: Plan) -> Strategy | None:
    """A way of which nothing could be told, as where a driver does not answer."""
    ways = (s for s in plan.strategies if s.unit == TOKENS and s.strategy not in ADDED)
    return next((s for s in ways if s.viability is Viability.UNKNOWN and s.high is None), None)


def _without_a_rate(plan: Plan) -> tuple[Viability, str]:
    """No rate of any way is known: all are refused, or it cannot be told."""
    ways = [s for s in plan.strategies if s.unit == TOKENS]
    if ways and all(s.viability is Viability.NOT_VIABLE for s in ways):
        whys = "; ".join(f"{s.strategy}: {s.basis}" for s in ways)
        return Viability.NOT_VIABLE, f"No way to serve it here is viable ({whys})."
    unknown = next((s for s in ways if s.viability is Viability.UNKNOWN), None)
    why = f"{unknown.strategy}: {unknown.basis}" if unknown else "neither a CPU nor a GPU was read"
    said = f"Whether it runs well here is not known ({why})."
    return Viability.UNKNOWN, " ".join([said, *_refused(plan, unknown)])


def _refused(plan: Plan, first: Strategy | None) -> list[str]:
    """Why it is not the GPU alone."""
    for strategy in plan.strategies:
        if strategy.strategy == "gpu-resident" and strategy is not first and strategy.high is None:
            word = {Viability.NOT_VIABLE: "does not fit the GPU whole"}.get(strategy.viability)
            return [f"It {word}: {strategy.basis}."] if word else []
    return []


def _converted(plan: Plan, first: Strategy) -> list[str]:
    """Only llama.cpp serves so, which does not read the model in its form."""
    if first.strategy not in LLAMA_CPP_ALONE or LLAMA_CPP in engines_for(plan.workload):
        return []
    rooms = (f for f in plan.fits if (f.strategy, f.engine) == (MODEL_LOAD, LLAMA_CPP))
    short = any(fit.fits is False for fit in rooms)
    room = ", to make which the disk has no room" if short else ""
    return [f"That is llama.cpp's way, with a GGUF file of this size{room}."]


def _avoid(plan: Plan, first: Strategy) -> list[str]:
    """What an operator should keep from, where the best way has no weights on the CPU."""
    if first.strategy in (*ON_CPU, "expert-offload") or first.viability is Viability.NOT_VIABLE:
        return []
    for strategy in plan.strategies:
        if strategy.strategy == "cpu-only" and strategy.viability is Viability.NOT_VIABLE:
            if strategy.high is None:
                return []
            return [f"Keep its weights off the CPU: {rate(strategy)} there ({strategy.limit})."]
    return []


def model(plan: Plan) -> list[Told]:
    """What the model is: its size, its layers, what a token and what a request take."""
    work = plan.workload
    layers = [item for item in _layers(work) if item]
    alone = len(layers) == 1
    told = (
        ("", [*_size(work), *(layers if alone else [])]),
        ("layers", [] if alone else layers),
        ("a token", _token(plan)),
        ("a request", _request(plan)),
        ("its file", _file(work)),
    )
    return [(label, tuple(filter(None, items))) for label, items in told if any(items)]


def _size(work: Workload) -> list[str | None]:
    made = (
        f"{work.architecture}, {FORMATS.get(work.format, work.format)}"
        if work.architecture
        else None
    )
    parameters = f"{billions(work.parameters)} parameters" if work.parameters else None
    return [work.name, made, parameters, f"{gib(work.weight_bytes_shipped)}, {types(work)}"]


def billions(parameters: int) -> str:
    """Write "26.9 B"; below a billion "494 M"."""
    if parameters < 999_500_000:
        return f"{parameters / 1e6:.0f} M"
    return f"{parameters / 1e9:.1f} B" if parameters < 99.95e9 else f"{parameters / 1e9:.0f} B"


def weights(work: Workload) -> list[Weights]:
    """All weights, one entry a layer, kind and type."""
    inside = (w for group in work.layer_groups for _ in group.numbers for w in group.weights)
    return [*work.outside, *inside]


def types(work: Workload) -> str:
    """The storage types of most bytes, with their shares where there are several."""
    sizes: Counter[str] = Counter()
    for each in weights(work):
        sizes[each.type] += each.bytes
    whole = sum(sizes.values())
    told = [f"{name} {percent(size / whole)}" for name, size in sizes.most_common(TYPES_TOLD)
            if size >= whole / 200]  # fmt: skip
    return ", ".join(told) if len(told) > 1 else work.weight_type


def _layers(work: Workload) -> list[str | None]:
    if not work.layer_groups:
        return [count(work.layers, "layer")]
    groups = work.layer_groups
    windows = sorted({g.cache.window for g in groups if g.cache.window is not None})
    parts = [
        (sum(map(_numbers, filter(_has_both, groups))), "with a cache and a state"),
        (sum(map(_numbers, filter(_has_cache, groups))), "with an attention cache"),
        (sum(map(_numbers, filter(_has_state, groups))), "with a recurrent state"),
        *((sum(_numbers(g) for g in groups if g.cache.window == window),
           f"with a window of {window:,} tokens") for window in windows),
        (work.mtp_layers, "for multi-token prediction (MTP)"),
    ]  # fmt: skip
    several = [f"{number} {what}" for number, what in parts if number]
    return [count(work.layers, "layer"), *(several if len(several) > 1 else []), _experts(work)]


def _numbers(group: Layers) -> int:
    return len(group.numbers)


def _keeps_tokens(group: Layers) -> bool:
    return bool(group.cache.key_elements or group.cache.value_elements)


def _keeps_state(group: Layers) -> bool:
    return bool(group.cache.conv_elements or group.cache.state_elements)


def _has_both(group: Layers) -> bool:
    return _keeps_tokens(group) and _keeps_state(group)


def _has_cache(group: Layers) -> bool:
    return _keeps_tokens(group) and not _keeps_state(group)


def _has_state(group: Layers) -> bool:
    return _keeps_state(group) and not _keeps_tokens(group)


def _experts(work: Workload) -> str | None:
    if not work.experts or not work.experts_used:
        return None
    inside = sum(w.bytes for w in weights(work) if w.kind is Kind.EXPERTS)
    size = f", {gib(inside)}" if inside else ""
    return f"{work.experts} experts a layer{size}, a token takes {work.experts_used}"


def _token(plan: Plan) -> list[str | None]:
    work = plan.workload
    read = work.read_bytes_per_token_shipped
    cache = work.kv_bytes_per_token
    return [
        f"reads {read / GB:.2f} GB of weights" if read else None,
        f"adds {_kv(cache, plan.serving.kv_type)}" if cache else "cache not known",
    ]


def _kv(cache: CacheBytes, kind: str) -> str:
    """The bytes of the type that is asked for, and of the others that engines offer."""
    sizes = {"bf16": cache.bf16, "fp8": cache.fp8, "q8_0": cache.q8_0, "q4_0": cache.q4_0}
    asked = kind if kind in sizes else "bf16"
    if not sizes[asked]:
        return "no cache"
    others = ", ".join(f"{name} {size:,}" for name, size in sizes.items() if name != asked)
    return f"{sizes[asked]:,} B of {asked} cache ({others})"


def _request(plan: Plan) -> list[str | None]:
    work, serving = plan.workload, plan.serving
    context, state = serving.context_tokens, work.state_bytes_per_sequence
    size = whole_context_bytes(work, context, serving.kv_type) if context else None
    engines = [("SGLang", state.sglang), ("llama.cpp", state.llama_cpp)] if state else []
    states = ", ".join(f"{size:,} B in {engine}" for engine, size in engines if size)
    long = work.context_length is not None and context is not None and context > work.context_length
    return [
        f"{context:,} tokens: {gib(size)} of cache" if size and context else None,
        f"state {states}" if states else None,
        f"more than the {work.context_length:,} tokens that it was made for" if long else None,
    ]


def _file(work: Workload) -> list[str | None]:
    """Where the model lies, where that decides how it is loaded."""
    lies = work.storage
    if lies is None:
        return []
    where = f"on {lies.mount} ({lies.fstype})" if lies.mount and lies.fstype else lies.fstype
    cached = None
    if lies.cached_bytes is not None and lies.size_bytes:
        cached = f"{percent(min(1.0, lies.cached_bytes / lies.size_bytes))} in the page cache"
    return [where, cached, holes(lies)]
