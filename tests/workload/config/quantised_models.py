"""Eight checkpoints that ship quantised: their tensors, their configurations, their exact bytes.

Sources of the bytes: the indexes of gpt-oss-20b and Hunyuan-7B-Instruct-FP8, and for the others
each scheme's own layout, summed by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from nodecheck.serving import Kind, Weights
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.quantisation.method import float_type, scheme
from nodecheck.workload.config.quantisation.stored import stored

UP = "model.layers.0.mlp.up_proj"
FLOAT8 = {"num_bits": 8, "type": "float"}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}

HALF, FULL = 512 * 1024 // 2, 512 * 1024
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


class Shipped(NamedTuple):
    matrices: list[Matrix]
    config: dict[str, Any]
    hf_quant: dict[str, Any] | None
    stored_bytes: int
    read_bytes: int
    quantised_matrices: int


def linear(
    module: str, layer: int | None, kind: Kind, rows: int, columns: int, **more: Any
) -> Matrix:
    return Matrix(
        module=module, layer=layer, kind=kind, rows=rows, columns=columns, linear=True, **more
    )


def vector(module: str, layer: int | None, kind: Kind, rows: int, **more: Any) -> Matrix:
    return Matrix(module=module, layer=layer, kind=kind, rows=rows, **more)


def ends(vocabulary: int, hidden: int, *, tied: bool = False) -> list[Matrix]:
    return [
        Matrix(
            module="model.embed_tokens",
            layer=None,
            kind=Kind.EMBEDDING,
            rows=vocabulary,
            columns=hidden,
            read_rows=1,
        ),
        linear("lm_head", None, Kind.OUTPUT, vocabulary, hidden, stored=not tied),
        vector("model.norm", None, Kind.NORM, hidden),
    ]


def attention(
    layer: int, hidden: int, heads: int, kv_heads: int, head_dim: int, *, biases: str = "",
    head_norms: bool = False, kind: Kind = Kind.ATTENTION,
) -> Iterator[Matrix]:  # fmt: skip
    at = f"model.layers.{layer}.self_attn"
    rows = {"q": heads, "k": kv_heads, "v": kv_heads}
    for name, count in rows.items():
        yield linear(f"{at}.{name}_proj", layer, kind, count * head_dim, hidden)
    yield linear(f"{at}.o_proj", layer, kind, hidden, heads * head_dim)
    for name in biases:
        wide = hidden if name == "o" else rows[name] * head_dim
        yield vector(f"{at}.{name}_proj", layer, kind, wide)
    norm = Kind.NORM if kind is Kind.ATTENTION else kind
    for name in ("q_norm", "k_norm") if head_norms else ():
        yield vector(f"{at}.{name}", layer, norm, head_dim)
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield vector(f"model.layers.{layer}.{name}", layer, norm, hidden)


def ffn(at: str, layer: int, hidden: int, width: int, kind: Kind, **more: Any) -> Iterator[Matrix]:
    yield linear(f"{at}.gate_proj", layer, kind, width, hidden, **more)
    yield linear(f"{at}.up_proj", layer, kind, width, hidden, **more)
    yield linear(f"{at}.down_proj", layer, kind, hidden, width, **more)


def experts(
    layer: int, hidden: int, width: int, count: int, used: int, *, shared: int = 0,
    correction: bool = False, mtp: bool = False,
) -> Iterator[Matrix]:  # fmt: skip
    at = f"model.layers.{layer}.mlp"
    one, many = (Kind.MTP, Kind.MTP) if mtp else (Kind.FFN, Kind.EXPERTS)
    yield linear(f"{at}.gate", layer, one, count, hidden)
    if correction:
        yield vector(f"{at}.gate", layer, one, count, float_type="f32")
    yield from ffn(f"{at}.experts.*", layer, hidden, width, many, copies=count, used=used)
    if shared:
        yield from ffn(f"{at}.shared_experts", layer, hidden, shared, one)


def mtp_ends(layer: int, vocabulary: int, hidden: int) -> Iterator[Matrix]:
    at = f"model.layers.{layer}"
    yield linear(f"{at}.eh_proj", layer, Kind.MTP, hidden, 2 * hidden)
    yield linear(f"{at}.shared_head.head", layer, Kind.MTP, vocabulary, hidden)
    yield vector(f"{at}.embed_tokens", layer, Kind.MTP, vocabulary, columns=hidden)
    for name in ("enorm", "hnorm", "shared_head.norm"):
        yield vector(f"{at}.{name}", layer, Kind.MTP, hidden)


def latent_attention(layer: int, kind: Kind = Kind.ATTENTION) -> Iterator[Matrix]:
    at = f"model.layers.{layer}.self_attn"
    for name, rows, columns in (
        ("q_a_proj", 1536, 7168),
        ("q_b_proj", 128 * 192, 1536),
        ("kv_a_proj_with_mqa", 576, 7168),
        ("kv_b_proj", 128 * 256, 512),
        ("o_proj", 7168, 128 * 128),
    ):
        yield linear(f"{at}.{name}", layer, kind, rows, columns)
    norm = Kind.NORM if kind is Kind.ATTENTION else kind
    for name, rows in (("q_a_layernorm", 1536), ("kv_a_layernorm", 512)):
        yield vector(f"{at}.{name}", layer, norm, rows)
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield vector(f"model.layers.{layer}.{name}", layer, norm, 7168)


def qwen25_7b_awq() -> Shipped:
    matrices = ends(152064, 3584)
    for layer in range(28):
        matrices += attention(layer, 3584, 28, 4, 128, biases="qkv")
        matrices += ffn(f"model.layers.{layer}.mlp", layer, 3584, 18944, Kind.FFN)
    quantised = {
        "quant_method": "awq",
        "bits": 4,
        "group_size": 128,
        "version": "gemm",
        "zero_point": True,
    }
    config = {"model_type": "qwen2", "torch_dtype": "bfloat16", "quantization_config": quantised}
    return Shipped(matrices, config, None, 5_570_747_392, 4_480_759_808, 196)


def qwen3_30b_fp8() -> Shipped:
    matrices = ends(151936, 2048)
    for layer in range(48):
        matrices += attention(layer, 2048, 32, 4, 128, head_norms=True)
        matrices += experts(layer, 2048, 768, 128, 8)
    skipped = ["lm_head"]
    for layer in range(48):
        at = f"model.layers.{layer}"
        skipped += [f"{at}.input_layernorm", f"{at}.mlp.gate", f"{at}.post_attention_layernorm"]
    quantised = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": skipped,
    }
    config = {
        "model_type": "qwen3_moe",
        "torch_dtype": "bfloat16",
        "quantization_config": quantised,
    }
    return Shipped(matrices, config, None, 31_170_895_872, 3_366_162_432, 18_624)


def deepseek_v3() -> Shipped:
    matrices = ends(129280, 7168)
    for layer in range(61):
        matrices += latent_attention(layer)
        if layer < 3:
            matrices += ffn(f"model.layers.{layer}.mlp", layer, 7168, 18432, Kind.FFN)
        else:
            matrices += experts(layer, 7168, 2048, 256, 8, shared=2048, correction=True)
    matrices += latent_attention(61, Kind.MTP)
    matrices += experts(61, 7168, 2048, 256, 8, shared=2048, correction=True, mtp=True)
    matrices += mtp_ends(61, 129280, 7168)
    quantised = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    }
    config = {
        "model_type": "deepseek_v3",
        "torch_dtype": "bfloat16",
        "quantization_config": quantised,
    }
    return Shipped(matrices, config, None, 688_574_839_360, 37_668_459_872, 45_808)


def gpt_oss_20b() -> Shipped:
    matrices = ends(201088, 2880)
    for layer in range(24):
        matrices += attention(layer, 2880, 64, 8, 64, biases="qkvo")
        at = f"model.layers.{layer}"
        matrices.append(vector(f"{at}.self_attn.sinks", layer, Kind.ATTENTION, 64))
        matrices.append(linear(f"{at}.mlp.router", layer, Kind.FFN, 32, 2880))
        matrices.append(vector(f"{at}.mlp.router", layer, Kind.FFN, 32))
        for name, rows in (("gate_up_proj", 5760), ("down_proj", 2880)):
            module = f"{at}.mlp.experts.{name}"
            matrices.append(linear(module, layer, Kind.EXPERTS, rows, 2880, copies=32, used=4))
            matrices.append(vector(module, layer, Kind.EXPERTS, rows, copies=32, used=4))
    skipped = ["model.layers.*.self_attn", "model.layers.*.mlp.router"]
    skipped += ["model.embed_tokens", "lm_head"]
    quantised = {"quant_method": "mxfp4", "modules_to_not_convert": skipped}
    config = {"model_type": "gpt_oss", "quantization_config": quantised}
    return Shipped(matrices, config, None, 13_761_264_768, 3_708_089_088, 24 * 64)


def glm_45_air_fp8() -> Shipped:
    matrices = ends(151552, 4096)
    for layer in range(47):
        mtp = layer == 46
        kind = Kind.MTP if mtp else Kind.ATTENTION
        matrices += attention(layer, 4096, 96, 8, 128, biases="qkv", kind=kind)
        if layer == 0:
            matrices += ffn("model.layers.0.mlp", 0, 4096, 10944, Kind.FFN)
        else:
            matrices += experts(layer, 4096, 1408, 128, 8, shared=1408, correction=True, mtp=mtp)
    matrices += mtp_ends(46, 151552, 4096)
    quantised = compressed(
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "channel", "group_size": None},
        {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
        ignore=["lm_head", *(f"model.layers.{n}.mlp.gate" for n in range(1, 47))],
    )
    config = {
        "model_type": "glm4_moe",
        "torch_dtype": "bfloat16",
        "quantization_config": quantised,
    }
    return Shipped(matrices, config, None, 113_094_433_536, 13_456_123_392, 17_993)


def qwen3_235b_nvfp4() -> Shipped:
    matrices = ends(151936, 4096)
    for layer in range(94):
        matrices += attention(layer, 4096, 64, 4, 128, head_norms=True)
        matrices += experts(layer, 4096, 1536, 128, 8)
    quantised = {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head", *(f"model.layers.{n}.mlp.gate" for n in range(94))],
    }
    config = {"model_type": "qwen3_moe", "torch_dtype": "bfloat16"}
    beside = {"quantization": quantised}
    return Shipped(matrices, config, beside, 134_101_652_144, 13_098_864_192, 36_472)


def falcon_mamba_7b_bnb4() -> Shipped:
    matrices = ends(65024, 4096)
    for layer in range(64):
        at = f"model.layers.{layer}.mixer"
        for name, rows, columns in (
            ("in_proj", 2 * 8192, 4096),
            ("x_proj", 256 + 2 * 16, 8192),
            ("dt_proj", 8192, 256),
            ("out_proj", 4096, 8192),
        ):
            matrices.append(linear(f"{at}.{name}", layer, Kind.RECURRENT, rows, columns))
        for name, rows, columns in (
            ("conv1d", 8192, 4),
            ("conv1d", 8192, 1),
            ("dt_proj", 8192, 1),
            ("A_log", 8192, 16),
            ("D", 8192, 1),
        ):
            module = f"{at}.{name}"
            matrices.append(vector(module, layer, Kind.RECURRENT, rows, columns=columns))
        matrices.append(vector(f"model.layers.{layer}.norm", layer, Kind.NORM, 4096))
    quantised = {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "load_in_8bit": False,
        "bnb_4bit_quant_type": "fp4",
        "bnb_4bit_use_double_quant": False,
        "llm_int8_skip_modules": None,
    }
    config = {
        "model_type": "falcon_mamba",
        "torch_dtype": "float16",
        "quantization_config": quantised,
    }
    return Shipped(matrices, config, None, 4_874_330_112, 4_341_661_696, 256)


def hunyuan_7b_fp8() -> Shipped:
    matrices = ends(128167, 4096, tied=True)
    for layer in range(32):
        matrices += attention(layer, 4096, 32, 8, 128, head_norms=True)
        matrices += ffn(f"model.layers.{layer}.mlp", layer, 4096, 14336, Kind.FFN)
    fixed = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}
    quantised = compressed("naive-quantized", fixed, fixed)
    del quantised["ignore"]
    quantised["ignored_layers"] = ["lm_head", "model.embed_tokens"]
    config = {
        "model_type": "hunyuan_v1_dense",
        "torch_dtype": "bfloat16",
        "quantization_config": quantised,
    }
    return Shipped(matrices, config, None, 8_029_816_128, 8_029_824_320, 224)


def compressed(
    form: str,
    weights: dict[str, Any],
    inputs: dict[str, Any] | None = None,
    *,
    ignore: list[str] | None = None,
    targets: list[str] | None = None,
) -> dict[str, Any]:
    group = {"targets": targets or ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "config_groups": {"group_0": group},
        "ignore": ignore or [],
    }


SHIPPED = {
    "qwen2.5-7b-awq": qwen25_7b_awq,
    "qwen3-30b-a3b-fp8": qwen3_30b_fp8,
    "deepseek-v3": deepseek_v3,
    "gpt-oss-20b": gpt_oss_20b,
    "glm-4.5-air-fp8": glm_45_air_fp8,
    "qwen3-235b-a22b-nvfp4": qwen3_235b_nvfp4,
    "falcon-mamba-7b-bnb4": falcon_mamba_7b_bnb4,
    "hunyuan-7b-fp8": hunyuan_7b_fp8,
}


def config(quantised: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"torch_dtype": "bfloat16", "quantization_config": quantised, **more}


def weights(
    said: dict[str, Any], matrix: Matrix, hf_quant: dict[str, Any] | None = None
) -> Weights:
    placed, _ = stored([matrix], scheme(said, hf_quant), float_type(said)[0])
    assert len(placed) == 1
    return placed[0][1]
