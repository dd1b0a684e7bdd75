"""Modules that guess further tokens (multi-token prediction): stored, read by speculation. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nodecheck.serving import Kind
from nodecheck.workload.config import ffn
from nodecheck.workload.config.build import vocabulary_rows
from nodecheck.workload.config.layouts import LAYOUTS, mixed, norms
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.model import Model
from nodecheck.workload.config.tensors import Tensors
from nodecheck.workload.errors import WorkloadError

KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""Where configurations say how many modules there are."""

MOST_MODULES = 64
"""Modules that are taken for possible. Source: no model has more than three."""


def mtp_parts(m: Model) -> tuple[list[Matrix], int]:
    """The tensors of all modules, and how many modules there are."""
    name, _ = m.keys.find(KEYS)
    count = m.keys.integer_or(KEYS, 0, most=MOST_MODULES)
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
        raise WorkloadError(f"{m.keys.named(m.keys.find(KEYS)[0])} is set, but no layer attends")
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


MODULES: dict[str, Callable[[Model, int], list[Matrix]]] = {
    "deepseek": _deepseek,
    "glm5": _glm5,
    "qwen": _qwen,
    "mimo": _mimo,
    "ernie": _ernie,
}
"""The layouts that families name."""
