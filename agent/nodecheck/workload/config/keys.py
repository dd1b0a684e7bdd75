"""A configuration's keys, under the names that families give them, checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodecheck.workload.config.family import Says
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown

LARGEST = 2**31 - 1
"""No dimension is larger. Source: tensors' dimensions are int32 in SGLang's and vLLM's kernels."""

HIDDEN = ("hidden_size", "n_embd", "d_model", "n_embed", "model_dim")
LAYERS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers",
)  # fmt: skip
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
KV_HEADS = (
    "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num",
    "num_attention_groups",
)  # fmt: skip
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
WIDTH = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_inner")
VOCABULARY = ("vocab_size", "padded_vocab_size")
CONTEXT = (
    "max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len",
    "max_context_length", "max_sequence_length",
)  # fmt: skip
MODULES = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""Where configurations say how many modules guess further tokens."""

Names = tuple[str, ...]


class Keys:
    """The keys of a text model: `inner` of the whole configuration `top`, under `path`.

    `defaults` are what a nested configuration may leave out. `notes` gather what was assumed,
    `asked` the names of keys that were looked up.
    """

    def __init__(
        self,
        top: Mapping[str, Any],
        inner: Mapping[str, Any],
        path: str = "",
        defaults: Mapping[str, int] | None = None,
    ) -> None:
        """Look into `inner`; `path` names it in messages."""
        self.top = top
        self.inner = inner
        self.path = path
        self.defaults = defaults or {}
        self.notes: list[str] = []
        self.asked: set[str] = set()

    def note(self, text: str) -> None:
        """Say once what was assumed."""
        if text not in self.notes:
            self.notes.append(text)

    def named(self, name: str) -> str:
        """A key as messages name it."""
        return f"{self.path}.{name}" if self.path else name

    def find(self, names: str | Names) -> tuple[str, Any]:
        """The first of these keys that is there and not null, and its value; else None.

        A key that is there as null is not taken for absent: no default stands in for it.
        """
        names = (names,) if isinstance(names, str) else names
        self.asked.update(names)
        for name in names:
            if self.inner.get(name) is not None:
                return name, self.inner[name]
        if names[0] in self.defaults and not any(name in self.inner for name in names):
            value = self.defaults[names[0]]
            self.note(f"{self.named(names[0])} is absent: {value}, as the model's class defines")
            return names[0], value
        return names[0], None

    def value(self, names: str | Names) -> Any:
        """The first of these keys' values that is there."""
        return self.find(names)[1]

    def holds(self, name: str) -> bool:
        """Whether the key is there, null included."""
        return name in self.inner

    def integer(self, names: str | Names, *, least: int = 1, most: int = LARGEST) -> int:
        """A dimension that must be there."""
        name, value = self.find(names)
        if value is None:
            raise NotEnoughMetadata(f"{self.named(name)} is missing")
        return whole(self.named(name), value, least, most)

    def integer_or(
        self, names: str | Names, absent: int, *, least: int = 0, most: int = LARGEST
    ) -> int:
        """A dimension, or what its absence means."""
        name, value = self.find(names)
        return absent if value is None else whole(self.named(name), value, least, most)

    def integer_at(self, names: str | Names, layer: int, layers: int, *, least: int = 1) -> int:
        """A dimension that is one for all layers, or a list of one for each."""
        name, value = self.find(names)
        if not isinstance(value, list):
            return self.integer(names, least=least)
        if len(value) != layers:
            raise WorkloadError(self.wrong_length(name, len(value), layers))
        return whole(f"{self.named(name)}[{layer}]", value[layer], least)

    def flag(self, name: str, *, absent: bool) -> bool:
        """A yes or no, or what its absence means."""
        self.asked.add(name)
        value = self.inner.get(name)
        if value is None:
            return absent
        if not isinstance(value, bool):
            raise WorkloadError(f"{self.named(name)} is {shown(value)}, not true or false")
        return value

    def says(self, says: Says) -> bool:
        """What a trait comes to here."""
        return says if isinstance(says, bool) else self.flag(says.key, absent=says.absent)

    def number(self, name: str, *, absent: float) -> float:
        """A factor, or what its absence means."""
        self.asked.add(name)
        value = self.inner.get(name)
        if value is None:
            return absent
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise WorkloadError(f"{self.named(name)} is {shown(value)}, not a number")
        if not 0 <= value <= LARGEST:
            raise WorkloadError(f"{self.named(name)} is {shown(value)}, out of range")
        return float(value)

    def list_of(self, name: str) -> list[Any] | None:
        """A list, None where the key is absent or null."""
        self.asked.add(name)
        value = self.inner.get(name)
        if value is not None and not isinstance(value, list):
            raise WorkloadError(f"{self.named(name)} is {shown(value)}, not a list")
        return value

    def integers(self, name: str, length: int | None = None) -> list[int] | None:
        """A list of numbers from 0, of this length where one is given."""
        value = self.list_of(name)
        if value is None:
            return None
        if length is not None and len(value) != length:
            raise WorkloadError(self.wrong_length(name, len(value), length))
        return [whole(f"{self.named(name)}[{i}]", v, 0) for i, v in enumerate(value)]

    def wrong_length(self, name: str, length: int, layers: int) -> str:
        """Why a list or string that has an entry a layer cannot be."""
        return f"{self.named(name)} has {length} entries for {layers} layers"

    def section(self, name: str) -> Keys:
        """The object under a key, to be looked into alike."""
        self.asked.add(name)
        value = self.inner.get(name)
        if value is None:
            raise NotEnoughMetadata(f"{self.named(name)} is missing")
        if not isinstance(value, dict):
            raise WorkloadError(f"{self.named(name)} is {shown(value)}, not an object")
        keys = Keys(self.top, value, self.named(name))
        keys.notes = self.notes
        return keys


def whole(name: str, value: object, least: int, most: int = LARGEST) -> int:
    """A whole number of at least `least`; 32.0 is one, "32" and true are none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise WorkloadError(f"{name} is {_of(value)}, not a whole number")
    if value < least:
        raise WorkloadError(f"{name} is {value}, less than {least}")
    if value > most:
        raise WorkloadError(f"{name} is {shown(value)}, more than {most}")
    return value


def _of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the text "{shown(value)}"'
    return "a list" if isinstance(value, list) else shown(value)
