"""Bytes that quantisations store, against real totals and sums made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodecheck.serving import Kind
from nodecheck.workload.assemble import assemble
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.quantisation.method import float_type, scheme
from nodecheck.workload.config.quantisation.stored import stored
from nodecheck.workload.errors import WorkloadError
from tests.workload.config.quantised_models import (
    AWQ,
    BNB,
    FLOAT8,
    FP8,
    FULL,
    GPTQ,
    HALF,
    INT4,
    SHIPPED,
    UP,
    compressed,
    config,
    linear,
    weights,
)

FLOAT4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_checkpoints_come_out_to_the_byte(name: str) -> None:
    shipped = SHIPPED[name]()
    found = scheme(shipped.config, shipped.hf_quant)
    assert found is not None
    placed, notes = stored(shipped.matrices, found, float_type(shipped.config)[0])
    work = assemble(placed, None, name=name, layers=1)
    assert work.weight_bytes_shipped == shipped.stored_bytes
    assert work.read_bytes_per_token_shipped == shipped.read_bytes
    taken = [m for m in shipped.matrices if found.coding(m) is not None]
    assert sum(m.copies for m in taken) == shipped.quantised_matrices
    assert work.parameters == sum(m.parameters for m in shipped.matrices if m.kind is not Kind.MTP)
    if "fp8" in name or "nvfp4" in name:
        assert any("taken" in note for note in notes)


BYTES: dict[str, tuple[dict[str, Any], int, str]] = {
    "gptq 4 bit": (GPTQ, HALF + 8 * 256 + 2 * 8 * 512 + 4 * 1024, "int4_g128"),
    "gptq 2 bit": (GPTQ | {"bits": 2}, HALF // 2 + 8 * 128 + 2 * 8 * 512 + 4096, "int2_g128"),
    "gptq 3 bit": (GPTQ | {"bits": 3}, 32 * 3 * 4 * 512 + 8 * 192 + 8192 + 4096, "int3_g128"),
    "gptq 8 bit, one group": (
        GPTQ | {"bits": 8, "group_size": -1},
        FULL + 512 + 2 * 512 + 4096,
        "int8",
    ),
    "awq gemm": (AWQ, HALF + 8 * 256 + 2 * 8 * 512, "int4_g128"),
    "awq by its old names": (
        {"quant_method": "awq", "w_bit": 4, "q_group_size": 128},
        HALF + 8 * 256 + 2 * 8 * 512,
        "int4_g128",
    ),
    "awq gemv pads to eight groups": (
        AWQ | {"version": "gemv", "group_size": 256},
        HALF + 512 * 4 + 512 * 8 * 2,
        "int4_g256",
    ),
    "awq gemv pads small groups more": (
        AWQ | {"version": "gemv", "group_size": 32},
        HALF + 512 * 4 * 4 + 512 * 4 * 8 * 2,
        "int4_g32",
    ),
    "awq gemv fast keeps zero points in f16": (
        AWQ | {"version": "gemv_fast"},
        HALF + 2 * (512 * 8 * 2),
        "int4_g128",
    ),
    "auto-round": (
        {"quant_method": "auto-round", "bits": 4, "group_size": 128},
        HALF + 8 * 256 + 2 * 8 * 512,
        "int4_g128",
    ),
    "fp8 blocks": (FP8, FULL + 4 * 8 * 4, "fp8_e4m3"),
    "fp8 a matrix, inputs as they come": ({"quant_method": "fp8"}, FULL + 4, "fp8_e4m3"),
    "fp8 a matrix, inputs fixed": (
        {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None},
        FULL + 8,
        "fp8_e4m3",
    ),
    "fp8 e5m2": ({"quant_method": "fp8", "fmt": "e5m2"}, FULL + 4, "fp8_e5m2"),
    "fbgemm": ({"quant_method": "fbgemm_fp8"}, FULL + 4 * 512, "fp8_e4m3"),
    "bitsandbytes nf4": (BNB, HALF + FULL // 64 * 4 + 64, "bnb_nf4"),
    "bitsandbytes nf4, scales quantised": (
        BNB | {"bnb_4bit_use_double_quant": True},
        HALF + FULL // 64 + FULL // 64 // 256 * 4 + 64 + 1024,
        "bnb_nf4",
    ),
    "bitsandbytes int8": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        FULL + 4 * 512 + 1,
        "int8",
    ),
    "bitsandbytes without its name": ({"load_in_8bit": True}, FULL + 4 * 512 + 1, "int8"),
    "eetq": ({"quant_method": "eetq", "weights": "int8"}, FULL + 2 * 512, "int8"),
    "bitnet": ({"quant_method": "bitnet"}, FULL // 4 + 2, "int2"),
    "bitnet while loading": (
        {"quant_method": "bitnet", "quantization_mode": "online"},
        2 * FULL,
        "bf16",
    ),
    "compressed fp8 by row": (
        compressed("float-quantized", FLOAT8 | {"strategy": "channel"}),
        FULL + 2 * 512,
        "fp8_e4m3",
    ),
    "compressed fp8 a matrix, inputs fixed": (
        compressed("float-quantized", FLOAT8 | {"strategy": "tensor"}, FLOAT8 | {"dynamic": False}),
        FULL + 2 + 2,
        "fp8_e4m3",
    ),
    "compressed fp8 blocks": (
        compressed(
            "float-quantized", FLOAT8 | {"strategy": "block", "block_structure": [128, 128]}
        ),
        FULL + 2 * 4 * 8,
        "fp8_e4m3",
    ),
    "compressed fp8 without a strategy": (
        compressed("float-quantized", FLOAT8),
        FULL + 2,
        "fp8_e4m3",
    ),
    "compressed int8 by row": (
        compressed("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
        FULL + 2 * 512,
        "int8",
    ),
    "compressed int8 by row with zero points": (
        compressed(
            "int-quantized",
            {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False},
        ),
        FULL + 3 * 512,
        "int8",
    ),
    "compressed int4": (compressed("pack-quantized", INT4), HALF + 2 * 8 * 512 + 16, "int4_g128"),
    "compressed int4 with zero points": (
        compressed("pack-quantized", INT4 | {"symmetric": False}),
        HALF + 2 * 8 * 512 + 8 * 256 + 16,
        "int4_g128",
    ),
    "compressed int4 in order of activations": (
        compressed("pack-quantized", INT4 | {"actorder": "group"}),
        HALF + 2 * 8 * 512 + 4 * 1024 + 16,
        "int4_g128",
    ),
    "compressed int4 by row": (
        compressed("pack-quantized", {"num_bits": 4, "type": "int", "group_size": -1}),
        HALF + 2 * 512 + 16,
        "int4",
    ),
    "compressed nvfp4": (
        compressed("nvfp4-pack-quantized", FLOAT4, FLOAT4 | {"dynamic": "local"}),
        HALF + 64 * 512 + 8,
        "nvfp4",
    ),
    "compressed nvfp4, weights only": (
        compressed("nvfp4-pack-quantized", FLOAT4),
        HALF + 64 * 512 + 4,
        "nvfp4",
    ),
    "compressed mxfp4": (
        compressed("mxfp4-pack-quantized", FLOAT4 | {"group_size": 32, "strategy": "group"}),
        HALF + 32 * 512,
        "mxfp4",
    ),
    "compressed, format by its numbers": (
        compressed("mixed-precision", INT4),
        HALF + 2 * 8 * 512 + 16,
        "int4_g128",
    ),
    "compressed, only inputs": (compressed("float-quantized", {}, FLOAT8), 2 * FULL, "bf16"),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_a_matrix_takes_what_its_scheme_stores(name: str) -> None:
    quantised, size, kind = BYTES[name]
    found = weights(config(quantised), linear(UP, 0, Kind.FFN, 512, 1024))
    assert (found.bytes, found.type) == (size, kind)
    assert found.read_bytes == size
    assert found.parameters == found.read_parameters == FULL


MODELOPT = {
    "FP8": (FULL + 8, "fp8_e4m3"),
    "FP8_PER_CHANNEL_PER_TOKEN": (FULL + 4 * 512, "fp8_e4m3"),
    "FP8_PB_WO": (FULL + 4 * 4 * 8, "fp8_e4m3"),
    "NVFP4": (HALF + 64 * 512 + 8, "nvfp4"),
    "W4A16_NVFP4": (HALF + 64 * 512 + 4, "nvfp4"),
    "W4A8_AWQ": (HALF + 4 * 8 * 512 + 8, "int4_g128"),
    "W4A16_AWQ": (HALF + 4 * 8 * 512, "int4_g128"),
    "W8A16": (FULL + 4 * 512, "int8"),
    "W8A8_SQ_PER_CHANNEL": (FULL + 4 * 512 + 4, "int8"),
    "W4A8_MXFP4_FP8": (HALF + 32 * 512 + 4, "mxfp4"),
    "MXFP8": (FULL + 32 * 512, "mxfp8"),
}


@pytest.mark.parametrize("algorithm", MODELOPT)
@pytest.mark.parametrize("beside", [True, False])
def test_modelopt_is_read_from_either_file(algorithm: str, *, beside: bool) -> None:
    quantised = {"quant_algo": algorithm, "exclude_modules": None}
    said = {"torch_dtype": "bfloat16"} if beside else config(quantised)
    hf_quant = {"quantization": quantised} if beside else None
    found = weights(said, linear(UP, 0, Kind.FFN, 512, 1024), hf_quant)
    assert (found.bytes, found.type) == MODELOPT[algorithm]


@pytest.mark.parametrize(
    ("quantised", "size", "kind"),
    [
        ({"bits": 4, "group_size": 64}, HALF + 16 * 512 * 4, "int4_g64"),
        ({"bits": 6, "group_size": 32, "mode": "affine"}, FULL * 6 // 8 + 32 * 512 * 4, "int6_g32"),
        ({"group_size": 32, "bits": 4, "mode": "mxfp4"}, HALF + 32 * 512, "mxfp4"),
    ],
)
def test_mlx_is_known_by_its_own_key(quantised: dict[str, Any], size: int, kind: str) -> None:
    said = {"torch_dtype": "bfloat16", "quantization": quantised, "quantization_config": quantised}
    found = weights(said, linear(UP, 0, Kind.FFN, 512, 1024))
    assert (found.bytes, found.type) == (size, kind)


@pytest.mark.parametrize(
    ("model_type", "dtype", "scales"),
    [("qwen3", "bfloat16", 2), ("qwen3", "float32", 4), ("deepseek_v3", "bfloat16", 4)],
)
def test_block_scales_follow_the_family(model_type: str, dtype: str, scales: int) -> None:
    said = config(FP8, model_type=model_type, torch_dtype=dtype)
    found = weights(said, linear(UP, 0, Kind.FFN, 512, 1000))
    assert found.bytes == 512 * 1000 + scales * 4 * 8


def test_experts_read_no_more_than_those_used() -> None:
    matrix = linear(
        "model.layers.0.mlp.experts.*.up_proj", 0, Kind.EXPERTS, 512, 1024, copies=16, used=2
    )
    found = weights(config(AWQ), matrix)
    assert (found.bytes, found.read_bytes) == (16 * 272_384, 2 * 272_384)


EMBEDDING = Matrix(
    module="model.embed_tokens",
    layer=None,
    kind=Kind.EMBEDDING,
    rows=512,
    columns=1024,
    read_rows=1,
)


@pytest.mark.parametrize(
    ("said", "embedding", "one_row", "output"),
    [
        ({"torch_dtype": "bfloat16"}, 2 * FULL, 2048, 2 * FULL),
        (config(AWQ), 2 * FULL, 2048, 2 * FULL),
        (
            {"torch_dtype": "bfloat16", "quantization": {"bits": 4, "group_size": 64}},
            HALF + 64 * 512,
            512 + 64,
            HALF + 64 * 512,
        ),
    ],
)
def test_a_tied_output_is_read_as_the_embedding_is_stored(
    said: dict[str, Any], embedding: int, one_row: int, output: int
) -> None:
    tied = linear("lm_head", None, Kind.OUTPUT, 512, 1024, stored=False)
    placed, _ = stored([EMBEDDING, tied], scheme(said, None), "bf16")
    first, second = (w for _, w in placed)
    assert (first.bytes, first.read_bytes) == (embedding, one_row)
    assert (second.bytes, second.parameters, second.read_bytes) == (0, 0, output)


@pytest.mark.parametrize(
    ("said", "kind", "size"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16", 2),
        ({"dtype": "float16"}, "f16", 2),
        ({"torch_dtype": "float32"}, "f32", 4),
        ({"text_config": {"dtype": "torch.bfloat16"}}, "bf16", 2),
        ({"torch_dtype": None}, "bf16", 2),
    ],
)
def test_without_a_scheme_the_float_type_counts(said: dict[str, Any], kind: str, size: int) -> None:
    found = weights(said, linear(UP, 0, Kind.FFN, 512, 1024))
    assert (found.type, found.bytes) == (kind, size * FULL)


def test_an_absent_float_type_is_an_assumption_that_is_told() -> None:
    assert float_type({"torch_dtype": "bfloat16"}) == ("bf16", [])
    kind, notes = float_type({})
    assert kind == "bf16"
    assert "taken as bf16" in notes[0]


def test_tensors_of_another_float_type_are_read_in_the_checkpoints() -> None:
    bias = Matrix(
        module="model.layers.3.mlp.gate", layer=3, kind=Kind.FFN, rows=256, float_type="f32"
    )
    found = weights({"torch_dtype": "bfloat16"}, bias)
    assert (found.type, found.bytes, found.read_bytes) == ("f32", 1024, 512)


def test_fp8_as_a_float_type_is_that_of_the_quantised_alone() -> None:
    kind, notes = float_type(config(FP8, torch_dtype="float8_e4m3fn"))
    assert kind == "bf16"
    assert "float8_e4m3fn" in notes[0]


@pytest.mark.parametrize("value", ["nonsense", 4, ["bfloat16"], "float8_e4m3fn"])
def test_a_float_type_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(WorkloadError, match="torch_dtype is"):
        float_type({"torch_dtype": value})


@pytest.mark.parametrize(
    ("quantised", "kv_type", "each"),
    [
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8", 4),
        ({"quant_algo": "FP8", "kv_cache_scheme": "FP8"}, "fp8", 4),
        ({"quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8", 4),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": None}, None, 0),
        (compressed("pack-quantized", INT4) | {"kv_cache_scheme": None}, None, 0),
        (
            compressed("pack-quantized", INT4)
            | {"kv_cache_scheme": FLOAT8 | {"strategy": "tensor", "dynamic": False}},
            "fp8",
            2,
        ),
    ],
)
def test_the_cache_that_a_checkpoint_asks_for(
    quantised: dict[str, Any], kv_type: str | None, each: int
) -> None:
    found = scheme(config(quantised), None)
    assert found is not None
    assert found.kv_type == kv_type
    keys = linear("model.layers.0.self_attn.k_proj", 0, Kind.ATTENTION, 512, 1024)
    values = linear("model.layers.0.self_attn.v_proj", 0, Kind.ATTENTION, 512, 1024)
    with_scales, notes = stored([keys, values], found, "bf16")
    alone = [found.coding(m).size_bytes(512, 1024) for m in (keys, values)]  # type: ignore[union-attr]
    assert sum(w.bytes for _, w in with_scales) == sum(alone) + 2 * each
    assert sum(w.read_bytes for _, w in with_scales) == sum(alone)
    assert any("KV cache of fp8" in note for note in notes) is (kv_type is not None)


def test_mtp_modules_that_a_writer_may_leave_out_are_told() -> None:
    module = linear("model.layers.61.self_attn.o_proj", 61, Kind.MTP, 512, 1024)
    for quantised, is_told in ((AWQ, True), (FP8, False)):
        notes = stored([module], scheme(config(quantised), None), "bf16")[1]
        assert any("MTP" in note for note in notes) is is_told


def test_a_scheme_that_takes_nothing_is_told() -> None:
    norm = Matrix(module="model.norm", layer=None, kind=Kind.NORM, rows=64)
    assert "no tensor" in stored([norm], scheme(config(AWQ), None), "bf16")[1][-1]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 3000),
    columns=st.integers(1, 3000),
    group=st.sampled_from([-1, 32, 64, 128]),
)
def test_more_bits_never_take_fewer_bytes(rows: int, columns: int, group: int) -> None:
    matrix = linear(UP, 0, Kind.FFN, rows, columns)
    sizes = [
        weights(config(GPTQ | {"bits": bits, "group_size": group}), matrix).bytes
        for bits in (2, 3, 4, 8)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] >= rows * columns // 4
