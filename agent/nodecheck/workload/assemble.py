"""Weights by layer and caches by layer to a workload. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from nodecheck.serving import Kind, LayerCache, Layers, Weights, Workload
from nodecheck.workload import cache

PlacedWeights = tuple[int | None, Weights]
"""A layer's number, None outside of all, and some of its weights."""

LONG_CONTEXT = 131072
"""Tokens for which a workload says what sliding windows save."""

BF16_BYTES = 2

MOST_LAYERS = 512
"""No model has more. Source: llama.cpp, LLAMA_MAX_LAYERS."""

NOT_TEXT = frozenset((Kind.MTP, Kind.OTHER))
"""Kinds that decoding a token of text reads nothing of."""


def assemble(
    placed: Iterable[PlacedWeights],
    caches: Mapping[int, LayerCache] | None,
    *,
    name: str,
    layers: int,
    state_element_bytes: int = 4,
    sglang_keeps: bool = True,
    **members: Any,
) -> Workload:
    """The workload of all weights and, by layer, of what is remembered.

    `caches` is None where nothing is known of the caches. `members` are the rest of Workload's own.
    """
    by_place = _summed(placed)
    outside = tuple(w for (layer, _, _), w in by_place.items() if layer is None)
    groups = _grouped(by_place, caches or {})
    every = list(by_place.values())
    text = [w for w in every if w.kind not in NOT_TEXT]
    if caches is not None:
        members |= _remembered(groups, state_element_bytes, sglang_keeps=sglang_keeps)
    return Workload(
        name=name,
        layers=layers,
        weight_bytes_shipped=sum(w.bytes for w in every),
        weight_type=dominant_type(every),
        weight_bytes_bf16=BF16_BYTES * sum(w.parameters for w in every if w.kind is not Kind.OTHER),
        parameters=sum(w.parameters for w in text),
        read_parameters_per_token=sum(w.read_parameters for w in text),
        read_bytes_per_token_shipped=sum(w.read_bytes for w in text),
        outside=outside,
        layer_groups=groups,
        **members,
    )


def _remembered(
    groups: tuple[Layers, ...], state_element_bytes: int, *, sglang_keeps: bool
) -> dict[str, Any]:
    return {
        "kv_bytes_per_token": cache.cache_bytes(cache.elements_per_token(groups)),
        "layers_with_kv": cache.layers_with_kv(groups),
        "kv_bytes_at_131072": cache.context_bytes(groups, LONG_CONTEXT),
        "state_bytes_per_sequence": cache.state_bytes(
            groups, state_element_bytes=state_element_bytes, sglang_keeps=sglang_keeps
        ),
    }


def tied_output(table: Weights) -> Weights:
    """The embedding in its other role: stored once, read whole."""
    return Weights(
        kind=Kind.OUTPUT,
        type=table.type,
        parameters=0,
        bytes=0,
        read_parameters=table.parameters,
        read_bytes=table.bytes,
    )


def dominant_type(weights: Iterable[Weights]) -> str:
    """The storage type of most bytes; of two alike the one that a token reads more of."""
    sizes: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for w in weights:
        stored, read = sizes[w.type]
        sizes[w.type] = stored + w.bytes, read + w.read_bytes
    return max(sizes, key=lambda kind: sizes[kind], default="unknown")


Place = tuple[int | None, Kind, str]


def _summed(placed: Iterable[PlacedWeights]) -> dict[Place, Weights]:
    """One entry a layer, kind and type."""
    sums: dict[Place, list[int]] = {}
    for layer, w in placed:
        numbers = sums.setdefault((layer, w.kind, w.type), [0, 0, 0, 0])
        for index, size in enumerate((w.parameters, w.bytes, w.read_parameters, w.read_bytes)):
            numbers[index] += size
    return {
        (layer, kind, storage): Weights(
            kind=kind,
            type=storage,
            parameters=numbers[0],
            bytes=numbers[1],
            read_parameters=numbers[2],
            read_bytes=numbers[3],
        )
        for (layer, kind, storage), numbers in sums.items()
    }


def _grouped(
    by_place: Mapping[Place, Weights], caches: Mapping[int, LayerCache]
) -> tuple[Layers, ...]:
    """Layers that hold and remember the same, together."""
    by_layer: dict[int, list[Weights]] = {number: [] for number in caches}
    for (layer, _, _), weights in by_place.items():
        if layer is not None:
            by_layer.setdefault(layer, []).append(weights)
    alike: dict[tuple[tuple[Weights, ...], LayerCache], list[int]] = {}
    for number in sorted(by_layer):
        kinds = tuple(sorted(by_layer[number], key=lambda w: (w.kind.value, w.type)))
        alike.setdefault((kinds, caches.get(number, LayerCache())), []).append(number)
    return tuple(
        Layers(numbers=tuple(numbers), weights=weights, cache=remembered)
        for (weights, remembered), numbers in alike.items()
    )
