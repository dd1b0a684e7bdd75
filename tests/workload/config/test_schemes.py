"""Which modules a quantisation takes, where it is found, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from nodecheck.serving import Kind
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.quantisation.method import scheme
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from tests.workload.config.quantised_models import (
    AWQ,
    BNB,
    FLOAT8,
    FP8,
    FULL,
    GPTQ,
    INT4,
    UP,
    compressed,
    config,
    linear,
    weights,
)

NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}


@pytest.mark.parametrize(
    ("quantised", "module", "kind", "is_taken"),
    [
        (AWQ, "lm_head", Kind.OUTPUT, False),
        (FP8, "lm_head", Kind.OUTPUT, False),
        (FP8, "model.layers.3.mlp.gate", Kind.FFN, False),
        (FP8, "model.layers.3.block_sparse_moe.router.layer", Kind.FFN, False),
        (FP8, "model.layers.61.eh_proj", Kind.MTP, False),
        (FP8, "model.layers.61.shared_head.head", Kind.MTP, False),
        (FP8, "model.layers.61.self_attn.o_proj", Kind.MTP, True),
        (GPTQ, "lm_head", Kind.OUTPUT, False),
        (GPTQ | {"lm_head": True}, "lm_head", Kind.OUTPUT, True),
        (GPTQ | {"modules_in_block_to_quantize": [["self_attn.q_proj"]]}, UP, Kind.FFN, False),
        (GPTQ | {"modules_in_block_to_quantize": [["mlp.up_proj"]]}, UP, Kind.FFN, True),
        (GPTQ | {"dynamic": {"-:.*up_proj": {}}}, UP, Kind.FFN, False),
        (AWQ, "model.per_layer_model_projection", Kind.FFN, False),
        (AWQ | {"modules_to_not_convert": ["model.layers.0."]}, UP, Kind.FFN, False),
        (AWQ | {"modules_to_not_convert": ["model.layers.1."]}, UP, Kind.FFN, True),
        (AWQ | {"modules_to_not_convert": ["p_pro"]}, UP, Kind.FFN, False),
        (FP8 | {"modules_to_not_convert": ["p_pro"]}, UP, Kind.FFN, True),
        (FP8 | {"ignored_layers": ["model.layers.0.mlp"]}, UP, Kind.FFN, False),
        (MXFP4, "model.layers.0.mlp.experts.gate_up_proj", Kind.EXPERTS, True),
        (MXFP4, "model.layers.0.mlp.shared.up_proj", Kind.FFN, False),
        (MXFP4, "model.layers.0.self_attn.experts.q_proj", Kind.EXPERTS, False),
        (NVFP4 | {"exclude_modules": ["model.layers.0*"]}, UP, Kind.FFN, False),
        (NVFP4 | {"exclude_modules": ["model.layers.0.mlp.u*"]}, UP, Kind.FFN, False),
        (NVFP4 | {"exclude_modules": ["model.layers.0.self_attn*"]}, UP, Kind.FFN, True),
        (NVFP4 | {"ignore": ["language_model.model.layers.0.mlp*"]}, UP, Kind.FFN, False),
        (BNB | {"llm_int8_skip_modules": ["up_proj"]}, UP, Kind.FFN, False),
        (BNB | {"llm_int8_skip_modules": ["vision_tower"]}, UP, Kind.FFN, True),
        (compressed("pack-quantized", INT4, ignore=["re:.*up_proj$"]), UP, Kind.FFN, False),
        (compressed("pack-quantized", INT4, ignore=["re:up_proj$"]), UP, Kind.FFN, True),
        (
            compressed("pack-quantized", INT4, ignore=["re:.*mlp\\.(gate|up|down)_proj.*"]),
            "model.layers.0.mlp.experts.*.up_proj",
            Kind.EXPERTS,
            True,
        ),
        (
            compressed("pack-quantized", INT4, ignore=["re:.*language_model.layers.0.*"]),
            UP,
            Kind.FFN,
            False,
        ),
        (compressed("pack-quantized", INT4, targets=["re:.*mlp.*"]), UP, Kind.FFN, True),
        (
            compressed("pack-quantized", INT4, targets=["re:.*mlp.*"]),
            "model.layers.0.self_attn.q_proj",
            Kind.ATTENTION,
            False,
        ),
        (compressed("pack-quantized", INT4, targets=["lm_head"]), "lm_head", Kind.OUTPUT, True),
    ],
)
def test_what_is_named_stays_in_float(
    quantised: dict[str, Any], module: str, kind: Kind, *, is_taken: bool
) -> None:
    layer = None if "layers" not in module else 0
    found = weights(config(quantised), linear(module, layer, kind, 512, 1024))
    assert (found.type != "bf16") is is_taken
    assert is_taken or found.bytes == 2 * FULL


def test_vectors_and_embeddings_stay_in_float() -> None:
    for matrix in (
        Matrix(module="model.layers.0.self_attn.q_proj", layer=0, kind=Kind.ATTENTION, rows=512),
        Matrix(module="model.embed_tokens", layer=None, kind=Kind.EMBEDDING, rows=512, columns=64),
    ):
        assert weights(config(AWQ), matrix).type == "bf16"


def test_groups_of_modules_have_their_own_types() -> None:
    quantised = compressed("mixed-precision", INT4, targets=["re:.*layers\\.0\\..*"])
    quantised["config_groups"]["group_1"] = {
        "targets": ["Linear"],
        "weights": FLOAT8 | {"strategy": "channel"},
        "format": "float-quantized",
    }
    first, second = (
        weights(config(quantised), linear(f"model.layers.{n}.mlp.up_proj", n, Kind.FFN, 512, 1024))
        for n in (0, 1)
    )
    assert (first.type, second.type) == ("int4_g128", "fp8_e4m3")


def test_mixed_precision_names_every_layer() -> None:
    layers = {
        "model.language_model.layers.0.mlp.up_proj": {"quant_algo": "FP8"},
        "backbone.layers.1.mixer.experts.0.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
    }
    quantised = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    types = [
        weights(config(quantised), linear(module, 0, Kind.FFN, 512, 1024)).type
        for module in (
            UP,
            "backbone.layers.1.mixer.experts.*.up_proj",
            "model.layers.2.mlp.up_proj",
        )
    ]
    assert types == ["fp8_e4m3", "nvfp4", "bf16"]


def test_overrides_of_gptq_and_mlx_count() -> None:
    dynamic = GPTQ | {"dynamic": {"+:.*layers\\.0\\..*": {"bits": 8, "group_size": 64}}}
    assert weights(config(dynamic), linear(UP, 0, Kind.FFN, 512, 1024)).type == "int8_g64"
    quantised = {"bits": 4, "group_size": 64, UP: {"bits": 8, "group_size": 64}, "lm_head": False}
    said = {"torch_dtype": "bfloat16", "quantization": quantised}
    assert weights(said, linear(UP, 0, Kind.FFN, 512, 1024)).type == "int8_g64"
    assert weights(said, linear("lm_head", None, Kind.OUTPUT, 512, 1024)).type == "bf16"


@pytest.mark.parametrize(
    "said",
    [
        {"quantization_config": AWQ},
        {"text_config": {"quantization_config": AWQ}},
        {"thinker_config": {"text_config": {"quantization_config": AWQ}}},
        {"compression_config": compressed("pack-quantized", INT4)},
        {"quantization_config": {"quantization_config": compressed("pack-quantized", INT4)}},
    ],
)
def test_the_scheme_is_found_where_families_put_it(said: dict[str, Any]) -> None:
    assert weights(said, linear(UP, 0, Kind.FFN, 512, 1024)).type == "int4_g128"


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"quantization_config": None},
        {"quantization_config": {}, "quantization": None},
        {"quantization_config": {"quant_algo": None}},
    ],
)
def test_no_scheme_is_none(said: dict[str, Any]) -> None:
    assert scheme(said, None) is None
    assert scheme(said, {"quantization": {"quant_algo": None}}) is None


def test_config_json_counts_where_both_files_name_a_scheme() -> None:
    beside = {"quantization": {"quant_algo": "NVFP4"}}
    chosen = scheme(config(FP8), beside)
    assert chosen is not None
    assert chosen.method == "fp8"
    assert any("hf_quant_config.json nvfp4" in note for note in chosen.notes)
    alike = scheme(config({"quant_algo": "NVFP4"}), beside)
    assert alike is not None
    assert not any("counts" in note for note in alike.notes)


def test_a_broken_second_file_is_named() -> None:
    with pytest.raises(WorkloadError, match=r"hf_quant_config\.json"):
        scheme({}, {"quantization": 4})


@pytest.mark.parametrize(
    "method",
    ["hqq", "quanto", "torchao", "aqlm", "vptq", "spqr", "quip", "exl2", "higgs", "bananas\x1b"],
)
def test_bytes_that_only_the_files_know_are_not_guessed(method: str) -> None:
    with pytest.raises(NotEnoughMetadata, match="give the safetensors files") as caught:
        scheme(config({"quant_method": method}), None)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "quantised",
    [
        GPTQ | {"checkpoint_format": "marlin"},
        AWQ | {"version": "marlin"},
        AWQ | {"version": "gemv", "group_size": 16},
        FP8 | {"fmt": "e3m4"},
        FP8 | {"quant_algo": "MIXED_PRECISION"},
        {"quant_algo": "NVFP4_SVD"},
        compressed("marlin-24", INT4),
        compressed("dense", INT4),
        compressed("pack-quantized", INT4) | {"sparsity_config": {"format": "sparse-24-bitmask"}},
        compressed("pack-quantized", INT4) | {"config_groups": {"W4A16": ["Linear"]}},
        compressed("pack-quantized", INT4, ignore=["re:(?!lm_head).*"]),
        {"quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:awq_marlin"},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "gptq"},
    ],
)
def test_layouts_that_are_not_known_are_not_guessed(quantised: dict[str, Any]) -> None:
    with pytest.raises(NotEnoughMetadata):
        scheme(config(quantised), None)


@pytest.mark.parametrize(
    ("quantised", "says"),
    [
        (GPTQ | {"group_size": 0}, "quantization_config.group_size is 0"),
        (GPTQ | {"group_size": -2}, "quantization_config.group_size is -2"),
        (GPTQ | {"bits": "4"}, "quantization_config.bits is the text"),
        (GPTQ | {"bits": 5}, "quantization_config.bits is 5, none of 2, 3, 4, 8"),
        (GPTQ | {"bits": True}, "quantization_config.bits is true"),
        (GPTQ | {"lm_head": "yes"}, "quantization_config.lm_head"),
        (GPTQ | {"dynamic": ["-:.*"]}, "quantization_config.dynamic"),
        (GPTQ | {"modules_in_block_to_quantize": [[4]]}, "modules_in_block_to_quantize holds 4"),
        (FP8 | {"weight_block_size": [128]}, "weight_block_size is [128], not two sides"),
        (FP8 | {"weight_block_size": [128, -1]}, "weight_block_size[1] is -1"),
        (FP8 | {"weight_block_size": [128, 0]}, "weight_block_size[1] is 0"),
        (FP8 | {"weight_block_size": 128}, "weight_block_size is 128, not a list"),
        (AWQ | {"modules_to_not_convert": ["a", 7]}, "modules_to_not_convert[1] is 7"),
        (AWQ | {"modules_to_not_convert": "gate"}, "modules_to_not_convert is gate, not a list"),
        ({"quant_method": 4}, "quantization_config.quant_method is 4"),
        ({"bits": 4}, "quantization_config.quant_method is missing"),
        ({"quant_method": "bitsandbytes"}, "load_in_4bit or load_in_8bit"),
        (BNB | {"load_in_8bit": True}, "not both"),
        ({"quant_algo": "MIXED_PRECISION"}, "quantized_layers is missing"),
        ({"quant_algo": "NVFP4", "group_size": -1}, "group_size is -1"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": 8}, "kv_cache_quant_algo is 8"),
        (compressed("pack-quantized", INT4 | {"num_bits": 9}), "num_bits is 9"),
        (
            compressed("pack-quantized", INT4 | {"group_size": None}),
            "config_groups.group_0.weights.group_size is missing",
        ),
        (
            compressed("float-quantized", FLOAT8 | {"strategy": "block"}),
            "block_structure is missing for strategy block",
        ),
        (compressed("pack-quantized", INT4) | {"config_groups": {"a": 4}}, "config_groups.a is 4"),
        (
            compressed("pack-quantized", INT4) | {"config_groups": {"a\n\x1b" + "b" * 99: 4}},
            "config_groups.a??bbb",
        ),
        (GPTQ | {"dynamic": {"a\nb": {"bits": 1}}}, "dynamic.a?b.bits is 1"),
    ],
)
def test_what_makes_no_sense_is_named_by_its_key(quantised: dict[str, Any], says: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        scheme(config(quantised), None)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
