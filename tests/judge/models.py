"""Models by layer, as files of that shape would come out."""

from __future__ import annotations

from nodecheck.serving import Kind, LayerCache, Weights, Workload
from nodecheck.units import GIB
from nodecheck.workload.assemble import PlacedWeights, assemble

BITS = {"q4_0": 4.5, "q4_k": 4.5, "q5_k": 5.5, "q6_k": 6.5625, "q8_0": 8.5, "f16": 16, "f32": 32,
        "bf16": 16, "mxfp4": 4.25}  # fmt: skip


def weights(
    kind: Kind,
    parameters: int,
    weight_type: str = "bf16",
    read: int | None = None,
    *,
    bits: float | None = None,
) -> Weights:
    """A matrix of `read` of its `parameters` a token, all of them unless said."""
    touched = parameters if read is None else read
    width = (bits or BITS[weight_type]) / 8
    return Weights(
        kind=kind,
        type=weight_type,
        parameters=parameters,
        bytes=round(parameters * width),
        read_parameters=touched,
        read_bytes=round(touched * width),
    )


QWEN_ATTENTION = LayerCache(key_elements=4 * 256, value_elements=4 * 256)
QWEN_RECURRENT = LayerCache(conv_elements=1_474_560 // 48, state_elements=37_748_736 // 48)


def qwen_27b(weight_bytes: int = round(16.3 * GIB), *, mtp: bool = False) -> Workload:
    """Qwen3.5-27B: 48 recurrent and 16 attention layers, all matrices q4_k of one width.

    Its norms stay in f32; all together are `weight_bytes`, without the MTP block.
    """
    norms = 674_816
    matrices = 26_895_998_464 - norms
    bits = 8 * (weight_bytes - 4 * norms) / matrices

    def matrix(kind: Kind, parameters: int, read: int | None = None) -> Weights:
        return weights(kind, parameters, "q4_k", read, bits=bits)

    placed: list[PlacedWeights] = [
        (None, matrix(Kind.EMBEDDING, 1_271_398_400, 5120)),
        (None, matrix(Kind.OUTPUT, 1_271_398_400)),
    ]
    caches: dict[int, LayerCache] = {}
    for layer in range(64):
        attention = layer % 4 == 3
        size = 1_677_721_600 // 16 if attention else 5_562_044_928 // 48
        placed.append((layer, matrix(Kind.ATTENTION if attention else Kind.RECURRENT, size)))
        placed.append((layer, matrix(Kind.FFN, 17_112_760_320 // 64)))
        placed.append((layer, weights(Kind.NORM, norms // 64, "f32")))
        caches[layer] = QWEN_ATTENTION if attention else QWEN_RECURRENT
    if mtp:
        placed.append((64, matrix(Kind.MTP, 424_699_392)))
    return assemble(
        placed,
        caches,
        name="Qwen3.5-27B",
        layers=65 if mtp else 64,
        named_by_user=True,
        format="gguf",
        hidden_size=5120,
        kv_heads=4,
        mtp_layers=1 if mtp else 0,
    )


def small_mix(weight_type: str = "q4_k", second: str | None = "q6_k") -> Workload:
    """Llama-like: 16 blocks of 3072 wide, FFN 8192, 32,000 words; the output in `second`."""
    placed: list[PlacedWeights] = [
        (None, weights(Kind.EMBEDDING, 3072 * 32000, weight_type, 3072)),
        (None, weights(Kind.OUTPUT, 3072 * 32000, second or weight_type)),
    ]
    caches = {}
    for layer in range(16):
        attention = 2 * 3072 * 3072 + 2 * 3072 * 1024
        placed.append((layer, weights(Kind.ATTENTION, attention, weight_type)))
        placed.append((layer, weights(Kind.FFN, 3 * 3072 * 8192, weight_type)))
        caches[layer] = LayerCache(key_elements=8 * 128, value_elements=8 * 128)
    return assemble(
        placed, caches, name="small", layers=16, named_by_user=True, format="gguf", kv_heads=8
    )


def qwen_30b_a3b(weight_type: str = "q4_k") -> Workload:
    """Qwen3-30B-A3B: 48 blocks of 128 experts, 8 of them for each token."""
    placed: list[PlacedWeights] = [
        (None, weights(Kind.EMBEDDING, 2048 * 151_936, weight_type, 2048)),
        (None, weights(Kind.OUTPUT, 2048 * 151_936, "q6_k")),
    ]
    caches = {}
    for layer in range(48):
        experts = 128 * 3 * 2048 * 768
        placed.append((layer, weights(Kind.ATTENTION, 2 * 2048 * (4096 + 512), weight_type)))
        placed.append((layer, weights(Kind.FFN, 2048 * 128, "f32")))
        placed.append((layer, weights(Kind.EXPERTS, experts, weight_type, experts * 8 // 128)))
        caches[layer] = LayerCache(key_elements=4 * 128, value_elements=4 * 128)
    return assemble(
        placed,
        caches,
        name="Qwen3-30B-A3B",
        layers=48,
        named_by_user=True,
        format="gguf",
        hidden_size=2048,
        kv_heads=4,
        experts=128,
        experts_used=8,
    )
