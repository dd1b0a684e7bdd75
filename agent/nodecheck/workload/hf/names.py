"""What a tensor of a Hugging Face checkpoint does, by its name. Pure.

Source of the names: the modules of transformers 5.24, and of the model code that checkpoints carry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodecheck.model import Struct
from nodecheck.serving import Kind

EXPERT = "experts.*"
"""Takes the place of an expert's number: experts of one layer are alike."""

_EXPERT_NUMBER = re.compile(r"experts\.\d+")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer|decoder_layers)\.(\d{1,6})(?:\.|$)")

_TOWER = re.compile(
    r"(?:^|\.)(?:"
    r"vision_\w+|visual\w*|vit|vpm|image_\w+|img_\w+|patch_\w+|sam_model\w*|siglip\w*|clip\w*|qformer"
    r"|audio_\w+|apm|speech_\w+|embed_(?:vision|audio)|conformer|whisper\w*"
    r"|multi_modal_projector|mm_projector|mm_\w+|projector|aligner|connector|resampler\w*|mlp1"
    r"|vl_\w+|gen_\w+|pre_mm_\w+|talker|token2wav|code2wav|code_predictor|tts"
    r")(?:\.|$)"
)
"""Modules that turn pictures and sound into tokens, or tokens into sound."""

_MTP = re.compile(r"(?:^|\.)(?:mtp\w*|nextn\w*|mtp_layers)\.")
MTP_PARTS = frozenset(("eh_proj", "enorm", "hnorm", "shared_head"))
"""Modules that only a layer that guesses the next tokens holds. Source: DeepSeek-V3, GLM-4.5."""

_TABLES = frozenset(
    (
        "embed_tokens", "wte", "word_embeddings", "tok_embeddings", "token_embd", "embeddings",
        "embed_in", "embedding", "emb",
    )
)  # fmt: skip
_OTHER_TABLES = frozenset(
    ("embed_tokens_per_layer", "wpe", "position_embeddings", "embed_positions", "ngram_embeddings")
)
_HEADS = frozenset(("lm_head", "embed_out", "output_layer", "output", "head", "ff_out"))
_BUFFERS = frozenset(("rotary_emb", "inv_freq", "masked_bias", "rotary_pos_emb", "freqs_cis"))
"""What old checkpoints store although it can be computed."""

_FFN = frozenset(
    (
        "mlp", "ffn", "feed_forward", "block_sparse_moe", "moe", "shared_mlp", "shared_expert",
        "shared_experts", "fc1", "fc2", "fc_in", "fc_out", "ff_proj", "ff_out", "up_proj",
        "gate_proj", "down_proj", "channel_mix",
    )
)  # fmt: skip
_EXPERTS = re.compile(
    r"(?:^|\.)(?:experts|switch_mlp)(?:\.|$)|moe\.(?:in|out)put_linear$"
    r"|^moe\.(?:gate|up|down)_proj(?:\.|$)"
)
_RECURRENT = frozenset(
    (
        "linear_attn", "mamba", "ssm", "conv", "short_conv", "time_mix", "att", "temporal_block",
        "delta_net", "kda", "gated_delta_net", "rglru",
    )
)  # fmt: skip
_STATEFUL = re.compile(r"\.(?:A_log|D|dt_bias|dt_proj|x_proj|conv1d|in_proj|out_proj)(?:\.|$)")
"""Parts of a Mamba mixer. Attention's are q_proj, k_proj, v_proj and o_proj."""

_ATTENTION = re.compile(r"att|[qkvo]_proj|qkv|query|sinks")
_NORM = re.compile(r"norm|^ln(?:_|\d|$)")


class Place(Struct, frozen=True):
    """A module's layer, None outside of all, and its kind."""

    layer: int | None
    kind: Kind


def without_expert_numbers(names: Sequence[str]) -> list[str]:
    """The names, with EXPERT where an expert's number stands."""
    lines = "\n".join(names)
    if lines.count("\n") == len(names) - 1:
        return _EXPERT_NUMBER.sub(EXPERT, lines).split("\n")
    return [_EXPERT_NUMBER.sub(EXPERT, name) for name in names]  # a name with a line end in it


def text_layer(module: str) -> int | None:
    """The number of a layer of the text model; None outside of all, in towers and MTP modules."""
    found = _LAYER.search(module)
    if found is None or _MTP.search(module) or _TOWER.search(module[: found.start() + 1]):
        return None
    return int(found[1])


def place(module: str, layers: int) -> Place:
    """Where a module belongs in a text model of so many layers; those behind them are MTP's."""
    found = _LAYER.search(module)
    number = int(found[1]) if found else None
    if _TOWER.search(module[: found.start() + 1] if found else module):
        return Place(None, Kind.OTHER)
    if _MTP.search(module):
        return Place(layers + (number or 0), Kind.MTP)
    if not _BUFFERS.isdisjoint(module.split(".")):
        return Place(number, Kind.OTHER)
    if found is None or number is None:
        return Place(None, _kind_outside(module))
    return Place(number, Kind.MTP if number >= layers else _kind_in_layer(module[found.end() :]))


def _kind_outside(module: str) -> Kind:
    """The last words count: a prefix says whose module it is."""
    last = frozenset(module.split(".")[-2:])
    if _is_norm(module):
        return Kind.NORM
    if last & (_TABLES | _OTHER_TABLES):
        return Kind.EMBEDDING
    return Kind.OUTPUT if last & _HEADS else Kind.FFN


def is_vocabulary(module: str) -> bool:
    """Whether an embedding is that of the tokens, which an output may share."""
    return not _TABLES.isdisjoint(module.split(".")[-2:])


def _is_norm(module: str) -> bool:
    return _NORM.search(module.removesuffix(".bias").rsplit(".", 1)[-1]) is not None


def _kind_in_layer(rest: str) -> Kind:
    words = rest.split(".")
    if _is_norm(rest):
        return Kind.NORM
    if _EXPERTS.search(rest):
        return Kind.EXPERTS
    if not _FFN.isdisjoint(words) and words[0] not in _RECURRENT:
        return Kind.FFN
    if not _RECURRENT.isdisjoint(words) or (words[0] == "mixer" and _STATEFUL.search(rest)):
        return Kind.RECURRENT
    return Kind.ATTENTION if _ATTENTION.search(rest) else Kind.FFN
