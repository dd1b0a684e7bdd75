"""A family and a configuration together, and how many heads each layer has. Pure."""

from __future__ import annotations

from nodecheck.model import Struct
from nodecheck.workload.config import keys as names
from nodecheck.workload.config.family import Family
from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.layers.kinds import chosen_block
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError


class Heads(Struct, frozen=True, kw_only=True):
    """Query and key/value heads of a layer, and how many numbers each has."""

    query: int
    kv: int
    dim: int
    value_dim: int


class Model:
    """A family and a configuration's keys; `root` begins the names of its tensors."""

    def __init__(self, family: Family, keys: Keys, kinds: list[str], root: str, head: str) -> None:
        """Read the width; `kinds` are those of the layers."""
        self.family = family
        self.keys = keys
        self.kinds = kinds
        self.layers = len(kinds)
        self.root = root
        self.head = head
        self.hidden = keys.integer(names.HIDDEN)

    def heads(self, layer: int, kind: str) -> Heads:
        """The heads of a layer of this kind."""
        return HEADS[self.family.heads](self, layer, kind)

    def window(self, kind: str) -> int | None:
        """The last tokens that a layer of this kind keeps; None where it keeps all."""
        key = WINDOWS.get(kind)
        if key is None:
            return None
        if not self.keys.holds(key) and key not in self.keys.defaults:
            raise NotEnoughMetadata(f"{self.keys.named(key)} is missing")
        return self.keys.integer_or(key, 0) or None


WINDOWS = {"sliding": "sliding_window", "chunked": "attention_chunk_size"}


def query_heads(m: Model) -> int:
    """Heads of the query."""
    return m.keys.integer(names.HEADS)


def head_dim(m: Model) -> int:
    """Numbers of a head: what a key says, else the hidden size shared out."""
    said = m.keys.integer_or(names.HEAD_DIM, 0, least=1)
    if said:
        return said
    heads = query_heads(m)
    if m.hidden % heads:
        raise NotEnoughMetadata(
            f"{m.keys.named('head_dim')} is missing, and hidden size {m.hidden} is no multiple "
            f"of {heads} heads"
        )
    return m.hidden // heads


def grouped(m: Model, _layer: int = 0, _kind: str = "full") -> Heads:
    """Heads of keys and values are fewer than the query's: what a key says."""
    query = query_heads(m)
    kv = m.keys.integer_or(names.KV_HEADS, 0, least=1)
    if not kv:
        kv = query
        m.keys.note(
            f"{m.keys.named('num_key_value_heads')} is absent: {query}, as many as attention heads"
        )
    return checked(m, query, kv, head_dim(m))


def checked(m: Model, query: int, kv: int, dim: int, value_dim: int = 0) -> Heads:
    """Heads that can be: each key/value head serves as many query heads."""
    if kv > query or query % kv:
        raise WorkloadError(
            f"{m.keys.named(m.keys.find(names.KV_HEADS)[0])} is {kv}, which does not divide "
            f"{query} attention heads"
        )
    return Heads(query=query, kv=kv, dim=dim, value_dim=value_dim or dim)


def multi(m: Model, _layer: int, _kind: str) -> Heads:
    """As many heads of keys and values as of the query, whatever keys say."""
    query = query_heads(m)
    return Heads(query=query, kv=query, dim=head_dim(m), value_dim=head_dim(m))


def value_width(m: Model, layer: int, kind: str) -> Heads:
    """Values are narrower than keys, and sliding layers have heads of their own (MiMo-V2)."""
    if kind == "sliding":
        query = m.keys.integer(("swa_num_attention_heads", *names.HEADS))
        kv = m.keys.integer("swa_num_key_value_heads")
        dim = m.keys.integer(("swa_head_dim", "head_dim"))
        return checked(m, query, kv, dim, m.keys.integer(("swa_v_head_dim", "v_head_dim")))
    h = grouped(m, layer, kind)
    return checked(m, h.query, h.kv, h.dim, m.keys.integer("v_head_dim"))


def of_kind(m: Model, layer: int, kind: str) -> Heads:
    """Full layers have heads of their own (Gemma 4)."""
    h = grouped(m, layer, kind)
    if kind != "full":
        return h
    kv = h.kv
    if m.keys.flag("attention_k_eq_v", absent=False):
        kv = m.keys.integer_or("num_global_key_value_heads", kv, least=1)
    return checked(m, h.query, kv, m.keys.integer("global_head_dim"))


def per_layer(m: Model, layer: int, _kind: str) -> Heads:
    """Each layer has as many heads as its entry of a list says (OpenELM)."""
    query = m.keys.integer_at(names.HEADS, layer, m.layers)
    kv = m.keys.integer_at(names.KV_HEADS, layer, m.layers)
    return checked(m, query, kv, m.keys.integer("head_dim"))


def query_per_layer(m: Model, layer: int, kind: str) -> Heads:
    """Each layer has query heads of its own number (Laguna)."""
    h = grouped(m, layer, kind)
    said = m.keys.integers("num_attention_heads_per_layer", m.layers)
    return h if said is None else checked(m, said[layer], h.kv, h.dim)


def falcon(m: Model, _layer: int, _kind: str) -> Heads:
    """One head of keys and values, or as many as a key says in the newer architecture."""
    query = query_heads(m)
    kv = m.keys.integer_or(names.KV_HEADS, query, least=1)
    if not m.keys.flag("new_decoder_architecture", absent=False):
        kv = 1 if m.keys.flag("multi_query", absent=True) else query
    return checked(m, query, kv, head_dim(m))


def one_shared(m: Model, _layer: int, _kind: str) -> Heads:
    """One head of keys and values (GPT BigCode)."""
    query = query_heads(m)
    kv = 1 if m.keys.flag("multi_query", absent=True) else query
    return checked(m, query, kv, head_dim(m))


def attn_config(m: Model, _layer: int, _kind: str) -> Heads:
    """Keys and values as an inner section says (DBRX, MPT)."""
    query = query_heads(m)
    section = m.keys.section("attn_config") if m.keys.value("attn_config") else None
    kv = query if section is None else section.integer_or("kv_n_heads", query, least=1)
    return checked(m, query, kv, head_dim(m))


def groups(m: Model, layer: int, kind: str) -> Heads:
    """Groups of queries, unless a key says that there are none (ChatGLM)."""
    if m.keys.flag("multi_query_attention", absent=False):
        return grouped(m, layer, kind)
    return multi(m, layer, kind)


def doubled(m: Model, _layer: int, _kind: str) -> Heads:
    """Attention works on twice the hidden width (Zamba2)."""
    query = query_heads(m)
    kv = m.keys.integer_or(names.KV_HEADS, query, least=1)
    dim = m.keys.integer_or("attention_head_dim", 2 * m.hidden // query, least=1)
    return checked(m, query, kv, dim)


def chosen(m: Model, layer: int, _kind: str) -> Heads:
    """Query heads share keys and values in groups whose size is a layer's own (Nemotron NAS)."""
    part = chosen_block(m.keys, layer, m.layers, "attention")
    query = query_heads(m)
    return checked(m, query, query // part.integer("n_heads_in_group", most=query), head_dim(m))


def sliding_own(m: Model, layer: int, kind: str) -> Heads:
    """Sliding layers may have heads of another number (Step 3.5).

    Source: transformers, Step3p7TextConfig.
    """
    h = grouped(m, layer, kind)
    if kind != "sliding":
        return h
    other = (
        m.keys.section("attention_other_setting")
        if m.keys.value("attention_other_setting")
        else None
    )
    query = m.keys.integer_or("num_sliding_attention_heads", 0, least=1)
    if other is None:
        return checked(m, query or h.query, h.kv, h.dim)
    query = query or other.integer(names.HEADS)
    kv = other.integer_or(("num_attention_groups",), h.kv, least=1)
    return checked(m, query, kv, other.integer_or("head_dim", h.dim, least=1))


HEADS = {
    "grouped": grouped,
    "multi": multi,
    "value_width": value_width,
    "of_kind": of_kind,
    "per_layer": per_layer,
    "query_per_layer": query_per_layer,
    "falcon": falcon,
    "one_shared": one_shared,
    "attn_config": attn_config,
    "groups": groups,
    "doubled": doubled,
    "chosen": chosen,
    "sliding_own": sliding_own,
}
"""The rules that families name."""
