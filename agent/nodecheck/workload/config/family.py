"""What a family of models defines: the words in which the table of families is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nodecheck.model import Struct


class Switch(Struct, frozen=True):
    """Yes or no by a key of the configuration, and what the key's absence means."""

    key: str
    absent: bool = False


Says = bool | Switch
"""A trait that a family fixes, or leaves to a key."""


class Attention(Struct, frozen=True, kw_only=True):
    """Attention over cached keys and values. Names are those of checkpoints.

    `fused` names one matrix of query, key and value. `norm` is over each head, or over all heads
    at once (`norm_width`). `gated` doubles the query's rows; `gate` is a matrix of its own, with a
    row for each head or each number of all heads (`gate_width`).
    """

    module: str = "self_attn"
    query: str = "q_proj"
    key: str = "k_proj"
    value: str = "v_proj"
    output: str = "o_proj"
    fused: str = ""
    bias: Says = False
    output_bias: Says = False
    norm: Says = False
    norm_width: Literal["head", "full"] = "head"
    norm_names: tuple[str, str] = ("q_norm", "k_norm")
    norm_bias: bool = False
    output_norm: str = ""
    gated: Says = False
    gate: str = ""
    gate_width: Literal["head", "full"] = "full"
    sinks: str = ""
    one_layer_of: str = ""
    """The key of how many layers share one layer's keys and values."""


class Mlp(Struct, frozen=True, kw_only=True):
    """A feed-forward network. `fused` names one matrix of gate and up."""

    module: str = "mlp"
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    fused: str = ""
    gated: Says = True
    bias: Says = False
    width: tuple[str, ...] = ()
    """Keys of the width; the usual ones where there are none."""
    inner_norm: str = ""
    hidden_multiple: int = 0
    """The width is that many times the hidden size where no key says it."""


class Shared(Struct, frozen=True, kw_only=True):
    """Experts that every token takes: `count` times the experts' width, or a `width` of their own.

    `gate` names a matrix of one row that weighs them.
    """

    module: str = "mlp.shared_experts"
    mlp: Mlp = Mlp()
    count: tuple[str, ...] = ()
    width: tuple[str, ...] = ()
    gate: str = ""
    enabled: Says = True


class Experts(Struct, frozen=True, kw_only=True):
    """Experts of which a token takes some. `layers` names the rule of which layers have them.

    `correction` names a vector of one number for each expert that steers the router, stored where
    `corrected` says so.
    """

    module: str = "mlp"
    router: str = "gate"
    router_bias: Says = False
    correction: str = ""
    corrected: Says = True
    experts: str = "experts.*"
    mlp: Mlp = Mlp()
    count: tuple[str, ...] = ("num_experts", "num_local_experts", "n_routed_experts")
    used: tuple[str, ...] = ("num_experts_per_tok",)
    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared: Shared | None = None
    layers: str = "all"
    enabled: Says = True
    least: int = 1
    """Of fewer experts a layer is dense."""
    optional: bool = False
    """Whether no key of a count means that all layers are dense."""
    latent: str = ""
    """The key of a narrower size in which the experts work."""
    latent_names: tuple[str, str] = ("fc1_latent_proj", "fc2_latent_proj")
    """The matrices to that size and back."""
    latent_norm: str = ""
    latent_normed: Says = True
    latent_quantised: bool = True
    """False where files keep those matrices as floats although no list skips them."""
    beside_mlp: bool = False
    """Whether a dense network works beside them in the same layer."""


class Ssm(Struct, frozen=True, kw_only=True):
    """A mixer with a state: Mamba 1 and 2, gated delta-net and the like; keys of its sizes."""

    module: str = "mamba"
    inner: tuple[str, ...] = ()
    expand: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    head_dim: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    rank: tuple[str, ...] = ()
    conv_bias: Says = True
    bias: Says = False
    norm: Says = True
    inner_norms: bool = False
    """Norms of Mamba 1's step, B and C (Jamba)."""
    split: bool = False
    """Whether gated delta-net's projections are stored one by one."""


class Family(Struct, frozen=True, kw_only=True):
    """Models that are built alike.

    `types` are its model_type names, `architectures` its classes. `mixers` names, by kind of layer,
    what mixes tokens there; `kinds` the rule of the layers' kinds where no `layer_types` says them.
    `norms` are a layer's, of the hidden width. `defaults` are the class's own values, taken where a
    nested configuration leaves them out. `remarks` become notes of every such model.
    """

    types: tuple[str, ...]
    architectures: tuple[str, ...] = ()
    source: str
    tied: bool = False
    root: str = "model"
    blocks: str = "layers"
    embedding: str = "embed_tokens"
    embedding_added: int = 0
    """Rows that the embedding has beside the vocabulary."""
    embedding_norm: str = ""
    positions: str = ""
    positions_added: int = 0
    final_norm: str = "norm"
    final_normed: Says = True
    head: str = "lm_head"
    head_bias: Says = False
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    norm_bias: Says = False
    norm_weight: bool = True
    layout: str = "decoder"
    kinds: str = "full"
    heads: str = "grouped"
    mixers: Mapping[str, tuple[str, ...]] = {}
    attention: Attention = Attention()
    mlp: Mlp = Mlp()
    experts: Experts | None = None
    ssm: Ssm = Ssm()
    beside: tuple[str, ...] = ()
    """What else a layer and the model hold: names in the tables of layers/extras.py."""
    mtp: str = ""
    required: tuple[str, ...] = ()
    """Keys whose absence would mean a class's own value, which no real checkpoint relies on."""
    defaults: Mapping[str, int] = {}
    context: tuple[str, ...] = ()
    """Further keys of the context's length, of which the largest counts."""
    llama_cpp_windows: bool = True
    sglang_keeps: bool = True
    remarks: tuple[str, ...] = ()
