"""Names of tensors in real checkpoints, and what each tensor does."""

from __future__ import annotations

import pytest

from nodecheck.serving import Kind
from nodecheck.workload.hf.names import (
    is_vocabulary,
    place,
    text_layer,
    without_expert_numbers,
)
from nodecheck.workload.hf.packed import split

LAYERS = 32

INSIDE = {
    # Llama, Qwen, Gemma, Mixtral, DeepSeek, GLM, gpt-oss, MiniMax
    "model.layers.3.self_attn.q_proj": Kind.ATTENTION,
    "model.layers.3.self_attn.kv_a_proj_with_mqa": Kind.ATTENTION,
    "model.layers.3.self_attn.sinks": Kind.ATTENTION,
    "model.layers.3.self_attn.q_proj.bias": Kind.ATTENTION,
    "model.layers.3.self_attn.q_norm": Kind.NORM,
    "model.layers.3.self_attn.kv_a_layernorm": Kind.NORM,
    "model.layers.3.input_layernorm": Kind.NORM,
    "model.layers.3.input_layernorm.bias": Kind.NORM,
    "model.layers.3.pre_feedforward_layernorm": Kind.NORM,
    "model.layers.3.mlp.gate_proj": Kind.FFN,
    "model.layers.3.mlp.gate": Kind.FFN,
    "model.layers.3.mlp.gate.e_score_correction_bias": Kind.FFN,
    "model.layers.3.mlp.router.bias": Kind.FFN,
    "model.layers.3.mlp.shared_experts.up_proj": Kind.FFN,
    "model.layers.3.mlp.shared_expert_gate": Kind.FFN,
    "model.layers.3.mlp.experts.*.up_proj": Kind.EXPERTS,
    "model.layers.3.mlp.experts.gate_up_proj": Kind.EXPERTS,
    "model.layers.3.mlp.experts.gate_up_proj_bias": Kind.EXPERTS,
    "model.layers.3.block_sparse_moe.experts.*.w1": Kind.EXPERTS,
    "model.layers.3.block_sparse_moe.gate": Kind.FFN,
    "model.layers.3.block_sparse_moe.input_linear": Kind.EXPERTS,
    "model.layers.3.block_sparse_moe.router.layer": Kind.FFN,
    "model.layers.3.shared_mlp.input_linear": Kind.FFN,
    "language_model.model.layers.3.mlp.switch_mlp.up_proj": Kind.EXPERTS,
    "transformer.blocks.3.ffn.experts.mlp.w1": Kind.EXPERTS,
    "transformer.blocks.3.norm_attn_norm.attn.Wqkv": Kind.ATTENTION,
    "transformer.blocks.3.norm_attn_norm.norm_1": Kind.NORM,
    # gated delta-net, Mamba, short convolutions
    "model.language_model.layers.3.linear_attn.in_proj_qkv": Kind.RECURRENT,
    "model.language_model.layers.3.linear_attn.A_log": Kind.RECURRENT,
    "model.language_model.layers.3.linear_attn.norm": Kind.NORM,
    "model.layers.3.mamba.in_proj": Kind.RECURRENT,
    "model.layers.3.conv.in_proj": Kind.RECURRENT,
    "model.layers.3.operator_norm": Kind.NORM,
    "model.layers.3.feed_forward.w1": Kind.FFN,
    "backbone.layers.3.mixer.in_proj": Kind.RECURRENT,
    "backbone.layers.3.mixer.A_log": Kind.RECURRENT,
    "backbone.layers.3.mixer.D": Kind.RECURRENT,
    "backbone.layers.3.mixer.conv1d.bias": Kind.RECURRENT,
    "backbone.layers.3.mixer.norm": Kind.NORM,
    "backbone.layers.3.mixer.q_proj": Kind.ATTENTION,
    "backbone.layers.3.mixer.up_proj": Kind.FFN,
    "backbone.layers.3.mixer.experts.*.up_proj": Kind.EXPERTS,
    "backbone.layers.3.norm": Kind.NORM,
    # older ones
    "transformer.h.3.attn.c_attn": Kind.ATTENTION,
    "h.3.mlp.c_fc": Kind.FFN,
    "transformer.h.3.ln_1": Kind.NORM,
    "transformer.h.3.self_attention.query_key_value": Kind.ATTENTION,
    "gpt_neox.layers.3.attention.dense": Kind.ATTENTION,
    "transformer.encoder.layers.3.self_attention.query_key_value": Kind.ATTENTION,
    "layers.3.attention.wq": Kind.ATTENTION,
    "layers.3.ffn_norm": Kind.NORM,
    "layers.3.feed_forward.w2": Kind.FFN,
    "model.transformer.blocks.3.att_proj": Kind.ATTENTION,
    "model.transformer.blocks.3.ff_proj": Kind.FFN,
    "blocks.3.ffn.key": Kind.FFN,
    "blocks.3.att.key": Kind.RECURRENT,
    # no weights
    "model.layers.3.self_attn.rotary_emb.inv_freq": Kind.OTHER,
}


@pytest.mark.parametrize("module", INSIDE)
def test_places_what_lies_in_a_layer(module: str) -> None:
    found = place(module, LAYERS)
    assert (found.layer, found.kind) == (3, INSIDE[module])


OUTSIDE = {
    "model.embed_tokens": Kind.EMBEDDING,
    "model.language_model.embed_tokens": Kind.EMBEDDING,
    "model.language_model.embed_tokens_per_layer": Kind.EMBEDDING,
    "transformer.wte": Kind.EMBEDDING,
    "transformer.wpe": Kind.EMBEDDING,
    "model.transformer.wte.embedding": Kind.EMBEDDING,
    "transformer.word_embeddings": Kind.EMBEDDING,
    "transformer.word_embeddings_layernorm": Kind.NORM,
    "transformer.embedding.word_embeddings": Kind.EMBEDDING,
    "backbone.embeddings": Kind.EMBEDDING,
    "tok_embeddings": Kind.EMBEDDING,
    "lm_head": Kind.OUTPUT,
    "language_model.lm_head": Kind.OUTPUT,
    "lm_head.bias": Kind.OUTPUT,
    "output": Kind.OUTPUT,
    "embed_out": Kind.OUTPUT,
    "transformer.output_layer": Kind.OUTPUT,
    "model.transformer.ff_out": Kind.OUTPUT,
    "model.norm": Kind.NORM,
    "transformer.ln_f.bias": Kind.NORM,
    "backbone.norm_f": Kind.NORM,
    "model.visual.blocks.3.attn.qkv": Kind.OTHER,
    "vision_tower.vision_model.encoder.layers.3.self_attn.q_proj": Kind.OTHER,
    "model.vision_tower.patch_embed": Kind.OTHER,
    "multi_modal_projector.linear_1": Kind.OTHER,
    "thinker.audio_tower.layers.3.fc1": Kind.OTHER,
    "talker.model.layers.3.mlp.gate_proj": Kind.OTHER,
    "mlp1.0": Kind.OTHER,
}


@pytest.mark.parametrize("module", OUTSIDE)
def test_places_what_lies_outside_of_layers(module: str) -> None:
    found = place(module, LAYERS)
    assert (found.layer, found.kind) == (None, OUTSIDE[module])


@pytest.mark.parametrize(
    ("module", "layer"),
    [
        ("model.layers.32.eh_proj", 32),
        ("model.layers.32.embed_tokens", 32),
        ("model.layers.33.mlp.experts.*.up_proj", 33),
        ("mtp.fc", 32),
        ("mtp.layers.0.self_attn.q_proj", 32),
        ("mtp.layers.1.mlp.up_proj", 33),
        ("model.mtp_layers.0.mlp.up_proj", 32),
    ],
)
def test_what_guesses_the_next_tokens_lies_behind_the_layers(module: str, layer: int) -> None:
    found = place(module, LAYERS)
    assert (found.layer, found.kind) == (layer, Kind.MTP)


def test_names_of_layers_are_told_from_towers() -> None:
    assert text_layer("model.language_model.layers.7.mlp.up_proj") == 7
    assert text_layer("model.visual.blocks.7.attn.qkv") is None
    assert text_layer("mtp.layers.0.mlp.up_proj") is None


def test_vocabularies_are_told_from_other_tables() -> None:
    assert is_vocabulary("model.embed_tokens")
    assert not is_vocabulary("transformer.wpe")
    assert not is_vocabulary("model.embed_tokens_per_layer")


def test_numbers_of_experts_are_taken_out() -> None:
    names = ["a.experts.0.w", "a.experts.12.w", "layers.3.mlp.w", "b.shared_experts.w"]
    wanted = ["a.experts.*.w", "a.experts.*.w", "layers.3.mlp.w", "b.shared_experts.w"]
    assert without_expert_numbers(names) == wanted
    assert without_expert_numbers(["a\n.experts.3", "b"]) == ["a\n.experts.*", "b"]


@pytest.mark.parametrize(
    ("name", "module", "part"),
    [
        ("model.norm.weight", "model.norm", "weight"),
        ("lm_head.bias", "lm_head.bias", ""),
        ("a.A_log", "a.A_log", ""),
        ("a.q_proj.qweight", "a.q_proj", "qweight"),
        ("a.q_proj.weight_scale_inv", "a.q_proj", "weight_scale_inv"),
        ("a.q_proj.weight_packed", "a.q_proj", "weight_packed"),
        ("a.k_proj.k_scale", "a.k_proj", "k_scale"),
        ("experts.gate_up_proj_blocks", "experts.gate_up_proj", "blocks"),
        ("experts.gate_up_proj_scales", "experts.gate_up_proj", "scales"),
        ("experts.gate_up_proj_bias", "experts.gate_up_proj_bias", ""),
        ("a.weight.absmax", "a", "weight.absmax"),
        ("a.weight.quant_state.bitsandbytes__nf4", "a", "weight.quant_state.bitsandbytes__nf4"),
    ],
)
def test_a_tensor_is_a_part_of_a_module(name: str, module: str, part: str) -> None:
    assert split(name) == (module, part)
