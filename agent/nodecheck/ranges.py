"""Whether numbers can be true: what a lying file, driver or saved report may not make us print.

Members are told by their names, which carry their units.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

CPUS_MOST = 8192
"""The kernel's largest NR_CPUS on x86-64."""

LARGEST = 1e18
"""Above any count, size in bytes, or rate in bytes a second of one node."""

_CPU_COUNTS = ("logical_cpus", "physical_cores", "sockets", "threads", "thread_budget", "layers")
_POSITIVE = ("weight_bytes_shipped", "layers", "threads")
_SIGNED = ("numa_node", "mempolicy_errno")
_RATES = ("median_bytes_per_second", "vram_bytes_per_second")
_RATE_LEAST, _RATE_MOST = 1e3, 1e15
_NO_NUMBERS = frozenset((bool, bytes, str, type(None)))


def absurd(value: object, name: str = "") -> str | None:
    """The first number in a struct that cannot be true, as "path is value"; None where all can."""
    found = _impossible(value, name)
    return found and f"{(name + found[0]).removeprefix('.')} is {found[1]!r}"


def without_absurd(told: S) -> tuple[S, dict[str, str]]:
    """A struct without the members that cannot be true: those have their defaults, and their words.

    All of its members have defaults.
    """
    wrong = {name: absurd(getattr(told, name), name) for name in told.__struct_fields__}
    words = {name: text for name, text in wrong.items() if text}
    plain = type(told)()
    kept = {name: getattr(plain, name) for name in words}
    return (msgspec.structs.replace(told, **kept) if words else told), words


def _impossible(value: object, member: str) -> tuple[str, float] | None:
    """The path from here and the number; made on the way back, for thousands of reports pass."""
    if isinstance(value, (int, float)):
        low, high = _bounds(member)
        return None if low <= value <= high else ("", value)
    in_order = isinstance(value, (tuple, list))
    for key, item in _items(value):
        if type(item) in _NO_NUMBERS or item == ():
            continue
        found = _impossible(item, key if isinstance(key, str) else member)
        if found:
            return (f"[{key}]" if in_order else f".{key}") + found[0], found[1]
    return None


def _items(value: object) -> Iterable[tuple[Any, object]]:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value).items()
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, (tuple, list)) else ()


@functools.lru_cache(maxsize=4096)
def _bounds(member: str) -> tuple[float, float]:
    """The least and the most that a member can be."""
    if member in _SIGNED or member.endswith("_celsius"):  # margins are 0 and below
        return -LARGEST, LARGEST
    if member in _RATES:
        return _RATE_LEAST, _RATE_MOST
    least = math.ulp(0.0) if member in _POSITIVE else 0.0
    if member in _CPU_COUNTS:
        return least, CPUS_MOST
    return least, 1.0 if member.endswith("_share") else LARGEST
