"""What each block of a GGUF model remembers, from its keys and from the tensors it holds. Pure.

Source: llama.cpp, src/llama-hparams.cpp, src/llama-model.cpp (create_memory) and src/models/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from nodecheck.model import Struct
from nodecheck.serving import LayerCache
from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.gguf.header import TensorInfo
from nodecheck.workload.gguf.keys import Keys, PerLayer
from nodecheck.workload.gguf.sliding_windows import windows

Block = Mapping[str, TensorInfo]
"""The tensors of one block by their names in it."""

GEMMA3N_LAYERS_WITH_KV = 20
"""Later layers use the cache of earlier ones. Source: llama.cpp, src/models/gemma3n.cpp."""

MOST_ELEMENTS = 1 << 44
"""Of a cache a token, or of a state: its bytes at any context stay within 64 bits."""

NO_STATE_IN_SGLANG = {
    "minimax-01",
    "jamba",
    "plamo2",
    "rwkv6",
    "rwkv6qwen2",
    "rwkv7",
    "arwkv7",
}
"""Source: SGLang 0.5.23, mem_cache/memory_pool.py and configs/."""


class Mixer(Enum):
    """What a block with a state mixes tokens by."""

    SSM = "ssm"
    DELTA_ATTENTION = "kda"
    SHORT_CONVOLUTION = "shortconv"
    WKV = "wkv"
    LIGHTNING = "lightning"


def mixer_of(block: Block, architecture: str) -> Mixer | None:
    """The kind of state that a block keeps; None where it keeps none."""
    if "ssm_conv1d_q.weight" in block:
        return Mixer.DELTA_ATTENTION
    if any(name.startswith("ssm_") for name in block):
        return Mixer.SSM
    if any(name.startswith("shortconv.") for name in block):
        return Mixer.SHORT_CONVOLUTION
    if any(name.startswith("time_mix_") for name in block):
        return Mixer.WKV
    is_lightning = architecture == "minimax-01" and "attn_gate.weight" in block
    return Mixer.LIGHTNING if is_lightning else None


def attends(block: Block, mixer: Mixer | None) -> bool:
    """Whether a block has softmax attention, maybe beside its state.

    Gated delta nets hold attn_qkv too, but their output is ssm_out.
    """
    return "attn_output.weight" in block and mixer not in (
        Mixer.DELTA_ATTENTION,
        Mixer.LIGHTNING,
    )


class Attention(Struct, frozen=True, kw_only=True):
    """Dimensions of a model's attention: heads by layer, elements of a head."""

    heads: PerLayer
    kv_heads: PerLayer
    key_length: int
    value_length: int
    window_key_length: int
    window_value_length: int
    latent: bool
    """MLA: the cache holds the latent as a key, and no values."""
    indexer_length: int
    layers_with_kv: int


def attention(keys: Keys, layers: int) -> Attention:
    """NotEnoughMetadata names the dimension that is missing."""
    heads = keys.per_layer("attention.head_count", layers)
    if heads is None:
        raise keys.missing("attention.head_count")
    kv_heads = keys.per_layer("attention.head_count_kv", layers) or heads
    key_length = _head_length(keys, "key", heads)
    value_length = _head_length(keys, "value", heads)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        key_length=key_length,
        value_length=value_length,
        window_key_length=keys.number("attention.key_length_swa", key_length),
        window_value_length=keys.number("attention.value_length_swa", value_length),
        latent=keys.number("attention.key_length_mla", 0) > 0,
        indexer_length=keys.number("attention.indexer.key_length", 0),
        layers_with_kv=_layers_with_kv(keys, layers),
    )


def _head_length(keys: Keys, what: str, heads: PerLayer) -> int:
    """Elements of one head, by default an even share of the embedding."""
    key = f"attention.{what}_length"
    if (given := keys.given(key, least=1)) is not None:
        return given
    some = next((count for count in heads if count), 0)
    if not some:
        raise keys.missing(key)
    return keys.number("embedding_length", least=1) // some


def _layers_with_kv(keys: Keys, layers: int) -> int:
    if keys.architecture == "gemma3n":
        return GEMMA3N_LAYERS_WITH_KV
    return layers - keys.number("attention.shared_kv_layers", 0, most=layers - 1)


def state(keys: Keys, mixer: Mixer) -> LayerCache:
    """What one block with a state keeps of a sequence."""
    conv, elements = _STATES[mixer](keys)
    return LayerCache(conv_elements=conv, state_elements=elements)


def _ssm(keys: Keys) -> tuple[int, int]:
    """Mamba 1 and 2, gated delta nets: a column fewer than the kernel has, and the state."""
    inner = keys.number("ssm.inner_size", least=1)
    width = keys.number("ssm.state_size", least=1)
    without_groups = keys.architecture in ("mamba", "jamba")
    groups = keys.number("ssm.group_count", 0 if without_groups else None)
    columns = keys.number("ssm.conv_kernel", least=1) - 1
    return columns * (inner + 2 * groups * width), width * inner


def _delta_attention(keys: Keys) -> tuple[int, int]:
    length = keys.number("kda.head_dim", least=1)
    columns = keys.number("ssm.conv_kernel", least=1) - 1
    heads = _first_heads(keys)
    return 3 * columns * heads * length, heads * length * length


def _short_convolution(keys: Keys) -> tuple[int, int]:
    return (keys.number("shortconv.l_cache", least=1) - 1) * _embedding(keys), 0


WKV_SHIFTED_TOKENS = 2
"""Where token_shift_count is absent. Source: llama.cpp, src/llama-hparams.h."""


def _wkv(keys: Keys) -> tuple[int, int]:
    shifted = keys.number("token_shift_count", WKV_SHIFTED_TOKENS)
    return shifted * _embedding(keys), keys.number("wkv.head_size", least=1) * _embedding(keys)


def _lightning(keys: Keys) -> tuple[int, int]:
    heads = _first_heads(keys)
    length = _head_length(keys, "key", (heads,))
    return 0, heads * length * length


def _embedding(keys: Keys) -> int:
    return keys.number("embedding_length", least=1)


def _first_heads(keys: Keys) -> int:
    heads = keys.per_layer("attention.head_count", keys.number("block_count"))
    if heads is None:
        raise keys.missing("attention.head_count")
    if not heads[0]:
        raise keys.wrong("attention.head_count", "none in the first block")
    return heads[0]


_STATES: dict[Mixer, Callable[[Keys], tuple[int, int]]] = {
    Mixer.SSM: _ssm,
    Mixer.DELTA_ATTENTION: _delta_attention,
    Mixer.SHORT_CONVOLUTION: _short_convolution,
    Mixer.WKV: _wkv,
    Mixer.LIGHTNING: _lightning,
}


class Caches(Struct, frozen=True, kw_only=True):
    """By layer, MTP blocks included: those remember nothing unless they are used.

    `heads` are those that keys and values are split over; `llama_cpp_windows` is false where
    llama.cpp keeps every token although the model has a window.
    """

    layers: dict[int, LayerCache]
    kv_heads: int | None = None
    llama_cpp_windows: bool = True


def caches(keys: Keys, blocks: Sequence[Block], trunk: int) -> Caches:
    """What the first `trunk` blocks remember. WorkloadError where keys and tensors disagree."""
    mixers = [mixer_of(block, keys.architecture) for block in blocks[:trunk]]
    layers = {number: LayerCache() for number in range(len(blocks))}
    for number, mixer in enumerate(mixers):
        if mixer is not None:
            layers[number] = state(keys, mixer)
    attending = [n for n, mixer in enumerate(mixers) if attends(blocks[n], mixer)]
    found = Caches(layers=layers)
    if attending:
        found = _with_attention(keys, blocks, trunk, attending, layers)
    _check_size(found.layers.values())
    return found


def _with_attention(
    keys: Keys,
    blocks: Sequence[Block],
    trunk: int,
    attending: Sequence[int],
    layers: Mapping[int, LayerCache],
) -> Caches:
    dimensions = attention(keys, len(blocks))
    kept = windows(keys, trunk)
    both = dict(layers)
    for number in attending:
        _check_heads(keys, dimensions, number)
        if number < dimensions.layers_with_kv:
            key, value = _elements(dimensions, number, windowed=kept.in_llama_cpp(number))
            indexed = any(name.startswith("indexer.") for name in blocks[number])
            both[number] = LayerCache(
                key_elements=key + (dimensions.indexer_length if indexed else 0),
                value_elements=value,
                window=kept.of[number],
                conv_elements=layers[number].conv_elements,
                state_elements=layers[number].state_elements,
            )
    return Caches(
        layers=both,
        kv_heads=max(dimensions.kv_heads[number] for number in attending),
        llama_cpp_windows=kept.llama_cpp,
    )


def _elements(dimensions: Attention, number: int, *, windowed: bool) -> tuple[int, int]:
    """Keys and values that a token adds to a layer."""
    heads = dimensions.kv_heads[number]
    key = dimensions.window_key_length if windowed else dimensions.key_length
    value = dimensions.window_value_length if windowed else dimensions.value_length
    return heads * key, 0 if dimensions.latent else heads * value


def _check_heads(keys: Keys, dimensions: Attention, number: int) -> None:
    heads, kv_heads = dimensions.heads[number], dimensions.kv_heads[number]
    if not heads:
        raise WorkloadError(
            f"{keys.full('attention.head_count')} is 0 for block {number}, which has attention"
        )
    if not kv_heads and keys.architecture != "deci":
        raise WorkloadError(
            f"{keys.full('attention.head_count_kv')} is 0 for block {number}, which has attention"
        )
    if kv_heads > heads:
        raise WorkloadError(
            f"{keys.full('attention.head_count_kv')} is {kv_heads} for block {number},"
            f" more than its {heads} heads"
        )


def _check_size(layers: Iterable[LayerCache]) -> None:
    """No model remembers as much as would overflow 64 bits."""
    every = list(layers)
    token = sum(c.key_elements + c.value_elements for c in every)
    sequence = sum(c.conv_elements + c.state_elements for c in every)
    if max(token, sequence) > MOST_ELEMENTS:
        raise WorkloadError(f"a cache of {max(token, sequence)} elements: no model has as many")
