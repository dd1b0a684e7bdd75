"""Models in safetensors files: sizes from their headers, and what a configuration adds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodecheck.serving import Kind, Workload
from nodecheck.workload.config import describe, from_config
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError
from nodecheck.workload.read import read_workload
from tests.workload.hf.files import (
    LLAMA_CONFIG,
    llama,
    total,
    write,
    write_config,
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
    """The tensors of a description, experts one by one where they are numbered."""
    tensors: Tensors = {}
    for m in (m for m in matrices if m.stored):
        shape = (m.rows, m.columns) if m.columns > 1 or m.linear else (m.rows,)
        is_matrix = m.linear or m.columns > 1 or m.kind is Kind.NORM
        name = f"{m.module}.weight" if is_matrix and not m.module.endswith("bias") else m.module
        dtype = (m.float_type or "bf16").upper()
        if m.copies > 1 and "*" not in name:
            tensors[name] = (dtype, (m.copies, *shape))
            continue
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
    "experts in one tensor, heads by kind": {
        "model_type": "step3p5",
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_attention_groups": 2,
        "head_dim": 16,
        "attention_other_setting": {"num_attention_heads": 6, "num_attention_groups": 2},
        "layer_types": ["full_attention", *["sliding_attention"] * 3],
        "sliding_window": 8,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "share_expert_dim": 32,
        "moe_num_experts": 8,
        "moe_top_k": 2,
        "moe_layers_enum": "1,2,3",
        "vocab_size": 100,
    },
    "experts of a latent, residuals of attention": {
        "model_type": "kimi_linear",
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "routed_expert_hidden_size": 48,
        "latent_moe_use_norm": True,
        "num_experts": 8,
        "num_experts_per_token": 2,
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 32,
        "q_lora_rank": 48,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "mla_use_output_gate": True,
        "attn_res_block_size": 2,
        "linear_attn_config": {
            "kda_layers": [1, 2, 3],
            "head_dim": 16,
            "num_heads": 4,
            "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
        },
        "vocab_size": 100,
    },
    "blocks chosen one by one": {
        "model_type": "nemotron-nas",
        "hidden_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "block_configs": [
            {"attention": {"n_heads_in_group": 3}, "ffn": {"ffn_mult": 2.0}},
            {"attention": {"no_op": True}, "ffn": {"replace_with_linear": True}},
            {"attention": {"n_heads_in_group": 2}, "ffn": {"no_op": True}},
        ],
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
