"""How a layer is put together: norms, what mixes tokens, the feed-forward network. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.serving import Kind, LayerCache
from nodecheck.workload.config.layers import attention, ffn, recurrent
from nodecheck.workload.config.layers.chosen import chosen
from nodecheck.workload.config.layers.extras import IN_LAYERS
from nodecheck.workload.config.layers.model import Model
from nodecheck.workload.config.layers.tensors import Tensors
from nodecheck.workload.config.matrix import Matrix

Mixer = Callable[[Model, Tensors, int, str], LayerCache]

MIXERS: dict[str, Mixer] = {
    "grouped": attention.grouped,
    "latent": attention.latent,
    "indexed": attention.indexed,
    "block_indexed": attention.block_indexed,
    "cross": attention.cross,
    "mamba1": recurrent.mamba1,
    "mamba2": recurrent.mamba2,
    "delta_net": recurrent.delta_net,
    "delta_net_apart": recurrent.delta_net_apart,
    "short_conv": recurrent.short_conv,
    "lightning": recurrent.lightning,
    "kimi_delta": recurrent.kimi_delta,
    "rwkv7": recurrent.rwkv7,
}
"""What mixes tokens, by the name that families give it."""

ATTENTION = ("grouped",)


def mixed(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """The layer's mixers, one or several side by side, and what they remember together."""
    total = LayerCache()
    for name in m.family.mixers.get(kind, ATTENTION):
        total = together(total, MIXERS[name](m, t, layer, kind))
    return total


def together(one: LayerCache, other: LayerCache) -> LayerCache:
    """What two parts of a layer remember; no layer has two windows."""
    return LayerCache(
        key_elements=one.key_elements + other.key_elements,
        value_elements=one.value_elements + other.value_elements,
        window=one.window or other.window,
        conv_elements=one.conv_elements + other.conv_elements,
        state_elements=one.state_elements + other.state_elements,
    )


def norms(m: Model, t: Tensors) -> None:
    """The norms of the hidden width."""
    if m.family.norm_weight:
        for name in m.family.norms:
            t.norm(name, m.hidden, bias=m.keys.says(m.family.norm_bias))


def decoder(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """Norms, a mixer, a feed-forward network."""
    norms(m, t)
    return rest(m, t, layer, kind)


def rest(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """What a decoder's layer has beside its norms."""
    cache = mixed(m, t, layer, kind)
    ffn.feed_forward(m, t, layer)
    for name in m.family.beside:
        if name in IN_LAYERS:
            IN_LAYERS[name](m, t)
    return cache


def single(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """One norm and one block: a mixer, a feed-forward network, or experts (Nemotron-H, Mamba)."""
    norms(m, t)
    if kind == "mlp":
        ffn.dense(m, t, layer)
        return LayerCache()
    if kind == "moe":
        assert m.family.experts is not None
        ffn.sparse_network(m, t, layer, m.family.experts)
        return LayerCache()
    return mixed(m, t, layer, kind)


def falcon(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """One or two norms, as keys say. Source: transformers, FalconDecoderLayer."""
    newer = m.keys.flag("new_decoder_architecture", absent=False)
    two = m.keys.integer_or("num_ln_in_parallel_attn", 2 if newer else 1, least=1) == 2
    named = ["ln_attn", "ln_mlp"] if two else ["input_layernorm"]
    if not m.keys.flag("parallel_attn", absent=True):
        named = ["input_layernorm", "post_attention_layernorm"]
    for name in named:
        t.norm(name, m.hidden, bias=True)
    return rest(m, t, layer, kind)


def cross(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """A decoder whose layers that look at images have two gates more (Llama 3.2 Vision)."""
    if kind == "cross":
        t.add("cross_attn_attn_gate", Kind.ATTENTION, 1)
        t.add("cross_attn_mlp_gate", Kind.FFN, 1)
    return decoder(m, t, layer, kind)


def parallel(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """A decoder with one norm where attention and network work side by side (StableLM 2)."""
    both = m.keys.flag("use_parallel_residual", absent=False)
    for name in m.family.norms[: 1 if both else 2]:
        t.norm(name, m.hidden, bias=True)
    return rest(m, t, layer, kind)


def sinks_in_windows(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """A decoder with a sink a head where keys ask for it (MiMo-V2)."""
    key = "add_swa_attention_sink_bias" if kind == "sliding" else "add_full_attention_sink_bias"
    if m.keys.flag(key, absent=kind == "sliding"):
        t.add("self_attn.attention_sink_bias", Kind.ATTENTION, m.heads(layer, kind).query)
    return decoder(m, t, layer, kind)


def rwkv7(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """Time mix and channel mix; the first layer norms its input. Source: fla, models/rwkv7."""
    bias = m.keys.flag("norm_bias", absent=True)
    first = ("pre_norm",) if not layer and m.keys.flag("norm_first", absent=True) else ()
    for name in (*first, "attn_norm", "ffn_norm"):
        t.norm(name, m.hidden, bias=bias)
    cache = mixed(m, t, layer, kind)
    t.add("ffn.x_k", Kind.FFN, m.hidden)
    ffn.dense(m, t, layer)
    return cache


def twofold(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """Two attentions and two dense networks a layer, with experts beside them (LongCat-Flash).

    Source: transformers, LongcatFlashDecoderLayer. Experts that do nothing have rows of the router
    alone; a token takes as many at most.
    """
    cache = LayerCache()
    for number in range(2):
        half = Tensors(t.root, t.layer, t.only)
        cache = together(cache, MIXERS["latent"](m, half, layer, kind))
        ffn.dense(m, half, layer)
        for name in m.family.norms:
            t.norm(f"{name}.{number}", m.hidden)
        t.take(half, number)
    e = m.family.experts
    assert e is not None
    count, used = ffn.expert_counts(m)
    routed = count + m.keys.integer_or("zero_expert_num", 0)
    t.linear("mlp.router.classifier", Kind.FFN, routed, m.hidden,
             bias=m.keys.flag("router_bias", absent=False))  # fmt: skip
    t.add("mlp.router.e_score_correction_bias", Kind.FFN, routed, float_type="f32")
    ffn.expert_matrices(m, t, e, (count, used), (m.hidden, m.keys.integer(e.width)))
    return cache


def zamba2(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """A mixer; hybrid layers send the stream through a shared transformer before it.

    Source: transformers, Zamba2HybridLayer.
    """
    if kind != "hybrid":
        t.norm("input_layernorm", m.hidden)
        return mixed(m, t, layer, "recurrent")
    t.linear("linear", Kind.ATTENTION, m.hidden, m.hidden)
    inner = Tensors(f"{t.root}.mamba_decoder", t.layer, t.only)
    inner.norm("input_layernorm", m.hidden)
    cache = mixed(m, inner, layer, "recurrent")
    t.all += inner.all
    return together(cache, _shared_transformer(m, t, layer))


def _shared_transformer(m: Model, t: Tensors, layer: int) -> LayerCache:
    """Blocks that hybrid layers take in turn, each stored once; an adapter belongs to a layer."""
    hybrid = m.kinds[:layer].count("hybrid")
    stored = hybrid < m.keys.integer("num_mem_blocks")
    block = Tensors(f"{t.root}.shared_transformer", t.layer, t.only)
    heads = m.heads(layer, "full")
    size = 2 * m.hidden
    for name in ("q_proj", "k_proj", "v_proj"):
        rows = heads.dim * (heads.query if name == "q_proj" else heads.kv)
        block.linear(f"self_attn.{name}", Kind.ATTENTION, rows, size)
    block.linear("self_attn.o_proj", Kind.ATTENTION, m.hidden, heads.query * heads.dim)
    block.norm("input_layernorm", size)
    block.norm("pre_ff_layernorm", m.hidden)
    width = ffn.dense_width(m, layer)
    block.linear("feed_forward.gate_up_proj", Kind.FFN, 2 * width, m.hidden)
    block.linear("feed_forward.down_proj", Kind.FFN, m.hidden, width)
    t.all += block.all if stored else block.unstored()
    _adapters(m, t, hybrid, heads.query * heads.dim, 2 * width)
    return LayerCache(key_elements=heads.kv * heads.dim, value_elements=heads.kv * heads.dim)


def _adapters(m: Model, t: Tensors, number: int, query: int, width: int) -> None:
    rank = m.keys.integer("adapter_rank")
    prefix = "shared_transformer.feed_forward.gate_up_proj_adapter_list"
    t.linear(f"{prefix}.{number}.0", Kind.FFN, rank, m.hidden)
    t.linear(f"{prefix}.{number}.1", Kind.FFN, width, rank)
    if m.keys.flag("use_shared_attention_adapter", absent=False):
        for name in ("q", "k", "v"):
            prefix = f"shared_transformer.self_attn.linear_{name}_adapter_list.{number}"
            t.linear(f"{prefix}.0", Kind.ATTENTION, rank, 2 * m.hidden)
            t.linear(f"{prefix}.1", Kind.ATTENTION, query, rank)


LAYOUTS: dict[str, Mixer] = {
    "decoder": decoder,
    "single": single,
    "falcon": falcon,
    "cross": cross,
    "parallel": parallel,
    "sinks_in_windows": sinks_in_windows,
    "rwkv7": rwkv7,
    "twofold": twofold,
    "zamba2": zamba2,
    "chosen": chosen,
}
"""The layouts that families name."""


def layer_parts(m: Model) -> tuple[list[Matrix], dict[int, LayerCache]]:
    """The tensors of all layers, and what each remembers."""
    matrices: list[Matrix] = []
    caches: dict[int, LayerCache] = {}
    for layer, kind in enumerate(m.kinds):
        t = Tensors(f"{m.root}.{m.family.blocks}.{layer}", layer)
        caches[layer] = LAYOUTS[m.family.layout](m, t, layer, kind)
        matrices += t.all
    return matrices, caches
