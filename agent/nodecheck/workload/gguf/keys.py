"""The dimensions of a model among the keys of a GGUF file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from nodecheck.workload.assemble import MOST_LAYERS
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown
from nodecheck.workload.gguf.header import Skipped, Value

MOST_EXPERTS = 1024
"""Source: llama.cpp, src/llama-hparams.h, LLAMA_MAX_EXPERTS."""

MOST_DIMENSION = 1 << 24
"""Far above any model's. Keeps every product of sizes within 64 bits."""

PerLayer = tuple[int, ...]


@final
class Keys:
    """Keys of one architecture, checked as they are read.

    Each method takes a key without the architecture before it. A missing one is NotEnoughMetadata,
    one of a wrong type or size WorkloadError; both name it.
    """

    def __init__(self, metadata: Mapping[str, Value]) -> None:
        """NotEnoughMetadata where no architecture is named."""
        name = metadata.get("general.architecture")
        if name is None:
            raise NotEnoughMetadata("general.architecture")
        if not isinstance(name, str) or not name:
            raise WorkloadError(f"general.architecture is {_said(name)}, which is no name")
        self.architecture = name
        self._metadata = metadata

    def full(self, key: str) -> str:
        """As it stands in the file."""
        return f"{shown(self.architecture)}.{key}"

    def _get(self, key: str) -> Value | None:
        return self._metadata.get(f"{self.architecture}.{key}")

    def missing(self, key: str) -> NotEnoughMetadata:
        """The error that says so."""
        return NotEnoughMetadata(self.full(key))

    def wrong(self, key: str, problem: str) -> WorkloadError:
        """What is wrong with its value."""
        return WorkloadError(f"{self.full(key)} is {_said(self._get(key))}, {problem}")

    def given(self, key: str, *, least: int = 0, most: int = MOST_DIMENSION) -> int | None:
        """A whole number of `least` to `most`; None where the key is absent."""
        value = self._get(key)
        if value is None:
            return None
        return self._number(key, value, least, most)

    def number(
        self, key: str, default: int | None = None, *, least: int = 0, most: int = MOST_DIMENSION
    ) -> int:
        """The same; the default where it is absent, and without a default it is needed."""
        value = self.given(key, least=least, most=most)
        if value is None and default is None:
            raise self.missing(key)
        return default if value is None and default is not None else value or 0

    def _number(self, key: str, value: object, least: int, most: int) -> int:
        if type(value) is not int:
            raise self.wrong(key, "not a whole number")
        if not least <= value <= most:
            raise self.wrong(key, f"not from {least} to {most}")
        return value

    def per_layer(self, key: str, layers: int, *, most: int = MOST_DIMENSION) -> PerLayer | None:
        """One number a layer, or one for all; None where the key is absent."""
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, tuple):
            return (self._number(key, value, 0, most),) * layers
        if len(value) != layers:
            raise self.wrong(key, f"where {self.full('block_count')} is {layers}")
        return tuple(self._number(key, element, 0, most) for element in value)

    def pattern(self, key: str, layers: int) -> tuple[bool, ...] | int | None:
        """Yes or no for each layer, or a period; None where the key is absent."""
        value = self._get(key)
        if not isinstance(value, tuple):
            return self.given(key, most=MOST_LAYERS)
        if len(value) < layers:
            raise self.wrong(key, f"where {self.full('block_count')} is {layers}")
        if not set(value) <= {0, 1}:
            raise self.wrong(key, "not of yes and no")
        return tuple(bool(element) for element in value)


def _said(value: object) -> str:
    """A value in a message."""
    if isinstance(value, tuple):
        return f"an array of {len(value)} elements"
    if isinstance(value, Skipped):
        return f"an array of {value.count} elements" if value.kind != "string" else "strings"
    return f"the text {shown(value)!r}" if isinstance(value, str) else shown(value)
