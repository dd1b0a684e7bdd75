"""Layers whose parts a search chose one by one (Nemotron NAS, DeciLM). Pure.

Source: llama.cpp, conversion/deci.py; vLLM, models/nemotron_nas.py.
"""

from __future__ import annotations

from nodecheck.serving import Kind, LayerCache
from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.layers import attention, ffn
from nodecheck.workload.config.layers.kinds import chosen_block
from nodecheck.workload.config.layers.model import Model
from nodecheck.workload.config.layers.tensors import Tensors
from nodecheck.workload.errors import NotEnoughMetadata

MULTIPLE = 256
"""A network's width is rounded up to a multiple of it. Source: llama.cpp, conversion/deci.py."""

MOST_TIMES = 64
"""Times the hidden size that a network may be wide. Source: none is wider than 16 times."""


def chosen(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    """A norm and attention, a norm and a network; either may be one matrix, or left out."""
    cache = _attention(m, t, layer, kind)
    part = chosen_block(m.keys, layer, m.layers, "ffn")
    if part.flag("no_op", absent=False):
        return cache
    t.norm("post_attention_layernorm", m.hidden)
    if part.flag("replace_with_linear", absent=False):
        t.linear("mlp.linear_mlp", Kind.FFN, m.hidden, m.hidden)
    else:
        ffn.network(m, t, m.family.mlp, m.family.mlp.module, _width(m, part))
    return cache


def _attention(m: Model, t: Tensors, layer: int, kind: str) -> LayerCache:
    part = chosen_block(m.keys, layer, m.layers, "attention")
    if part.flag("no_op", absent=False):
        return LayerCache()
    t.norm("input_layernorm", m.hidden)
    if part.flag("replace_with_linear", absent=False):
        t.linear("self_attn.linear_attn", Kind.ATTENTION, m.hidden, m.hidden)
        return LayerCache()
    if part.value("window_length") is not None:
        raise NotEnoughMetadata(
            f"{part.named('window_length')} is set: how it is kept is not known"
        )
    return attention.grouped(m, t, layer, kind)


def _width(m: Model, part: Keys) -> int:
    """Two thirds of a multiple of the hidden size, rounded up."""
    if part.value("intermediate_size") is not None:
        return part.integer("intermediate_size")
    times = part.number("ffn_mult", absent=0.0)
    if not 0 < times <= MOST_TIMES:
        raise NotEnoughMetadata(f"{part.named('ffn_mult')} is missing or out of range")
    return -(-int(2 * times * m.hidden / 3) // MULTIPLE) * MULTIPLE
