"""Modules that guess further tokens (multi-token prediction): stored, read by speculation. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.serving import Kind
from nodecheck.workload.config import keys as names
from nodecheck.workload.config.layers import ffn, kinds
from nodecheck.workload.config.layers.layouts import LAYOUTS, mixed, norms
from nodecheck.workload.config.layers.model import Model
from nodecheck.workload.config.layers.outside import vocabulary_rows
from nodecheck.workload.config.layers.tensors import Tensors
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.errors import WorkloadError

MOST_MODULES = 64
"""Modules that are taken for possible. Source: no model has more than three."""


def mtp_parts(m: Model) -> tuple[list[Matrix], int]:
    """The tensors of all modules, and how many modules there are."""
    name, _ = m.keys.find(names.MODULES)
    count = m.keys.integer_or(names.MODULES, 0, most=MOST_MODULES)
    if not count:
        return [], 0
    if not m.family.mtp:
        m.keys.note(
            f"{m.keys.named(name)} is {count}: how such modules are stored is not known for "
            f"{m.family.types[0]}; they are not counted"
        )
        return [], 0
    return [t for number in range(count) for t in MODULES[m.family.mtp](m, number)], count


def _layer(m: Model, t: Tensors) -> None:
    """A layer like the last that attends."""
    attending = [i for i, kind in enumerate(m.kinds) if kind not in ("recurrent", "mlp", "moe")]
    if not attending:
        key = m.keys.named(m.keys.find(names.MODULES)[0])
        raise WorkloadError(f"{key} is set, but no layer attends")
    like = attending[-1]
    LAYOUTS[m.family.layout](m, t, like, m.kinds[like])


def _deepseek(m: Model, number: int) -> list[Matrix]:
    """A layer after the others, with an embedding and a head of its own.

    Source: DeepSeek-V3's README_WEIGHTS; with it DeepSeek-V3 and GLM-4.5 come to the element
    counts of their published checkpoints.
    """
    t = _glm5(m, number)
    own = Tensors(f"{m.root}.{m.family.blocks}.{m.layers + number}", m.layers + number, Kind.MTP)
    rows = vocabulary_rows(m)
    own.add("embed_tokens", Kind.MTP, rows, m.hidden)
    own.linear("shared_head.head", Kind.MTP, rows, m.hidden)
    return t + own.all


def _glm5(m: Model, number: int) -> list[Matrix]:
    """The same without: embedding and head are the model's. With it GLM-5 comes to its count."""
    layer = m.layers + number
    t = Tensors(f"{m.root}.{m.family.blocks}.{layer}", layer, Kind.MTP)
    _layer(m, t)
    for name in ("enorm", "hnorm", "shared_head.norm"):
        t.norm(name, m.hidden)
    t.linear("eh_proj", Kind.MTP, m.hidden, 2 * m.hidden)
    return t.all


def _qwen(m: Model, number: int) -> list[Matrix]:
    """A layer and what joins the last state to the next token; embedding and head are shared.

    Source: SGLang, models/qwen3_5_mtp.py.
    """
    t = Tensors(f"mtp.layers.{number}", m.layers + number, Kind.MTP)
    _layer(m, t)
    if number:
        return t.all
    once = Tensors("mtp", m.layers, Kind.MTP)
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        once.norm(name, m.hidden)
    once.linear("fc", Kind.MTP, m.hidden, 2 * m.hidden)
    if m.keys.flag("mtp_use_dedicated_embeddings", absent=False):
        once.add("embed_tokens", Kind.MTP, vocabulary_rows(m), m.hidden)
    return t.all + once.all


def _mimo(m: Model, number: int) -> list[Matrix]:
    """A layer with three norms more; embedding and head are shared.

    Source: SGLang, models/mimo_mtp.py.
    """
    t = Tensors(f"{m.root}.mtp_layers.{number}", m.layers + number, Kind.MTP)
    _layer(m, t)
    for name in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
        t.norm(name, m.hidden)
    t.linear("input_proj", Kind.MTP, m.hidden, 2 * m.hidden)
    return t.all


def _ernie(m: Model, number: int) -> list[Matrix]:
    """A dense layer with two norms more; embedding and head are shared.

    Source: SGLang, models/ernie4_eagle.py.
    """
    t = Tensors(f"{m.root}.mtp_block.{number}", m.layers + number, Kind.MTP)
    norms(m, t)
    mixed(m, t, m.layers - 1, m.kinds[-1])
    ffn.dense(m, t, m.layers - 1)
    beside = Tensors(m.root, t.layer, Kind.MTP)
    beside.norm(f"mtp_emb_norm.{number}", m.hidden)
    beside.norm(f"mtp_hidden_norm.{number}", m.hidden)
    bias = m.keys.flag("use_bias", absent=False)
    beside.linear(f"mtp_linear_proj.{number}", Kind.MTP, m.hidden, 2 * m.hidden, bias=bias)
    return t.all + beside.all


def _nemotron(m: Model, number: int) -> list[Matrix]:
    """Blocks as a pattern of their own says; the first joins, the last norms.

    Source: SGLang, models/nemotron_h_mtp.py.
    """
    blocks = kinds.module_kinds(m.keys)
    if not blocks:
        m.keys.note("mtp_hybrid_override_pattern is absent: modules that guess ahead not counted")
    joined: list[Matrix] = []
    for place, kind in enumerate(blocks):
        if kind not in ("full", "moe", "mlp"):
            raise WorkloadError(f"a module that guesses ahead holds a {kind} block")
        block = Tensors(f"mtp.layers.{number * len(blocks) + place}", m.layers + number, Kind.MTP)
        LAYOUTS[m.family.layout](m, block, 0, kind)
        if not place:
            block.norm("enorm", m.hidden)
            block.norm("hnorm", m.hidden)
            block.linear("eh_proj", Kind.MTP, m.hidden, 2 * m.hidden)
        if place == len(blocks) - 1:
            block.norm("final_layernorm", m.hidden)
        joined += block.all
    return joined


MODULES: dict[str, Callable[[Model, int], list[Matrix]]] = {
    "deepseek": _deepseek,
    "glm5": _glm5,
    "qwen": _qwen,
    "mimo": _mimo,
    "ernie": _ernie,
    "nemotron": _nemotron,
}
"""The layouts that families name."""
