"""What a configuration says of a model apart from bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodecheck.model import Struct
from nodecheck.serving import LayerCache
from nodecheck.workload.config import keys as names
from nodecheck.workload.config.families import BY_ARCHITECTURE, BY_TYPE
from nodecheck.workload.config.family import Family
from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.layers.ffn import expert_counts, has_experts
from nodecheck.workload.config.layers.kinds import layer_count, layer_kinds
from nodecheck.workload.config.layers.layouts import ATTENTION, layer_parts
from nodecheck.workload.config.layers.model import Model
from nodecheck.workload.config.layers.mtp import mtp_parts
from nodecheck.workload.config.layers.outside import outside, vocabulary_rows
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.text_model import TextModel, text_model
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown


class Description(Struct, frozen=True, kw_only=True):
    """Tensors, caches by layer, and the members of a workload that do not follow from either.

    `matrices` and `caches` are None where the architecture is not known: `unknown` says why.
    `layers` counts MTP modules too.
    """

    matrices: tuple[Matrix, ...] | None
    caches: dict[int, LayerCache] | None
    layers: int
    architecture: str | None
    unknown: str | None = None
    hidden_size: int | None = None
    vocabulary: int | None = None
    context_length: int | None = None
    kv_heads: int | None = None
    experts: int | None = None
    experts_used: int | None = None
    mtp_layers: int = 0
    state_element_bytes: int = 4
    sglang_keeps: bool = True
    llama_cpp_windows: bool = True
    notes: tuple[str, ...] = ()

    def members(self) -> dict[str, Any]:
        """What `assemble` takes beside weights, caches and name."""
        left_out = ("matrices", "caches", "unknown", "notes")
        return {f: getattr(self, f) for f in self.__struct_fields__ if f not in left_out}


def describe(config: Mapping[str, Any]) -> Description:
    """Read a parsed config.json.

    NotEnoughMetadata names a dimension that is missing, WorkloadError a key that makes no sense.
    An architecture that is not known is described as far as its keys go, and never guessed at.
    """
    notes: list[str] = []
    text = text_model(config, notes)
    if DRAFTS & set(text.architectures):
        raise NotEnoughMetadata("this is a draft model that uses another one's cache")
    family = family_of(text, notes)
    if family is None:
        return _unknown(text)
    keys = Keys(config, text.config, text.path, family.defaults if text.path else None)
    keys.notes = notes
    model = _model(family, keys, text)
    return _described(model, text)


DRAFTS = {"Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM"}
"""Classes whose layers attend to another model's keys and values.

Source: transformers, modeling_gemma4_assistant.py.
"""


def family_of(text: TextModel, notes: list[str]) -> Family | None:
    """The family that the classes name, else the one that the model types name.

    Where both are known and differ the class counts: it is what engines load by.
    """
    by_class = next((BY_ARCHITECTURE[n] for n in text.architectures if n in BY_ARCHITECTURE), None)
    by_type = next((BY_TYPE[n] for n in text.model_types if n in BY_TYPE), None)
    if by_class is None and by_type is None:
        return None
    if by_class is None or by_type is None:
        return _by_one(text, by_class, by_type, notes)
    if by_class is by_type:
        return by_class
    if text.path and text.model_types[0] in BY_TYPE:
        return by_type
    notes.append(
        f"model_type is {shown(text.model_types[0])}, but {shown(text.architectures[0])} is a "
        f"class of {by_class.types[0]}: taken as the latter"
    )
    return by_class


def _by_one(
    text: TextModel, by_class: Family | None, by_type: Family | None, notes: list[str]
) -> Family | None:
    """The family that one of the two names; a note where the other is there and is not known."""
    other = text.architectures if by_class is None else text.model_types
    family = by_class or by_type
    if other and family is not None and not text.path:
        notes.append(f"{shown(other[0])} is not known: taken as {family.types[0]}")
    return family


def _unknown(text: TextModel) -> Description:
    """A model of which only the usual names can be said."""
    keys = Keys(text.config, text.config, text.path)
    name = next(iter((*text.architectures, *text.model_types)), None)
    if name is None:
        why = "model_type is missing: give the weights (safetensors, GGUF)"
    else:
        why = f"unknown architecture {shown(name)}: give the weights (safetensors, GGUF)"
    return Description(
        matrices=None,
        caches=None,
        layers=layer_count(keys) if keys.value(names.LAYERS) is not None else 0,
        architecture=name,
        unknown=why,
        notes=(why,),
    )


def _model(family: Family, keys: Keys, text: TextModel) -> Model:
    for key in family.required:
        keys.integer(key, least=0)
    kinds = layer_kinds(family, keys, layer_count(keys))
    root, head = text.root or family.root, family.head
    if text.root and text.root.endswith(".model"):
        head = f"{text.root.removesuffix('.model')}.{family.head}"
    return Model(family, keys, kinds, root, head)


def _described(m: Model, text: TextModel) -> Description:
    keys, family = m.keys, m.family
    tied = _tied(m)
    matrices, caches = layer_parts(m)
    matrices += outside(m, tied=tied)
    modules, mtp_layers = mtp_parts(m)
    experts, used = _experts(m)
    for tower in text.towers:
        keys.note(f"{tower}: that tower is not counted; give the weights to count it")
    for remark in family.remarks:
        keys.note(remark)
    _note_unasked(m)
    return Description(
        matrices=tuple(matrices + modules),
        caches=caches,
        layers=m.layers + mtp_layers,
        architecture=next(iter((*text.architectures[::-1], *text.model_types)), family.types[0]),
        hidden_size=m.hidden,
        vocabulary=vocabulary_rows(m),
        context_length=_context(m),
        kv_heads=_kv_heads(m),
        experts=experts,
        experts_used=used,
        mtp_layers=mtp_layers,
        state_element_bytes=_state_element_bytes(keys),
        sglang_keeps=family.sglang_keeps,
        llama_cpp_windows=family.llama_cpp_windows,
        notes=tuple(keys.notes),
    )


STRUCTURAL = (
    "attn_res_block_size", "block_configs", "compress_ratios", "hc_mult",
    "hidden_size_per_layer_input", "index_n_heads", "kv_lora_rank", "linear_attn_config",
    "linear_num_value_heads", "mla_use_output_gate", "moe_latent_size", "num_kv_shared_layers",
    "o_lora_rank", "routed_expert_hidden_size", "sparse_attention_config", "ssm_state_size",
    "use_cla",
)  # fmt: skip
"""Keys that add tensors or change caches in the families that have them.

Source: the families of this package, and DeepSeek-V4's own configuration.
"""


def _note_unasked(m: Model) -> None:
    """Say which of those keys are set in a model whose family knows nothing of them."""
    for name in STRUCTURAL:
        if m.keys.inner.get(name) and name not in m.keys.asked:
            m.keys.note(
                f"{m.keys.named(name)} is set, which is not known of {m.family.types[0]}: the "
                "figures may be wrong; give the weights (safetensors, GGUF)"
            )


TIED = ("tie_word_embeddings", "tie_embedding", "tie_embeddings")
"""What says so: the usual key, LFM2's, mamba_ssm's."""


def _tied(m: Model) -> bool:
    """Whether the head is the embedding: the outer level says it, else the inner, else the family.

    Source: transformers 5.24, the configuration classes' own values.
    """
    levels = [Keys(m.keys.top, m.keys.top), m.keys] if m.keys.path else [m.keys]
    said = [(keys, key) for keys in levels for key in TIED if keys.value(key) is not None]
    if not said:
        how = "tied" if m.family.tied else "not tied"
        m.keys.note(f"tie_word_embeddings is absent: {how}, as {m.family.types[0]} defines")
        return m.family.tied
    values = [keys.flag(key, absent=False) for keys, key in said]
    if len(set(values)) > 1:
        m.keys.note(f"{said[0][0].named(said[0][1])} counts, not {said[-1][0].named(said[-1][1])}")
    return values[0]


def _experts(m: Model) -> tuple[int | None, int | None]:
    """Experts of the first layer that has any, and those that a token takes."""
    e = m.family.experts
    if e is None or not m.keys.says(e.enabled):
        return None, None
    for layer, kind in enumerate(m.kinds):
        if kind == "moe" or (m.family.layout != "single" and has_experts(m, layer)):
            return expert_counts(m, layer)
    return None, None


def _context(m: Model) -> int | None:
    """Tokens that the model was made for: the largest of what the family's keys say."""
    keys = (names.CONTEXT, *((key,) for key in m.family.context))
    return max((m.keys.integer_or(k, 0) for k in keys), default=0) or None


def _kv_heads(m: Model) -> int | None:
    """Heads of keys and values in the first layer that attends; None for a latent."""
    for layer, kind in enumerate(m.kinds):
        if kind == "hybrid" or "grouped" in m.family.mixers.get(kind, ATTENTION):
            return m.heads(layer, kind).kv
    return None


STATE_TYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number of state, by what `mamba_ssm_dtype` names."""


def _state_element_bytes(keys: Keys) -> int:
    """What SGLang keeps a state in. Source: SGLang, mamba2_cache_params, get_mamba_ssm_dtype."""
    for level in (keys.inner, keys.top):
        value = level.get("mamba_ssm_dtype")
        if value is None:
            continue
        if not isinstance(value, str) or value not in STATE_TYPES:
            known = ", ".join(STATE_TYPES)
            raise WorkloadError(f"mamba_ssm_dtype is {shown(value)}, none of {known}")
        return STATE_TYPES[value]
    return 4
