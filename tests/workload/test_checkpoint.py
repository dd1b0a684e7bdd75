"""Models in safetensors files: sizes from their headers, and what a configuration adds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodecheck.serving import Kind, Workload
from nodecheck.workload.checkpoint import INDEX_LIMIT_BYTES
from nodecheck.workload.config import describe, from_config
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from nodecheck.workload.read import read_workload
from tests.workload.safetensors_files import (
    LLAMA_CONFIG,
    llama,
    total,
    write,
    write_config,
    write_index,
    write_shards,
)

Tensors = dict[str, tuple[str, Sequence[int]]]


def by_kind(work: Workload) -> dict[Kind, int]:
    """Bytes of each kind, of all layers and outside of them."""
    sums: dict[Kind, int] = {}
    for weights, times in (
        *((w, len(group.numbers)) for group in work.layer_groups for w in group.weights),
        *((w, 1) for w in work.outside),
    ):
        sums[weights.kind] = sums.get(weights.kind, 0) + weights.bytes * times
    return {kind: size for kind, size in sums.items() if size}


def types(work: Workload) -> set[str]:
    weights = [w for g in work.layer_groups for w in g.weights]
    return {w.type for w in (*weights, *work.outside)}


def has_note(work: Workload, words: str) -> bool:
    return any(words in note for note in work.notes)


def refusal(path: Path) -> str:
    with pytest.raises(WorkloadError) as error:
        read_workload(path)
    return str(error.value)


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_model_weighs_what_its_headers_say(tmp_path: Path, shards: int) -> None:
    write_shards(tmp_path, llama(), shards)
    write_config(tmp_path)
    work = read_workload(tmp_path)
    assert work.format == "safetensors"
    assert work.weight_bytes_shipped == total(llama())
    assert work.parameters == total(llama()) // 2
    assert (work.layers, work.hidden_size, work.vocabulary) == (2, 64, 100)
    assert work.kv_bytes_per_token is not None
    assert work.kv_bytes_per_token.bf16 == 2 * 2 * 2 * 2 * 16
    assert work.read_bytes_per_token_shipped == total(llama()) - 99 * 64 * 2
    assert work.notes == ()
    assert by_kind(work) == {
        Kind.EMBEDDING: 12800,
        Kind.OUTPUT: 12800,
        Kind.ATTENTION: 2 * 2 * (64 * 64 * 2 + 32 * 64 * 2),
        Kind.FFN: 2 * 2 * 3 * 128 * 64,
        Kind.NORM: 2 * 5 * 64,
    }


def tensors_of(matrices: Iterable[Matrix]) -> Tensors:
    """The tensors of a description, experts one by one."""
    tensors: Tensors = {}
    for m in (m for m in matrices if m.stored):
        shape = (m.rows, m.columns) if m.columns > 1 or m.linear else (m.rows,)
        is_matrix = m.linear or m.columns > 1 or m.kind is Kind.NORM
        name = f"{m.module}.weight" if is_matrix and not m.module.endswith("bias") else m.module
        dtype = (m.float_type or "bf16").upper()
        for number in range(m.copies):
            tensors[name.replace("*", str(number), 1)] = (dtype, shape)
    return tensors


SMALL: dict[str, dict[str, Any]] = {
    "moe with shared experts and a latent": {
        "model_type": "deepseek_v3",
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_nextn_predict_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 32,
        "q_lora_rank": 48,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "vocab_size": 100,
    },
    "gated delta-net and attention": {
        "model_type": "qwen3_next",
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "full_attention_interval": 4,
        "intermediate_size": 128,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32,
        "decoder_sparse_step": 1,
        "vocab_size": 100,
    },
    "mamba, attention and networks": {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M-*-",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attention_head_dim": 16,
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 16,
        "n_groups": 2,
        "conv_kernel": 4,
        "expand": 2,
        "vocab_size": 100,
    },
    "tied, short convolutions": {
        "model_type": "lfm2",
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "block_auto_adjust_ff_dim": False,
        "block_ff_dim": 128,
        "intermediate_size": 128,
        "conv_L_cache": 3,
        "full_attn_idxs": [2],
        "vocab_size": 100,
    },
}


@pytest.mark.parametrize("case", SMALL)
def test_headers_and_configuration_come_to_the_same(tmp_path: Path, case: str) -> None:
    config = SMALL[case] | {"torch_dtype": "bfloat16"}
    described = describe(config)
    assert described.matrices is not None
    write_shards(tmp_path, tensors_of(described.matrices), 3)
    (tmp_path / "config.json").write_text(json.dumps(config))
    found, implied = read_workload(tmp_path), from_config(config, None, "x")
    assert by_kind(found) == by_kind(implied)
    for member in (
        "parameters", "weight_bytes_shipped", "weight_bytes_bf16", "read_parameters_per_token",
        "kv_bytes_per_token", "layers_with_kv", "state_bytes_per_sequence", "layers", "mtp_layers",
        "experts", "experts_used", "kv_heads", "context_length", "hidden_size", "vocabulary",
    ):  # fmt: skip
        assert getattr(found, member) == getattr(implied, member), member


def test_headers_alone_say_nothing_of_the_cache(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", llama())
    work = read_workload(tmp_path)
    assert work.weight_bytes_shipped == total(llama())
    assert (work.layers, work.hidden_size, work.vocabulary) == (2, 64, 100)
    assert work.kv_bytes_per_token is None
    assert (work.state_bytes_per_sequence, work.layers_with_kv) == (None, None)
    assert has_note(work, "there is no config.json")


def test_an_unknown_architecture_keeps_its_weights(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", llama())
    write_config(tmp_path, model_type="brand_new", architectures=["BrandNewForCausalLM"])
    work = read_workload(tmp_path)
    assert work.parameters == total(llama()) // 2
    assert work.kv_bytes_per_token is None
    assert has_note(work, "unknown architecture BrandNewForCausalLM")


def test_a_missing_dimension_leaves_the_cache_unknown(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", llama())
    (tmp_path / "config.json").write_text(
        json.dumps({k: v for k, v in LLAMA_CONFIG.items() if k != "num_attention_heads"})
    )
    work = read_workload(tmp_path)
    assert work.weight_bytes_shipped == total(llama())
    assert work.kv_bytes_per_token is None
    assert has_note(work, "num_attention_heads is missing: what a token takes in the cache is not")


def test_a_senseless_configuration_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", llama())
    write_config(tmp_path, num_hidden_layers="2")
    assert refusal(tmp_path).startswith("config.json: num_hidden_layers is")


@pytest.mark.parametrize("says", [True, False])
def test_headers_decide_whether_the_output_is_its_own(tmp_path: Path, says: bool) -> None:
    tensors = llama(tied=not says)
    write(tmp_path / "model.safetensors", tensors)
    write_config(tmp_path, tie_word_embeddings=says)
    work = read_workload(tmp_path)
    assert has_note(work, "config.json says that embedding and output are")
    read = total(llama()) - 99 * 64 * 2
    assert work.read_bytes_per_token_shipped == read
    assert work.weight_bytes_shipped == total(tensors)


def test_tied_embeddings_are_read_whole_and_stored_once(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", llama(tied=True))
    write_config(tmp_path, tie_word_embeddings=True)
    work = read_workload(tmp_path)
    assert work.weight_bytes_shipped == total(llama(tied=True))
    assert work.read_bytes_per_token_shipped == total(llama(tied=True)) + 64 * 2
    assert work.notes == ()


@pytest.mark.parametrize(
    "prefix", ["model.", "model.language_model.", "language_model.model.", "transformer.", ""]
)
def test_prefixes_of_names_do_not_matter(tmp_path: Path, prefix: str) -> None:
    write(tmp_path / "model.safetensors", llama(prefix=prefix))
    write_config(tmp_path)
    work = read_workload(tmp_path)
    assert (work.layers, work.parameters) == (2, total(llama()) // 2)


def test_towers_are_a_line_of_their_own(tmp_path: Path) -> None:
    tower: Tensors = {
        "vision_tower.encoder.layers.0.self_attn.q_proj.weight": ("BF16", (32, 32)),
        "vision_tower.embeddings.position_ids": ("I32", (1, 32)),
        "multi_modal_projector.linear_1.weight": ("BF16", (64, 32)),
    }
    write(tmp_path / "model.safetensors", {**llama(), **tower})
    write_config(tmp_path)
    work = read_workload(tmp_path)
    assert by_kind(work)[Kind.OTHER] == total(tower)
    assert work.parameters == total(llama()) // 2
    assert work.weight_bytes_shipped == total(llama()) + total(tower)
    assert work.read_bytes_per_token_shipped == total(llama()) - 99 * 64 * 2


def test_a_module_that_guesses_ahead_is_told_from_layers(tmp_path: Path) -> None:
    more: Tensors = {
        "model.layers.2.eh_proj.weight": ("BF16", (64, 128)),
        "model.layers.2.enorm.weight": ("BF16", (64,)),
        "model.layers.2.self_attn.q_proj.weight": ("BF16", (64, 64)),
    }
    write(tmp_path / "model.safetensors", {**llama(), **more})
    for has_config in (False, True):
        if has_config:
            write_config(tmp_path)
        work = read_workload(tmp_path)
        assert (work.layers, work.mtp_layers) == (3, 1)
        assert by_kind(work)[Kind.MTP] == total(more)
        assert work.parameters == total(llama()) // 2
        assert has_note(work, "1 MTP modules that config.json does not announce") == has_config


def test_layers_must_all_be_there(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", llama(layers=1))
    write_config(tmp_path)
    assert refusal(tmp_path) == "layers are missing: 1 are there, config.json says 2"


def experts(count: int) -> Tensors:
    return {
        **llama(),
        "model.layers.1.mlp.gate.weight": ("BF16", (count, 64)),
        **{
            f"model.layers.1.mlp.experts.{n}.{part}.weight": ("BF16", (32, 64))
            for n in range(count)
            for part in ("gate_proj", "up_proj", "down_proj")
        },
    }


def test_without_a_configuration_all_experts_are_read(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", experts(8))
    work = read_workload(tmp_path)
    assert (work.experts, work.experts_used) == (8, None)
    assert work.read_bytes_per_token_shipped == total(experts(8)) - 99 * 64 * 2
    assert has_note(work, "how many experts a token takes is not known")


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


@pytest.mark.parametrize("total_size", [0, 10**12, "12", 1.5, True, [], -1, 2**70])
def test_a_wrong_total_size_is_noted_and_not_used(tmp_path: Path, total_size: object) -> None:
    files = write_shards(tmp_path, llama(), 2)
    weight_map = dict.fromkeys(llama(), files[0].name) | {"model.norm.weight": files[1].name}
    write_index(tmp_path, weight_map, total_size=total_size)
    work = read_workload(tmp_path)
    assert work.weight_bytes_shipped == total(llama())
    assert any("the index" in note for note in work.notes)


def test_an_index_needs_no_metadata(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 1)
    weight_map = dict.fromkeys(llama(), files[0].name)
    path = tmp_path / "model.safetensors.index.json"
    path.write_text("\ufeff" + json.dumps({"weight_map": weight_map}), encoding="utf-8")
    write_config(tmp_path)
    assert read_workload(tmp_path).notes == ()


def test_an_index_that_names_other_tensors_is_noted(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 1)
    write_index(tmp_path, {"model.norm.weight": files[0].name}, total_size=total(llama()))
    note = f"the index names 1 tensors, the files hold {len(llama())}: the latter count"
    assert note in read_workload(tmp_path).notes


def test_a_large_index_is_read_in_pieces(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 2)
    weight_map = {
        f"model.layers.0.mlp.experts.{n}.w{'x' * 90}": files[n % 2].name for n in range(30_000)
    }
    path = write_index(tmp_path, weight_map)
    assert path.stat().st_size > 4 << 20
    assert has_note(read_workload(tmp_path), "the index names 30,000 tensors")


INDEXES: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "no index of tensors"),
    "a list": ('["weight_map"]', "no index of tensors"),
    "no map": ('{"metadata":{}}', "no index of tensors"),
    "a map of numbers": ('{"weight_map":{"a":1}}', "no index of tensors"),
    "a map that is a list": ('{"weight_map":["a"]}', "weight_map is no object"),
    "metadata that is a list": ('{"weight_map":{"a":"b"},"metadata":[]}', "no index of tensors"),
    "nothing": ('{"weight_map":{}}', "names no file"),
    "nested": ('{"weight_map":' + "[" * 100_000 + "}", "no index of tensors"),
    "above": ('{"weight_map":{"a":"../../etc/passwd"}}', "not in its folder"),
    "above, in the middle": ('{"weight_map":{"a":"x/../../b.safetensors"}}', "not in its folder"),
    "absolute": ('{"weight_map":{"a":"/etc/passwd"}}', "not in its folder"),
    "empty name": ('{"weight_map":{"a":""}}', "not in its folder"),
    "NUL": ('{"weight_map":{"a":"a\\u0000.safetensors"}}', "not in its folder"),
    "no safetensors": ('{"weight_map":{"a":"config.json"}}', "no safetensors file"),
    "pickles": ('{"weight_map":{"a":"pytorch_model.bin"}}', "PyTorch pickles"),
    "escapes": ('{"weight_map":{"a":"..\\u002fb.safetensors"}}', "not in its folder"),
    "many files": (
        json.dumps({"weight_map": {str(n): f"{n}.safetensors" for n in range(2000)}}),
        "more than 1024 files",
    ),
    "long name": (
        json.dumps({"weight_map": {"a" * 1_200_000: "a.safetensors", "b": "c.safetensors"}}),
        "a name of over",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", INDEXES)
def test_refuses_an_index(tmp_path: Path, case: str) -> None:
    text, word = INDEXES[case]
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    assert word in refusal(tmp_path)
    assert word in refusal(path)


def test_an_index_of_100_mb_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{"weight_map":{')
    with path.open("r+b") as file:
        file.truncate(INDEX_LIMIT_BYTES + 1)
    with pytest.raises(NotEnoughMetadata, match="an index of 40,000,001 bytes"):
        read_workload(tmp_path)


def test_missing_shards_are_named(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 5)
    files[1].unlink()
    files[3].unlink()
    wanted = "2 of 5 files are missing: model-00002-of-00005.safetensors, model-00004-of"
    assert refusal(tmp_path).startswith(wanted)
    (tmp_path / "model.safetensors.index.json").unlink()
    assert refusal(tmp_path).startswith(wanted)
    assert refusal(files[0]).startswith(wanted)
    (tmp_path / f"{files[1].name}.incomplete").touch()
    assert refusal(tmp_path).endswith("; a download is under way")


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 2)
    write(files[1], {"model.embed_tokens.weight": ("BF16", (1, 1))})
    assert refusal(tmp_path) == (
        f"{files[1].name}: it holds model.embed_tokens.weight, which an earlier part holds too"
    )


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"", "0 bytes, too short"),
    ],
)
def test_a_broken_shard_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    files = write_shards(tmp_path, llama(), 3)
    files[2].write_bytes(content)
    message = refusal(tmp_path)
    assert message.startswith(f"{files[2].name}: ")
    assert word in message


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    files = write_shards(tmp_path, llama(), 3)
    with files[1].open("r+b") as file:
        file.truncate(files[1].stat().st_size - 7)
    assert refusal(tmp_path).startswith(f"{files[1].name}: truncated: 7 of ")


@pytest.mark.parametrize("number", ["512", "999999"])
def test_layers_without_end_are_refused(tmp_path: Path, number: str) -> None:
    write(tmp_path / "m.safetensors", {f"model.layers.{number}.mlp.up_proj.weight": ("U8", (1,))})
    assert f"layer {number}, of 512 at most" in refusal(tmp_path)


def test_more_kinds_of_tensors_than_any_model_has(tmp_path: Path) -> None:
    tensors: Tensors = {f"model.layers.0.mlp.w{n}": ("U8", (1,)) for n in range(60_000)}
    write(tmp_path / "m.safetensors", tensors)
    with pytest.raises(NotEnoughMetadata, match="more than 50,000 kinds"):
        read_workload(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    ("tensors", "word"),
    [
        ({"a": ("F32", (4,))}, "not those of a language model"),
        ({}, "not those of a language model"),
        ({"vae.decoder.block.0.conv.weight": ("F32", (4,))}, "embedding"),
        (
            {"base_model.model.model.layers.0.mlp.up_proj.lora_A.weight": ("F32", (4, 4))},
            "a LoRA adapter is no model",
        ),
    ],
)
def test_what_is_no_language_model(tmp_path: Path, tensors: Tensors, word: str) -> None:
    write(tmp_path / "m.safetensors", tensors)
    with pytest.raises(NotEnoughMetadata, match=word):
        read_workload(tmp_path / "m.safetensors")
