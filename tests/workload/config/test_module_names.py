"""Names that quantisations' lists of skipped modules match against: those of checkpoints."""

from __future__ import annotations

import pytest

from nodecheck.serving import Kind
from nodecheck.workload.config import describe
from nodecheck.workload.config.matrix import Matrix
from tests.workload.config.dense_models import DENSE_MODELS
from tests.workload.config.hybrid_models import HYBRID_MODELS
from tests.workload.config.reference_models import REFERENCE_MODELS
from tests.workload.config.sparse_models import SPARSE_MODELS

KNOWN = {
    m.name: m.config for m in (*REFERENCE_MODELS, *DENSE_MODELS, *SPARSE_MODELS, *HYBRID_MODELS)
}


def matrices(name: str) -> dict[str, Matrix]:
    return {m.module: m for m in describe(KNOWN[name]).matrices or ()}


@pytest.mark.parametrize(
    ("model", "module", "shape"),
    [
        ("llama-3.1-8b", "model.embed_tokens", (128256, 4096)),
        ("llama-3.1-8b", "model.layers.31.self_attn.k_proj", (1024, 4096)),
        ("llama-3.1-8b", "model.layers.0.mlp.down_proj", (4096, 14336)),
        ("llama-3.1-8b", "lm_head", (128256, 4096)),
        ("phi-3-mini-4k", "model.layers.0.self_attn.qkv_proj", (9216, 3072)),
        ("phi-3-mini-4k", "model.layers.0.mlp.gate_up_proj", (16384, 3072)),
        ("mixtral-8x7b", "model.layers.0.block_sparse_moe.gate", (8, 4096)),
        ("mixtral-8x7b", "model.layers.0.block_sparse_moe.experts.*.w2", (4096, 14336)),
        ("qwen3-30b-a3b-fp8", "model.layers.0.mlp.experts.*.gate_proj", (768, 2048)),
        ("qwen3-30b-a3b-fp8", "model.layers.0.mlp.gate", (128, 2048)),
        ("qwen3-next-80b-a3b", "model.layers.0.linear_attn.in_proj_qkvz", (12288, 2048)),
        ("qwen3-next-80b-a3b", "model.layers.3.self_attn.q_proj", (8192, 2048)),
        ("qwen3-next-80b-a3b", "model.layers.0.mlp.shared_expert_gate", (1, 2048)),
        ("qwen3.5-27b", "model.language_model.layers.0.linear_attn.in_proj_a", (48, 5120)),
        ("qwen3.5-27b", "mtp.layers.0.self_attn.q_proj", (12288, 5120)),
        ("qwen3.5-27b", "lm_head", (248320, 5120)),
        ("deepseek-v3", "model.layers.3.self_attn.kv_a_proj_with_mqa", (576, 7168)),
        ("deepseek-v3", "model.layers.61.eh_proj", (7168, 14336)),
        ("gpt-oss-20b", "model.layers.0.mlp.router", (32, 2880)),
        ("gpt-oss-20b", "model.layers.0.mlp.experts.gate_up_proj", (5760, 2880)),
        ("granite-4.0-h-small", "model.layers.0.block_sparse_moe.input_linear", (1536, 4096)),
        ("granite-4.0-h-small", "model.layers.0.block_sparse_moe.router.layer", (72, 4096)),
        ("nemotron-h-8b", "backbone.layers.0.mixer.in_proj", (18560, 4096)),
        ("nemotron-3-super", "backbone.layers.1.mixer.fc1_latent_proj", (1024, 4096)),
        ("minimax-text-01", "model.layers.0.self_attn.output_gate", (8192, 6144)),
        ("longcat-flash", "model.layers.0.self_attn.1.q_a_proj", (1536, 6144)),
        ("longcat-flash", "model.layers.0.mlps.0.down_proj", (6144, 12288)),
        ("gemma-4-26b-a4b", "model.layers.0.router.proj", (128, 2816)),
        ("gpt2-xl", "transformer.h.0.attn.c_attn", (4800, 1600)),
    ],
)
def test_a_matrix_is_named_as_in_its_checkpoint(
    model: str, module: str, shape: tuple[int, int]
) -> None:
    found = matrices(model)[module]
    assert (found.rows, found.columns) == shape
    assert found.linear is (not module.endswith("embed_tokens"))


def test_experts_are_one_matrix_of_many_copies() -> None:
    experts = matrices("qwen3-30b-a3b-fp8")["model.layers.0.mlp.experts.*.up_proj"]
    assert (experts.kind, experts.copies, experts.used) == (Kind.EXPERTS, 128, 8)


@pytest.mark.parametrize(
    "module",
    [
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.input_layernorm",
        "model.layers.0.self_attn.sinks",
        "model.layers.0.mlp.experts.down_proj_bias",
    ],
)
def test_biases_norms_and_sinks_are_no_linear(module: str) -> None:
    found = matrices("gpt-oss-20b")[module]
    assert (found.linear, found.columns) == (False, 1)


def test_convolutions_and_steps_are_no_linear() -> None:
    named = matrices("nemotron-h-8b")
    for name in ("conv1d", "conv1d.bias", "A_log", "D", "dt_bias", "norm"):
        assert not named[f"backbone.layers.0.mixer.{name}"].linear


def test_what_steers_a_router_stays_in_f32() -> None:
    bias = matrices("deepseek-v3")["model.layers.3.mlp.gate.e_score_correction_bias"]
    assert (bias.float_type, bias.rows) == ("f32", 256)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_no_two_tensors_have_a_name_and_none_is_empty(name: str) -> None:
    described = describe(KNOWN[name]).matrices or ()
    stored = [m.module for m in described if m.stored]
    assert len(stored) == len(set(stored))
    assert all(m.rows > 0 and m.columns > 0 and m.copies > 0 for m in described)
    assert not any(".." in m.module or m.module.startswith(".") for m in described)
