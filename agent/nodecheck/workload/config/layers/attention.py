"""Attention: its tensors, and what it keeps of each token. Pure."""

from __future__ import annotations

from nodecheck.serving import Kind, LayerCache
from nodecheck.workload.config.layers.model import Heads, Model
from nodecheck.workload.config.layers.tensors import Tensors
from nodecheck.workload.errors import WorkloadError, shown

A = Kind.ATTENTION


def grouped(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """Attention with keys and values for groups of query heads; one group each is multi-head."""
    heads = m.heads(layer, kind)
    own = not _reuses(m, layer)
    _projections(m, t, heads, kind, own=own)
    _norms(m, t, heads)
    _gates(m, t, heads)
    if not own or layer >= first_sharing(m):
        return LayerCache()
    return LayerCache(
        key_elements=heads.kv * heads.dim,
        value_elements=heads.kv * heads.value_dim,
        window=m.window(kind),
    )


def first_sharing(m: Model) -> int:
    """The first of the last layers, which read the cache of earlier ones (Gemma 3n, Gemma 4)."""
    return m.layers - m.keys.integer_or("num_kv_shared_layers", 0)


def _reuses(m: Model, layer: int) -> bool:
    """Whether a layer has no keys and values at all: those of the layer before serve (Hunyuan)."""
    key = m.family.attention.one_layer_of
    if not key or not m.keys.flag("use_cla", absent=False):
        return False
    return layer % m.keys.integer(key) != 0


def _projections(m: Model, t: Tensors, heads: Heads, kind: str, *, own: bool) -> None:
    a = m.family.attention
    bias = m.keys.says(a.bias)
    query = heads.query * heads.dim * (2 if m.keys.says(a.gated) else 1)
    key, value = heads.kv * heads.dim, heads.kv * heads.value_dim
    if a.fused:
        rows = query + (key + value if own else 0)
        t.linear(f"{a.module}.{a.fused}", A, rows, m.hidden, bias=bias)
    else:
        t.linear(f"{a.module}.{a.query}", A, query, m.hidden, bias=bias)
    if own and not a.fused:
        t.linear(f"{a.module}.{a.key}", A, key, m.hidden, bias=bias)
    if own and not a.fused and not (kind == "full" and _key_is_value(m)):
        t.linear(f"{a.module}.{a.value}", A, value, m.hidden, bias=bias)
    inputs = heads.query * heads.value_dim
    t.linear(f"{a.module}.{a.output}", A, m.hidden, inputs, bias=m.keys.says(a.output_bias))


def _key_is_value(m: Model) -> bool:
    """Whether full layers project values with the keys' matrix; both are cached (Gemma 4)."""
    return m.family.heads == "of_kind" and m.keys.flag("attention_k_eq_v", absent=False)


def _norms(m: Model, t: Tensors, heads: Heads) -> None:
    a = m.family.attention
    if a.output_norm:
        t.norm(f"{a.module}.{a.output_norm}", heads.query * heads.value_dim)
    if not m.keys.says(a.norm):
        return
    full = a.norm_width == "full"
    for name, count in zip(a.norm_names, (heads.query, heads.kv), strict=True):
        size = count * heads.dim if full else heads.dim
        t.norm(f"{a.module}.{name}", size, bias=a.norm_bias)


def _gates(m: Model, t: Tensors, heads: Heads) -> None:
    a = m.family.attention
    if a.sinks:
        t.add(f"{a.module}.{a.sinks}", A, heads.query)
    if a.gate:
        rows = heads.query * (1 if a.gate_width == "head" else heads.value_dim)
        t.linear(f"{a.module}.{a.gate}", A, rows, m.hidden)


def latent(m: Model, t: Tensors, _layer: int, _kind: str) -> LayerCache:
    """Multi-head latent attention: it keeps the latent and one rotary key a token, no values.

    Source: DeepSeek-V2 paper, section 2.1; transformers, DeepseekV3Attention.
    """
    k, a = m.keys, m.family.attention
    heads = k.integer("num_attention_heads")
    rank, rope = k.integer("kv_lora_rank"), k.integer("qk_rope_head_dim", least=0)
    nope, value = k.integer("qk_nope_head_dim"), k.integer("v_head_dim")
    bias = k.flag("attention_bias", absent=False)
    query_rank = k.integer_or("q_lora_rank", 0, least=1)
    if query_rank:
        t.linear(f"{a.module}.q_a_proj", A, query_rank, m.hidden, bias=bias)
        t.norm(f"{a.module}.q_a_layernorm", query_rank)
        t.linear(f"{a.module}.q_b_proj", A, heads * (nope + rope), query_rank)
    else:
        t.linear(f"{a.module}.q_proj", A, heads * (nope + rope), m.hidden)
    t.linear(f"{a.module}.kv_a_proj_with_mqa", A, rank + rope, m.hidden, bias=bias)
    t.norm(f"{a.module}.kv_a_layernorm", rank)
    t.linear(f"{a.module}.kv_b_proj", A, heads * (nope + value), rank)
    t.linear(f"{a.module}.o_proj", A, m.hidden, heads * value, bias=bias)
    if k.flag("mla_use_output_gate", absent=False):
        t.linear(f"{a.module}.g_proj", A, heads * value, m.hidden)
    return LayerCache(key_elements=rank + rope)


def indexed(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """Latent attention to the tokens that an indexer picks (DeepSeek-V3.2, GLM-5).

    Source: transformers, DeepseekV32Indexer. The indexer's own cache is a note, not a size.
    """
    k = m.keys
    if t.layer is not None and t.layer < m.layers and not _has_indexer(m, layer):
        return latent(m, t, layer, kind)
    module, width = "self_attn.indexer", k.integer("index_head_dim")
    heads = k.integer("index_n_heads")
    t.linear(f"{module}.wq_b", A, heads * width, k.integer("q_lora_rank"))
    t.linear(f"{module}.wk", A, width, m.hidden)
    t.norm(f"{module}.k_norm", width, bias=True)
    t.linear(f"{module}.weights_proj", A, heads, m.hidden)
    _note_index(m, width)
    return latent(m, t, layer, kind)


def _has_indexer(m: Model, layer: int) -> bool:
    """Whether a layer picks tokens itself, or takes those of the layer before (GLM-5.2).

    Source: transformers, GlmMoeDsaConfig.
    """
    k = m.keys
    words = k.list_of("indexer_types")
    if words is None:
        after = layer + 1 - k.integer_or("index_skip_topk_offset", 2)
        return max(after, 0) % k.integer_or("index_topk_freq", 1, least=1) == 0
    if len(words) != m.layers:
        raise WorkloadError(k.wrong_length("indexer_types", len(words), m.layers))
    if words[layer] not in ("full", "shared"):
        name = f"{k.named('indexer_types')}[{layer}]"
        raise WorkloadError(f"{name} is {shown(words[layer])!r}, not full or shared")
    return bool(words[layer] == "full")


def block_indexed(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """Attention to the blocks of tokens that an indexer picks (MiniMax-M3).

    Source: transformers, MiniMaxM3VLIndexer. The indexer's own cache is a note, not a size.
    """
    k = m.keys
    if k.value("index_n_heads") is None:
        k = m.keys.section("sparse_attention_config")
    heads = k.integer(("sparse_num_index_heads", "index_n_heads"))
    width = k.integer(("sparse_index_dim", "index_head_dim"))
    t.linear("self_attn.index_q_proj", A, heads * width, m.hidden)
    t.linear("self_attn.index_k_proj", A, width, m.hidden)
    t.norm("self_attn.index_q_norm", width)
    t.norm("self_attn.index_k_norm", width)
    _note_index(m, width)
    return grouped(m, t, layer, kind)


def _note_index(m: Model, width: int) -> None:
    m.keys.note(
        f"the indexer keeps {width} more numbers a token and layer, in a type of its own: not in "
        "the cache's figures"
    )


def cross(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """Attention to an image; it keeps nothing of text (Llama 3.2 Vision)."""
    heads = m.heads(layer, kind)
    for name, count in (("q", heads.query), ("k", heads.kv), ("v", heads.kv)):
        t.linear(f"cross_attn.{name}_proj", A, count * heads.dim, m.hidden)
    t.linear("cross_attn.o_proj", A, m.hidden, heads.query * heads.dim)
    t.norm("cross_attn.q_norm", heads.dim)
    t.norm("cross_attn.k_norm", heads.dim)
    return LayerCache()
