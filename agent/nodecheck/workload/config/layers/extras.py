"""What some families hold beside a decoder's usual tensors. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.serving import Kind
from nodecheck.workload.config import keys as names
from nodecheck.workload.config.layers import ffn
from nodecheck.workload.config.layers.model import Model
from nodecheck.workload.config.layers.tensors import Tensors

E, F, N = Kind.EMBEDDING, Kind.FFN, Kind.NORM


MOST_COPIES = 64
"""Copies of the stream that are taken for possible. Source: Gemma 3n has 4."""


def _per_layer_inputs(m: Model, t: Tensors) -> None:
    """A second embedding, of which each layer reads its own part (Gemma 3n, Gemma 4)."""
    width = m.keys.integer_or("hidden_size_per_layer_input", 0)
    if not width:
        return
    rows = m.keys.integer(("vocab_size_per_layer_input", *names.VOCABULARY))
    t.add("embed_tokens_per_layer", E, rows, m.layers * width, read_rows=1)
    t.linear("per_layer_model_projection", F, m.layers * width, m.hidden)
    t.norm("per_layer_projection_norm", width)


def _per_layer_gates(m: Model, t: Tensors) -> None:
    width = m.keys.integer_or("hidden_size_per_layer_input", 0)
    if not width:
        return
    t.linear("per_layer_input_gate", F, width, m.hidden)
    t.linear("per_layer_projection", F, m.hidden, width)
    t.norm("post_per_layer_input_norm", m.hidden)


def _altup(m: Model, t: Tensors) -> None:
    """Projections to and from the further copies of the stream (Gemma 3n)."""
    for number in range(m.keys.integer("altup_num_inputs", most=MOST_COPIES) - 1):
        t.linear(f"altup_projections.{number}", F, m.hidden, m.hidden)
        t.linear(f"altup_unembed_projections.{number}", F, m.hidden, m.hidden)


def _altup_layer(m: Model, t: Tensors) -> None:
    inputs, rank = m.keys.integer("altup_num_inputs"), m.keys.integer("laurel_rank")
    t.add("altup.correct_output_scale", F, m.hidden)
    t.linear("altup.correction_coefs", F, inputs, inputs)
    t.linear("altup.prediction_coefs", F, inputs * inputs, inputs)
    t.linear("altup.modality_router", F, inputs, m.hidden)
    t.norm("altup.router_norm", m.hidden)
    t.linear("laurel.linear_left", F, rank, m.hidden)
    t.linear("laurel.linear_right", F, m.hidden, rank)
    t.norm("laurel.post_laurel_norm", m.hidden)


def _layer_scalar(_m: Model, t: Tensors) -> None:
    """One number that scales a layer (Gemma 4)."""
    t.add("layer_scalar", N, 1)


def _gemma4_router(m: Model, t: Tensors) -> None:
    """Norms and scales that a layer of experts has more of (Gemma 4)."""
    if not m.keys.flag("enable_moe_block", absent=False):
        return
    t.norm("post_feedforward_layernorm_1", m.hidden)
    t.norm("post_feedforward_layernorm_2", m.hidden)
    t.norm("pre_feedforward_layernorm_2", m.hidden)
    t.add("router.scale", F, m.hidden)
    t.add("router.per_expert_scale", F, m.keys.integer("num_experts"))


def _norm_after_experts(m: Model, t: Tensors) -> None:
    """A norm of what experts give (A.X K1)."""
    if t.layer is not None and ffn.has_experts(m, min(t.layer, m.layers - 1)):
        t.norm("mlp.post_mlp_layernorm", m.hidden)


def _post_norms(m: Model, t: Tensors) -> None:
    """Norms of what attention and the network give, where a key asks for them (HyperCLOVA X)."""
    if m.keys.flag("use_post_norm", absent=True):
        t.norm("post_norm1", m.hidden)
        t.norm("post_norm2", m.hidden)


def _lambdas(m: Model, t: Tensors) -> None:
    """Four vectors that weigh one attention against the other (DiffLlama)."""
    for name in ("q1", "k1", "q2", "k2"):
        t.add(f"self_attn.lambda_{name}", Kind.ATTENTION, m.heads(0, "full").dim)


def _xielu(_m: Model, t: Tensors) -> None:
    """The two numbers of its activation (Apertus)."""
    t.add("mlp.act_fn.alpha_p", F, 1)
    t.add("mlp.act_fn.alpha_n", F, 1)


def _query_key_norms(m: Model, t: Tensors) -> None:
    """A norm without bias for each head (StableLM 2)."""
    if not m.keys.flag("qk_layernorm", absent=False):
        return
    query = m.keys.integer(names.HEADS)
    heads = m.heads(0, "full")
    for name, count in (("q", query), ("k", heads.kv)):
        t.add(f"self_attn.{name}_layernorm.norms.*", N, heads.dim, copies=count)


def _attention_residuals(m: Model, t: Tensors) -> None:
    """What weighs the outputs of earlier blocks before the mixer and the network (Kimi K3)."""
    if t.layer is None or not m.keys.integer_or("attn_res_block_size", 0):
        return
    mixer = Kind.RECURRENT if m.kinds[t.layer] == "recurrent" else Kind.ATTENTION
    for name, kind in (("self_attention_res", mixer), ("mlp_res", F)):
        t.norm(f"{name}_norm", m.hidden)
        t.add(f"{name}_proj", kind, 1, m.hidden)


def _output_residual(m: Model, t: Tensors) -> None:
    """The same before the head."""
    if m.keys.integer_or("attn_res_block_size", 0):
        t.norm("output_attn_res_norm", m.hidden)
        t.add("output_attn_res_proj", F, 1, m.hidden)


def _word_projections(m: Model, t: Tensors) -> None:
    """Projections to and from narrower embeddings (OPT-350m)."""
    width = m.keys.integer_or("word_embed_proj_dim", m.hidden, least=1)
    if width != m.hidden:
        t.linear("project_in", E, m.hidden, width)
        t.linear("project_out", E, width, m.hidden)


OUTSIDE: dict[str, Callable[[Model, Tensors], None]] = {
    "per_layer_inputs": _per_layer_inputs,
    "altup": _altup,
    "word_projections": _word_projections,
    "attention_residuals": _output_residual,
}
"""What stands once in a model, by the name that families give it."""

IN_LAYERS: dict[str, Callable[[Model, Tensors], None]] = {
    "per_layer_inputs": _per_layer_gates,
    "altup": _altup_layer,
    "layer_scalar": _layer_scalar,
    "gemma4_router": _gemma4_router,
    "norm_after_experts": _norm_after_experts,
    "post_norms": _post_norms,
    "lambdas": _lambdas,
    "xielu": _xielu,
    "query_key_norms": _query_key_norms,
    "attention_residuals": _attention_residuals,
}
"""What stands in each layer."""
