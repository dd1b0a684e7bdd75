"""A model whose sizes are known, as the tables of this folder write it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Known(NamedTuple):
    """Parameters without modules that guess ahead; numbers cached a token, in so many layers."""

    name: str
    config: dict[str, Any]
    parameters: int
    kv_elements: int
    kv_layers: int


def model(name: str, parameters: int, kv_elements: int, kv_layers: int, **config: Any) -> Known:
    return Known(name, config, parameters, kv_elements, kv_layers)


def every(
    layers: int, number: int, most: str = "sliding_attention", one: str = "full_attention"
) -> list[str]:
    """One of so many layers is of another kind, the last of each group."""
    return [most if (i + 1) % number else one for i in range(layers)]


def placed(layers: int, numbers: Iterable[int], one: str, rest: str) -> list[str]:
    """Layers of these numbers are of one kind, the rest of another."""
    ones = set(numbers)
    return [one if i in ones else rest for i in range(layers)]
