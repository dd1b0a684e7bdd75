"""Quantised checkpoints: bytes and parameters from the shapes of packed tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodecheck.serving import Workload
from nodecheck.workload.hf.packed import Packed, Stored, contents
from nodecheck.workload.read import read_workload
from tests.workload.hf.files import llama, total, write, write_config, write_shards

Tensors = dict[str, tuple[str, Sequence[int]]]


def stored(dtype: str, *shape: int, bits: int, count: int = 1) -> Stored:
    elements = count
    for size in shape:
        elements *= size
    return Stored(dtype, shape, count, elements, elements * bits // 8)


PACKED = {
    "plain": ({"weight": stored("BF16", 64, 128, bits=16)}, "bf16", 8192),
    "bias": ({"": stored("F32", 64, bits=32)}, "f32", 64),
    "scale of a cache": ({"k_scale": stored("F32", bits=32)}, "f32", 0),
    "whole numbers": ({"": stored("I32", 64, bits=32)}, "i32", None),
    "positions": ({"": stored("I64", 64, bits=64)}, "i64", 0),
    "awq": (
        {
            "qweight": stored("I32", 256, 512 // 8, bits=32),
            "qzeros": stored("I32", 2, 512 // 8, bits=32),
            "scales": stored("F16", 2, 512, bits=16),
        },
        "int4_g128",
        256 * 512,
    ),
    "gptq of 8 bits": (
        {
            "qweight": stored("I32", 256 // 4, 512, bits=32, count=3),
            "qzeros": stored("I32", 8, 512 // 4, bits=32, count=3),
            "scales": stored("F16", 8, 512, bits=16, count=3),
            "g_idx": stored("I32", 256, bits=32, count=3),
        },
        "int8_g32",
        3 * 256 * 512,
    ),
    "gptq of a group a column": (
        {
            "qweight": stored("I32", 256 // 8, 512, bits=32),
            "qzeros": stored("I32", 1, 512 // 8, bits=32),
            "scales": stored("F16", 1, 512, bits=16),
        },
        "int4",
        256 * 512,
    ),
    "fp8 in blocks": (
        {
            "weight": stored("F8_E4M3", 256, 512, bits=8),
            "weight_scale_inv": stored("F32", 2, 4, bits=32),
        },
        "fp8_e4m3",
        256 * 512,
    ),
    "nvfp4": (
        {
            "weight": stored("U8", 256, 256, bits=8),
            "weight_scale": stored("F8_E4M3", 256, 32, bits=8),
            "weight_scale_2": stored("F32", bits=32),
            "input_scale": stored("F32", bits=32),
        },
        "nvfp4",
        256 * 512,
    ),
    "nvfp4 of compressed-tensors": (
        {
            "weight_packed": stored("U8", 256, 256, bits=8),
            "weight_scale": stored("F8_E4M3", 256, 32, bits=8),
            "weight_global_scale": stored("F32", 1, bits=32),
        },
        "nvfp4",
        256 * 512,
    ),
    "mxfp4": (
        {
            "blocks": stored("U8", 4, 256, 16, 16, bits=8),
            "scales": stored("U8", 4, 256, 16, bits=8),
        },
        "mxfp4",
        4 * 256 * 512,
    ),
    "bitsandbytes nf4": (
        {
            "weight": stored("U8", 256 * 256, 1, bits=8),
            "weight.absmax": stored("F32", 2048, bits=32),
            "weight.quant_map": stored("F32", 16, bits=32),
            "weight.quant_state.bitsandbytes__nf4": stored("U8", 90, bits=8),
        },
        "bnb_nf4",
        256 * 512,
    ),
    "bitsandbytes int8": (
        {"weight": stored("I8", 256, 512, bits=8), "SCB": stored("F32", 256, bits=32)},
        "int8",
        256 * 512,
    ),
    "int8 with a scale a row": (
        {"weight": stored("I8", 256, 512, bits=8), "weight_scale": stored("BF16", 256, 1, bits=16)},
        "int8",
        256 * 512,
    ),
    "packed, of unknown bits": (
        {
            "weight_packed": stored("I32", 256, 64, bits=32),
            "weight_scale": stored("BF16", 256, 4, bits=16),
        },
        "i32",
        None,
    ),
    "no zero points": (
        {"qweight": stored("I32", 8, 8, bits=32), "scales": stored("F16", 2, 8, bits=16)},
        "i32",
        None,
    ),
    "no element": (
        {
            "qweight": stored("I32", 0, 8, bits=32),
            "qzeros": stored("I32", 0, 8, bits=32),
            "scales": stored("F16", 0, 64, bits=16),
        },
        "i32",
        0,
    ),
}


@pytest.mark.parametrize("case", PACKED)
def test_shapes_tell_how_many_parameters_are_packed(case: str) -> None:
    parts, kind, parameters = PACKED[case]
    found = contents(parts)
    assert (found.type, found.parameters) == (kind, parameters)


def test_the_configuration_tells_where_shapes_do_not() -> None:
    parts = {
        "weight": stored("U32", 256, 64, bits=32),
        "scales": stored("BF16", 256, 8, bits=16),
        "biases": stored("BF16", 256, 8, bits=16),
    }
    found = contents(parts, lambda: Packed("int4_g64", 4))
    assert (found.type, found.parameters) == ("int4_g64", 256 * 512)


def types(work: Workload) -> set[str]:
    weights = [w for g in work.layer_groups for w in g.weights]
    return {w.type for w in (*weights, *work.outside)}


def has_note(work: Workload, words: str) -> bool:
    return any(words in note for note in work.notes)


GROUP = 32


def awq(module: str, rows: int, columns: int) -> Tensors:
    return {
        f"{module}.qweight": ("I32", (columns, rows // 8)),
        f"{module}.qzeros": ("I32", (columns // GROUP, rows // 8)),
        f"{module}.scales": ("F16", (columns // GROUP, rows)),
    }


def fp8(module: str, rows: int, columns: int) -> Tensors:
    return {
        f"{module}.weight": ("F8_E4M3", (rows, columns)),
        f"{module}.weight_scale": ("BF16", (rows, 1)),
    }


def nvfp4(module: str, rows: int, columns: int) -> Tensors:
    return {
        f"{module}.weight": ("U8", (rows, columns // 2)),
        f"{module}.weight_scale": ("F8_E4M3", (rows, columns // 16)),
        f"{module}.weight_scale_2": ("F32", ()),
        f"{module}.input_scale": ("F32", ()),
    }


def bitsandbytes(module: str, rows: int, columns: int) -> Tensors:
    return {
        f"{module}.weight": ("U8", (rows * columns // 2, 1)),
        f"{module}.weight.absmax": ("F32", (rows * columns // 64,)),
        f"{module}.weight.quant_map": ("F32", (16,)),
        f"{module}.weight.quant_state.bitsandbytes__nf4": ("U8", (93,)),
    }


def mlx(module: str, rows: int, columns: int) -> Tensors:
    return {
        f"{module}.weight": ("U32", (rows, columns // 8)),
        f"{module}.scales": ("BF16", (rows, columns // GROUP)),
        f"{module}.biases": ("BF16", (rows, columns // GROUP)),
    }


def compressed(module: str, rows: int, columns: int) -> Tensors:
    return {
        f"{module}.weight_packed": ("I32", (rows, columns // 8)),
        f"{module}.weight_scale": ("BF16", (rows, columns // GROUP)),
        f"{module}.weight_shape": ("I64", (2,)),
    }


CONFIG_GROUPS = {
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "strategy": "group",
                "group_size": GROUP,
                "symmetric": True,
            },
        }
    },
    "format": "pack-quantized",
    "ignore": ["lm_head"],
    "quant_method": "compressed-tensors",
}
SCHEMES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "awq": (awq, "int4_g32", {}),
    "fp8": (fp8, "fp8_e4m3", {}),
    "nvfp4": (nvfp4, "nvfp4", {}),
    "bitsandbytes": (bitsandbytes, "bnb_nf4", {}),
    "mlx": (mlx, "int4_g32", {"quantization": {"group_size": GROUP, "bits": 4}}),
    "compressed-tensors": (compressed, "int4_g32", {"quantization_config": CONFIG_GROUPS}),
}


def quantised(scheme: Any) -> Tensors:
    """`llama()` with its matrices in layers stored by a scheme."""
    tensors: Tensors = {}
    for name, (dtype, shape) in llama().items():
        if "_proj" in name:
            tensors |= scheme(name.removesuffix(".weight"), *shape)
        else:
            tensors[name] = (dtype, shape)
    return tensors


@pytest.mark.parametrize("name", SCHEMES)
def test_packed_matrices_hold_the_same_parameters(tmp_path: Path, name: str) -> None:
    scheme, kind, says = SCHEMES[name]
    write_shards(tmp_path, quantised(scheme), 2)
    write_config(tmp_path, **says)
    work = read_workload(tmp_path)
    assert work.weight_bytes_shipped == total(quantised(scheme))
    assert work.parameters == total(llama()) // 2
    assert work.weight_bytes_bf16 == total(llama())
    assert types(work) == {kind, "bf16"}
    assert work.weight_type == (kind if work.weight_type == kind else "bf16")
    assert work.read_bytes_per_token_shipped == total(quantised(scheme)) - 99 * 64 * 2
    assert work.notes == ()


def test_what_shapes_do_not_tell_the_configuration_does(tmp_path: Path) -> None:
    """Packed in words and with no scheme named: the sum of the model's own dimensions."""
    write(tmp_path / "model.safetensors", quantised(compressed))
    write_config(tmp_path)
    work = read_workload(tmp_path)
    assert work.parameters == total(llama()) // 2
    assert work.weight_bytes_shipped == total(quantised(compressed))
    assert has_note(work, "parameters are the configuration's")


def test_what_nothing_tells_is_not_known(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", quantised(compressed))
    work = read_workload(tmp_path)
    assert work.parameters is work.weight_bytes_bf16 is work.read_parameters_per_token is None
    assert work.weight_bytes_shipped == total(quantised(compressed))
    assert has_note(work, "how many parameters the packed tensors hold is not known")


def test_mxfp4_experts(tmp_path: Path) -> None:
    module = "model.layers.1.mlp.experts.gate_up_proj"
    tensors: Tensors = {
        **llama(),
        f"{module}_blocks": ("U8", (8, 64, 2, 16)),
        f"{module}_scales": ("U8", (8, 64, 2)),
        f"{module}_bias": ("BF16", (8, 64)),
    }
    write(tmp_path / "model.safetensors", tensors)
    work = read_workload(tmp_path)
    assert work.experts == 8
    assert work.parameters == total(llama()) // 2 + 8 * 64 * 64 + 8 * 64
    assert {"mxfp4", "bf16"} == types(work)


def test_hf_quant_config_is_read(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", quantised(nvfp4))
    write_config(tmp_path)
    quantisation = {"quant_algo": "NVFP4", "group_size": 16, "kv_cache_quant_algo": "FP8"}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": quantisation}))
    assert has_note(read_workload(tmp_path), "asks for a KV cache of fp8")
