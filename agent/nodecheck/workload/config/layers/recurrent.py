"""Mixers with a state instead of a cache: their tensors and states. Pure.

The state of a convolution is its kernel less one: what SGLang and llama.cpp keep.
Source: SGLang, Mamba2StateShape; llama.cpp, src/llama-hparams.cpp, n_embd_r and n_embd_s.
"""

from __future__ import annotations

from nodecheck.serving import Kind, LayerCache
from nodecheck.workload.config.layers.model import Model, head_dim, query_heads
from nodecheck.workload.config.layers.tensors import Tensors
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError

R = Kind.RECURRENT


def mamba2(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """Mamba 2: one matrix in, a convolution, a state of head_dim x state for each head.

    Source: transformers, Mamba2Mixer; the gated norm is one of `inner` numbers.
    """
    k, s = m.keys, m.family.ssm
    heads, state = k.integer(s.heads), k.integer(s.state)
    groups, kernel = k.integer(s.groups), k.integer(s.kernel)
    inner = _inner(m, heads)
    conv = inner + 2 * groups * state
    bias = k.says(s.bias)
    t.linear(f"{s.module}.in_proj", R, inner + conv + heads, m.hidden, bias=bias)
    t.conv(f"{s.module}.conv1d", conv, kernel, bias=k.says(s.conv_bias))
    for name in ("dt_bias", "A_log", "D"):
        t.add(f"{s.module}.{name}", R, heads)
    if k.says(s.norm):
        t.norm(f"{s.module}.norm", inner)
    t.linear(f"{s.module}.out_proj", R, m.hidden, inner, bias=bias)
    return LayerCache(conv_elements=(kernel - 1) * conv, state_elements=inner * state)


def _inner(m: Model, heads: int) -> int:
    """Width inside: a key's, else heads x head_dim, else `expand` times the hidden size."""
    k, s = m.keys, m.family.ssm
    if said := k.integer_or(s.inner, 0, least=1) if s.inner else 0:
        return said
    name, dim = k.find(s.head_dim) if s.head_dim else ("", None)
    if dim is not None and dim != "auto":
        return heads * k.integer(name)
    if not s.expand:
        raise NotEnoughMetadata(f"{k.named(name)} is missing")
    return k.integer(s.expand) * m.hidden


def mamba1(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """Mamba 1: a state of inner x state. Source: transformers, MambaMixer, JambaMambaMixer."""
    k, s = m.keys, m.family.ssm
    inner = k.integer_or(s.inner, 0, least=1) if s.inner else 0
    inner = inner or k.integer(s.expand) * m.hidden
    state, kernel, rank = k.integer(s.state), k.integer(s.kernel), _rank(m)
    bias = k.says(s.bias)
    t.linear(f"{s.module}.in_proj", R, 2 * inner, m.hidden, bias=bias)
    t.conv(f"{s.module}.conv1d", inner, kernel, bias=k.says(s.conv_bias))
    t.linear(f"{s.module}.x_proj", R, rank + 2 * state, inner)
    t.linear(f"{s.module}.dt_proj", R, inner, rank, bias=True)
    t.add(f"{s.module}.A_log", R, inner, state)
    t.add(f"{s.module}.D", R, inner)
    t.linear(f"{s.module}.out_proj", R, m.hidden, inner, bias=bias)
    if s.inner_norms:
        for name, size in (("dt_layernorm", rank), ("b_layernorm", state), ("c_layernorm", state)):
            t.norm(f"{s.module}.{name}", size)
    return LayerCache(conv_elements=(kernel - 1) * inner, state_elements=inner * state)


def _rank(m: Model) -> int:
    """Rank of the step's projection: "auto" is a sixteenth of the hidden size, rounded up."""
    name, value = m.keys.find(m.family.ssm.rank)
    if value is None:
        raise NotEnoughMetadata(f"{m.keys.named(name)} is missing")
    return -(-m.hidden // 16) if value == "auto" else m.keys.integer(name)


def delta_net(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """Gated delta-net: a state of value x key dimensions for each value head.

    Source: transformers, Qwen3NextGatedDeltaNet, Qwen3_5GatedDeltaNet.
    """
    k = m.keys
    key_heads, value_heads = k.integer("linear_num_key_heads"), k.integer("linear_num_value_heads")
    key_dim, value_dim = k.integer("linear_key_head_dim"), k.integer("linear_value_head_dim")
    kernel = k.integer("linear_conv_kernel_dim")
    key, value = key_heads * key_dim, value_heads * value_dim
    conv = 2 * key + value
    split = {"qkv": conv, "z": value, "b": value_heads, "a": value_heads}
    joined = {"qkvz": conv + value, "ba": 2 * value_heads}
    for name, rows in (split if m.family.ssm.split else joined).items():
        t.linear(f"linear_attn.in_proj_{name}", R, rows, m.hidden)
    t.conv("linear_attn.conv1d", conv, kernel)
    t.add("linear_attn.dt_bias", R, value_heads)
    t.add("linear_attn.A_log", R, value_heads)
    t.norm("linear_attn.norm", value_dim)
    t.linear("linear_attn.out_proj", R, m.hidden, value)
    return LayerCache(
        conv_elements=(kernel - 1) * conv, state_elements=value_heads * value_dim * key_dim
    )


def delta_net_apart(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """The same with a matrix for each input. Source: transformers, OlmoHybridGatedDeltaNet."""
    k = m.keys
    key_heads, value_heads = k.integer("linear_num_key_heads"), k.integer("linear_num_value_heads")
    key = key_heads * k.integer("linear_key_head_dim")
    value_dim, kernel = k.integer("linear_value_head_dim"), k.integer("linear_conv_kernel_dim")
    value = value_heads * value_dim
    inputs = (("q", key), ("k", key), ("v", value), ("g", value))
    for name, rows in (*inputs, ("a", value_heads), ("b", value_heads)):
        t.linear(f"linear_attn.{name}_proj", R, rows, m.hidden)
    for name, rows in inputs[:3]:
        t.conv(f"linear_attn.{name}_conv1d", rows, kernel)
    t.add("linear_attn.dt_bias", R, value_heads)
    t.add("linear_attn.A_log", R, value_heads)
    t.norm("linear_attn.o_norm", value_dim)
    t.linear("linear_attn.o_proj", R, m.hidden, value)
    return LayerCache(
        conv_elements=(kernel - 1) * (2 * key + value),
        state_elements=value * k.integer("linear_key_head_dim"),
    )


def short_conv(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """A gated short convolution. Source: transformers, Lfm2ShortConv."""
    kernel = m.keys.integer("conv_L_cache")
    bias = m.keys.flag("conv_bias", absent=False)
    t.linear("conv.in_proj", R, 3 * m.hidden, m.hidden, bias=bias)
    t.conv("conv.conv", m.hidden, kernel, bias=bias)
    t.linear("conv.out_proj", R, m.hidden, m.hidden, bias=bias)
    return LayerCache(conv_elements=(kernel - 1) * m.hidden)


def lightning(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """A square matrix a head. Source: transformers, MiniMaxLightningAttention."""
    heads, dim = query_heads(m), head_dim(m)
    width = heads * dim
    t.linear("self_attn.qkv_proj", R, 3 * width, m.hidden)
    t.linear("self_attn.output_gate", R, width, m.hidden)
    t.linear("self_attn.out_proj", R, m.hidden, width)
    t.norm("self_attn.norm", width)
    return LayerCache(state_elements=heads * dim * dim)


def kimi_delta(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """Kimi delta attention: three convolutions, gates of low or full rank, a square matrix a head.

    Source: the model's own configuration and SGLang, models/kimi_linear.py.
    """
    section = m.keys.section("linear_attn_config")
    heads, dim = section.integer("num_heads"), section.integer("head_dim")
    kernel = section.integer("short_conv_kernel_size")
    width = heads * dim
    for name in ("q", "k", "v"):
        t.linear(f"self_attn.{name}_proj", R, width, m.hidden)
        t.conv(f"self_attn.{name}_conv1d", width, kernel)
    whole = section.flag("use_full_rank_gate", absent=False)
    if whole:
        t.linear("self_attn.g_proj", R, width, m.hidden)
    for name in "f" if whole else "fg":
        t.linear(f"self_attn.{name}_a_proj", R, dim, m.hidden)
        t.linear(f"self_attn.{name}_b_proj", R, width, dim)
    t.linear("self_attn.b_proj", R, heads, m.hidden)
    # Kimi K3's files pad it to the length of a head.
    t.add("self_attn.A_log", R, max(heads, dim) if whole else heads)
    t.add("self_attn.dt_bias", R, width)
    t.norm("self_attn.o_norm", dim)
    t.linear("self_attn.o_proj", R, m.hidden, width)
    return LayerCache(conv_elements=3 * (kernel - 1) * width, state_elements=heads * dim * dim)


def rwkv7(m: Model, t: Tensors, layer: int, _kind: str) -> LayerCache:
    """RWKV 7's time mix: the last token of both mixes, and a square matrix a head.

    Source: flash-linear-attention, fla/layers/rwkv7.py; llama.cpp, n_embd_r and n_embd_s.
    """
    k, hidden = m.keys, m.hidden
    dim = k.integer("head_dim")
    if hidden % dim:
        raise WorkloadError(f"{k.named('head_dim')} is {dim}, which does not divide {hidden}")
    width = k.integer_or("value_dim", hidden, least=1)
    if isinstance(k.inner.get("value_dim"), list):
        width = k.integer_at("value_dim", layer, m.layers)
    for name in ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "k_k", "k_a", "r_k"):
        t.add(f"attn.{name}", R, hidden)
    for name in ("r_proj", "k_proj"):
        t.linear(f"attn.{name}", R, hidden, hidden)
    t.linear("attn.v_proj", R, width, hidden)
    t.linear("attn.o_proj", R, hidden, width)
    ranks = {"w": "decay", "a": "a", "g": "gate"} | ({"v": "v"} if layer else {})
    for name, key in ranks.items():
        rank = k.integer(f"{key}_low_rank_dim")
        t.linear(f"attn.{name}_lora.lora.0", R, rank, hidden)
        t.linear(f"attn.{name}_lora.lora.2", R, width if name in "gv" else hidden, rank,
                 bias=name != "g")  # fmt: skip
    t.norm("attn.g_norm", width, bias=True)
    return LayerCache(conv_elements=2 * hidden, state_elements=hidden * dim)
