"""Whether numbers can be true: what a lying file, driver or saved report may not make us print.

Members are told by their names, which carry their units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

CPUS_MOST = 8192
"""The kernel's largest NR_CPUS on x86-64."""

LARGEST = 1e18
"""Above any count, size in bytes, or rate in bytes a second of one node."""

_CPU_COUNTS = ("logical_cpus", "physical_cores", "sockets", "threads", "thread_budget", "layers")
_POSITIVE = ("weight_bytes_shipped", "layers", "threads")
_SIGNED = ("numa_node", "temperature_celsius", "mempolicy_errno")
_RATES = ("median_bytes_per_second", "vram_bytes_per_second")
_RATE_LEAST, _RATE_MOST = 1e3, 1e15


def absurd(value: object, name: str = "") -> str | None:
    """The first number in a struct that cannot be true, as "path is value"; None where all can."""
    return next((f"{path} is {number!r}" for path, number in _numbers(value, name)
                 if not _is_possible(path, number)), None)  # fmt: skip


def _numbers(value: object, path: str) -> Iterator[tuple[str, float]]:
    """Every number with the path that leads to it."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _numbers(getattr(value, field), f"{path}.{field}" if path else field)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, f"{path}.{key}")
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{path}[{index}]")


def _is_possible(path: str, number: float) -> bool:
    member = path.rpartition(".")[2].partition("[")[0]
    if not math.isfinite(number) or abs(number) > LARGEST:
        return False
    if member in _SIGNED:
        return True
    if member in _CPU_COUNTS and number > CPUS_MOST:
        return False
    if member.endswith("_share") and number > 1:
        return False
    if member in _RATES:
        return _RATE_LEAST <= number <= _RATE_MOST
    return number > 0 if member in _POSITIVE else number >= 0
