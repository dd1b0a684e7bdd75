"""Values as NVIDIA's tools print them: with units, as sentences, or as words for "not known"."""

from __future__ import annotations

import re

from nodecheck.units import MIB

NEUTRAL = ("n/a", "not supported", "not available", "unknown", "none", "")
"""What a card prints where it has no such thing; anything else that is no value is a failure."""

REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
}
"""Bits of the clock event reasons; newer drivers add some, which are kept as hex."""

_NUMBER = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:\s|x|%|C|W|M|$)")
LANES_LIMIT = 32
GENERATION_LIMIT = 8


def is_neutral(text: str) -> bool:
    """Whether the card says that it has no such thing."""
    return text.strip().strip("[]").casefold() in NEUTRAL


def number(text: str | None) -> float | None:
    """The leading number of `210.00 W`, `16x`, `97 %`; None for words, negatives and nonsense."""
    match = _NUMBER.match((text or "").strip())
    return float(match[1]) if match else None


def integer(text: str | None) -> int | None:
    """As number, rounded down."""
    value = number(text)
    return None if value is None else int(value)


def mebibytes(text: str | None) -> int | None:
    """`46068 MiB` in bytes."""
    value = number(text)
    return None if value is None else round(value * MIB)


def share(text: str | None) -> float | None:
    """`97 %` as 0.97."""
    value = number(text)
    return value / 100 if value is not None and value <= 100 else None


def lanes(text: str | None) -> int | None:
    """`16x` or `16`; 0 is not known."""
    value = integer(text)
    return value if value is not None and 0 < value <= LANES_LIMIT else None


def generation(text: str | None) -> int | None:
    """A PCIe generation, 1 to 7; 0 is not known."""
    value = integer(text)
    return value if value is not None and 0 < value < GENERATION_LIMIT else None


def performance_state(text: str | None) -> int | None:
    """`P8` as 8."""
    match = re.fullmatch(r"P(\d{1,2})", (text or "").strip())
    return int(match[1]) if match and int(match[1]) <= 15 else None


def switch(text: str | None) -> bool | None:
    """Enabled, On, Yes or 1 against Disabled, Off, No or 0."""
    word = (text or "").strip().casefold()
    if word in ("enabled", "on", "yes", "active", "1"):
        return True
    return False if word in ("disabled", "off", "no", "not active", "0") else None


def switch_or_lacking(text: str | None) -> bool | None:
    """As switch; what a card does not have is off."""
    return False if text is not None and is_neutral(text) else switch(text)


def packed_ids(text: str | None) -> str | None:
    """`0x26B510DE` (device and vendor in one) as `10de:26b5`."""
    match = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", (text or "").strip())
    if match is None or match[1] == "0000":
        return None
    return f"{match[2].lower()}:{match[1].lower()}"


def reason_names(mask: int) -> tuple[str, ...]:
    """The names of the bits that are set, unknown ones as hex."""
    names = [name for bit, name in REASONS.items() if mask & bit]
    unknown = mask & ~sum(REASONS)
    return (*names, f"0x{unknown:x}") if unknown else tuple(names)


def reason_mask(text: str | None) -> tuple[str, ...] | None:
    """`0x0000000000000004` as names."""
    match = re.fullmatch(r"0x([0-9A-Fa-f]{1,16})", (text or "").strip())
    return reason_names(int(match[1], 16)) if match else None
