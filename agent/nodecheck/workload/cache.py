"""How much a model remembers: arithmetic on layers and cache types. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from nodecheck.serving import CacheBytes, ContextBytes, LayerCache, Layers, StateBytes, Workload

CACHE_TYPES = {
    "bf16": Fraction(2),
    "f16": Fraction(2),
    "fp8": Fraction(1),
    "q8_0": Fraction(34, 32),
    "q4_0": Fraction(18, 32),
}
"""Bytes of an element in an engine's cache. Source: ggml block sizes; fp8 is one byte."""

LLAMA_CPP_BATCH = 512
"""Tokens that llama.cpp keeps beside a window: its default n_ubatch."""

LLAMA_CPP_CELLS = 256
"""Its pools are a multiple of as many tokens."""


def bytes_per_token(elements: int | Fraction, kv_type: str) -> int:
    """Bytes that so many elements take in a cache of this type."""
    return int(elements * CACHE_TYPES[kv_type])


def cache_bytes(elements: int | Fraction) -> CacheBytes:
    """The same for every type."""
    return CacheBytes(
        bf16=bytes_per_token(elements, "bf16"),
        fp8=bytes_per_token(elements, "fp8"),
        q8_0=bytes_per_token(elements, "q8_0"),
        q4_0=bytes_per_token(elements, "q4_0"),
    )


def every(groups: Iterable[Layers]) -> Iterable[LayerCache]:
    """The cache of each layer, in no order."""
    for group in groups:
        for _ in group.numbers:
            yield group.cache


def elements_per_token(groups: Iterable[Layers]) -> int:
    """Elements that one token adds while every layer keeps all tokens."""
    return sum(c.key_elements + c.value_elements for c in every(groups))


def layers_with_kv(groups: Iterable[Layers]) -> int:
    """Layers that store something for each token."""
    return sum(1 for c in every(groups) if c.key_elements + c.value_elements)


def window_cells(cache: LayerCache, context: int) -> int:
    """Tokens of a context that a layer must keep."""
    return context if cache.window is None else min(context, cache.window)


def llama_cpp_cells(cache: LayerCache, context: int) -> int:
    """Tokens that llama.cpp makes room for; without a window it keeps the context as it is."""
    if cache.window is None:
        return context
    cells = min(context, cache.window + LLAMA_CPP_BATCH)
    return -(-cells // LLAMA_CPP_CELLS) * LLAMA_CPP_CELLS


def context_bytes(groups: tuple[Layers, ...], context: int, kv_type: str = "bf16") -> ContextBytes:
    """Bytes of cache of one sequence of so many tokens."""
    per_layer = [(c, bytes_per_token(c.key_elements + c.value_elements, kv_type))
                 for c in every(groups)]  # fmt: skip
    return ContextBytes(
        window_only=sum(size * window_cells(c, context) for c, size in per_layer),
        llama_cpp=sum(size * llama_cpp_cells(c, context) for c, size in per_layer),
    )


def whole_context_bytes(work: Workload, context: int, kv_type: str = "bf16") -> int | None:
    """Bytes of one sequence where every layer keeps every token: the most that any engine takes.

    None where the cache is not known.
    """
    if work.kv_bytes_per_token is None:
        return None
    size: int = getattr(work.kv_bytes_per_token, "bf16" if kv_type == "f16" else kv_type)
    return size * context


def state_bytes(
    groups: tuple[Layers, ...], *, state_element_bytes: int = 4, sglang_keeps: bool = True
) -> StateBytes | None:
    """Bytes of state of one sequence; None where no layer has any.

    SGLang keeps the convolution in bf16 and the state in f32, or in what the model asks for
    (`state_element_bytes`); llama.cpp keeps both in f32. `sglang_keeps` is false for families that
    SGLang has no such state for.
    """
    conv = sum(c.conv_elements for c in every(groups))
    state = sum(c.state_elements for c in every(groups))
    if not conv + state:
        return None
    return StateBytes(
        sglang=2 * conv + state_element_bytes * state if sglang_keeps else None,
        llama_cpp=4 * (conv + state),
    )
