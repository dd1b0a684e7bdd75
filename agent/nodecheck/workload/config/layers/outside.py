"""What stands once in a model, outside of all layers: embeddings, the last norm, the head. Pure."""

from __future__ import annotations

from nodecheck.serving import Kind
from nodecheck.workload.config import keys as names
from nodecheck.workload.config.layers.extras import OUTSIDE
from nodecheck.workload.config.layers.model import Model
from nodecheck.workload.config.layers.tensors import Tensors
from nodecheck.workload.config.matrix import Matrix


def outside(m: Model, *, tied: bool) -> list[Matrix]:
    """Embeddings, the last norm, the head, and what else stands once in a model."""
    f, k = m.family, m.keys
    t = Tensors(m.root)
    width = k.integer_or("word_embed_proj_dim", m.hidden, least=1)
    rows = vocabulary_rows(m)
    t.add(f.embedding, Kind.EMBEDDING, rows + f.embedding_added, width, read_rows=1)
    if f.positions:
        positions = k.integer(names.CONTEXT) + f.positions_added
        t.add(f.positions, Kind.EMBEDDING, positions, m.hidden, read_rows=1)
    if f.embedding_norm:
        t.norm(f.embedding_norm, m.hidden, bias=True)
    if f.norm_weight and k.says(f.final_normed):
        t.norm(f.final_norm, m.hidden, bias=k.says(f.norm_bias))
    for name in f.beside:
        if name in OUTSIDE:
            OUTSIDE[name](m, t)
    return t.all + head(m, rows, width, tied=tied)


def head(m: Model, rows: int, columns: int, *, tied: bool) -> list[Matrix]:
    """What turns the stream into logits: read whole, stored unless it is the embedding."""
    t = Tensors("")
    t.add(m.head, Kind.OUTPUT, rows, columns, linear=not tied, stored=not tied)
    if m.keys.says(m.family.head_bias):
        t.add(f"{m.head}.bias", Kind.OUTPUT, rows)
    return t.all


def vocabulary_rows(m: Model) -> int:
    """Rows of the embedding: the vocabulary, padded where a key says so (mamba_ssm)."""
    rows = m.keys.integer(names.VOCABULARY)
    multiple = m.keys.integer_or("pad_vocab_size_multiple", 1, least=1)
    return -(-rows // multiple) * multiple
