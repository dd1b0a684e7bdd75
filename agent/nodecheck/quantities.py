"""Quantities as people write them: "10GiB", "40GB/s", "400d". Every failure is one line."""

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
_NUMBER = r"\s*(\d+(?:\.\d+)?)\s*"


class QuantityError(ValueError):
    """Text that is no such quantity; the message is one line."""


def parse_size(text: str) -> int:
    """Bytes of "10GiB", "500 MB" or "1024"; KB is 1000, KiB 1024. Raises QuantityError."""
    match = re.fullmatch(_NUMBER + r"([KMGT]?i?B?)\s*", text, re.ASCII)
    if not match or match[2] not in _BYTES:
        raise QuantityError(
            f"{text[:40]!r} is no size; write it as 10GiB, 500MB or a number of bytes"
        )
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


def _within(text: str, value: float, most: float) -> float:
    if value > most:
        raise QuantityError(f"{text[:40]!r} is more than can be meant")
    return value
