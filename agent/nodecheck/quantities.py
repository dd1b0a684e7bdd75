"""Quantities as people write them: "10GiB", "40GB/s", "400d", "gen4x16".

What is written here reads back as the same; every failure is one line.
"""

from __future__ import annotations

import re

LARGEST_SIZE = 1e18
LONGEST_SECONDS = 100 * 366 * 86_400

_BYTES = {"": 1, "B": 1} | {
    f"{prefix}{kind}": base ** (power + 1)
    for power, prefix in enumerate("KMGT")
    for kind, base in (("B", 1000), ("iB", 1024))
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPANS_WRITTEN = ("d", "h", "m")
_LINK = r"gen([1-7])x(1|2|4|8|16)"
_NUMBER = r"\s*(\d+(?:\.\d+)?)\s*"


class QuantityError(ValueError):
    """Text that is no such quantity; the message is one line."""


def parse_size(text: str) -> int:
    """Bytes of "10GiB", "500 MB" or "1024"; KB is 1000, KiB 1024. Raises QuantityError."""
    match = re.fullmatch(_NUMBER + r"([KMGT]?i?B?)\s*", text, re.ASCII)
    if not match or match[2] not in _BYTES:
        raise QuantityError(f"{text[:40]!r} is no size; write it as 200GB or 10GiB")
    return round(_within(text, float(match[1]) * _BYTES[match[2]], LARGEST_SIZE))


def parse_rate(text: str) -> float:
    """Bytes a second of "40GB/s" or "900 MiB/s". Raises QuantityError."""
    match = re.fullmatch(_NUMBER + r"([KMGT]i?B|B)/s\s*", text, re.ASCII)
    if not match or match[2] not in _BYTES:
        raise QuantityError(f"{text[:40]!r} is no rate; write it as 40GB/s")
    return _within(text, float(match[1]) * _BYTES[match[2]], LARGEST_SIZE)


def parse_span(text: str) -> int:
    """Seconds of "90s", "15m", "12h", "30d" or "8w". Raises QuantityError."""
    match = re.fullmatch(_NUMBER + r"([smhdw])\s*", text, re.ASCII)
    if not match:
        raise QuantityError(f"{text[:40]!r} is no span of time; write it as 12h, 30d or 8w")
    return round(_within(text, float(match[1]) * _SECONDS[match[2]], LONGEST_SECONDS))


def parse_link(text: str) -> tuple[int, int]:
    """PCIe generation and lanes of "gen4x16". Raises QuantityError."""
    match = re.fullmatch(_LINK, text, re.ASCII)
    if not match:
        raise QuantityError(f"{text[:40]!r} is no PCIe link; write it as gen4x16")
    return int(match[1]), int(match[2])


def write_size(size_bytes: int) -> str:
    """The shortest text that parse_size reads as so many bytes."""
    exact = (
        f"{number}{unit}"
        for unit, factor in _BYTES.items()
        if unit
        if float(number := f"{size_bytes / factor:.3f}".rstrip("0").rstrip(".")) >= 1
        if round(float(number) * factor) == size_bytes
    )
    return min(exact, key=len, default=f"{size_bytes}B")


def write_rate(bytes_per_second: float) -> str:
    """The shortest text that parse_rate reads as this rate, to a byte a second."""
    return f"{write_size(round(bytes_per_second))}/s"


def write_span(seconds: int) -> str:
    """The shortest text that parse_span reads as so many seconds."""
    for unit in _SPANS_WRITTEN:
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds // _SECONDS[unit]}{unit}"
    return f"{seconds}s"


def _within(text: str, value: float, most: float) -> float:
    if value > most:
        raise QuantityError(f"{text[:40]!r} is more than can be meant")
    return value
