"""Values as NVIDIA's tools print them: with units, as sentences, or as words for "not known"."""

from __future__ import annotations

import re

from nodecheck.checks.gpu.card_files import HOTTEST_CELSIUS
from nodecheck.checks.gpu.nvml_words import ERRORS
from nodecheck.machine.nvml_codes import ALL_ONES
from nodecheck.machine.pci import WIDTH_LIMIT
from nodecheck.units import MIB

NEUTRAL = ("n/a", "not supported", "not available", "unknown", "none", "")
"""What a card prints where it has no such thing; anything else that is no value is a failure."""

FAILURES = frozenset(
    ("err!", "error", "gpu is inaccessible", *(words.casefold() for words in ERRORS.values()))
)
"""What stands in the place of a value that could not be had: NVML's words for its errors."""

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
    0x200: "board_limit",
    0x400: "reliability",
}
"""Bits of the clock event reasons; newer drivers add some, which are kept as hex."""

COMPUTE_MODES = {
    "default": "default",
    "e. process": "exclusive_process",
    "exclusive process": "exclusive_process",
    "exclusive_process": "exclusive_process",
    "prohibited": "prohibited",
}
RECOVERY_ACTIONS = {
    "none": "none",
    "reset": "reset_gpu",
    "gpu reset": "reset_gpu",
    "gpu reset required": "reset_gpu",
    "reboot": "reboot",
    "node reboot": "reboot",
    "node reboot required": "reboot",
    "system reboot": "reboot",
    "drain p2p": "drain_p2p",
    "drain and reset": "drain_and_reset",
    "recover imex domain": "recover_imex",
    "imex domain recovery": "recover_imex",
    "bus reset": "reset_bus",
    "reset bus": "reset_bus",
}
"""nvidia-smi's words, and those of Xid 154, for what the driver asks for."""

_NUMBER = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:\s|x|%|C|W|M|$)")
_COUNT = re.compile(r"(\d{1,18})(?: bank\(s\))?")
_DEGREES = re.compile(r"([+-]?\d{1,3})(?: ?C)?")
_RATE = re.compile(r"(\d{1,12}) ([KM])B/s")
_UUID = re.compile(r"GPU-[0-9A-Fa-f-]{8,80}")
_SERIAL = re.compile(r"(?=[A-Za-z-]*\d)[0-9A-Za-z-]{4,32}")
_VBIOS = re.compile(r"[0-9A-Za-z]{1,4}(?:\.[0-9A-Za-z]{1,4}){2,6}")
_CAPABILITY = re.compile(r"\d{1,2}\.\d{1,2}")
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?!\S)")
GENERATION_LIMIT = 8


def is_neutral(text: str) -> bool:
    """Whether the card says that it has no such thing."""
    return text.strip().strip("[]").casefold() in NEUTRAL


def is_told(text: str) -> bool:
    """Whether the text is a value: neither a word for none nor one for a failure."""
    return not is_neutral(text) and text.strip().strip("[]").casefold() not in FAILURES


def number(text: str | None) -> float | None:
    """The leading number of `210.00 W`, `16x`, `97 %`; None for words, negatives and nonsense."""
    match = _NUMBER.match((text or "").strip())
    return float(match[1]) if match else None


def integer(text: str | None) -> int | None:
    """As number, rounded down."""
    value = number(text)
    return None if value is None else int(value)


def count(text: str | None) -> int | None:
    """A whole number of up to 18 digits: `4`, `192 bank(s)`."""
    match = _COUNT.fullmatch((text or "").strip())
    return int(match[1]) if match and int(match[1]) not in ALL_ONES else None


def degrees(text: str | None) -> int | None:
    """`61 C`, and for margins `-8 C` or `+9 C`."""
    match = _DEGREES.fullmatch((text or "").strip())
    value = int(match[1]) if match else None
    return value if value is not None and abs(value) <= HOTTEST_CELSIUS else None


def seconds(text: str | None) -> float | None:
    """`25483123456 us` in seconds."""
    words = (text or "").split()
    value = count(words[0]) if len(words) == 2 and words[1] == "us" else None
    return None if value is None else value / 1e6


def bytes_per_second(text: str | None) -> float | None:
    """`1066699 KB/s`; nvidia-smi's KB are 1000 bytes."""
    match = _RATE.fullmatch((text or "").strip())
    return float(match[1]) * (1e3 if match[2] == "K" else 1e6) if match else None


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
    return value if value is not None and 0 < value <= WIDTH_LIMIT else None


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


def uuid(text: str | None) -> str | None:
    """`GPU-` and hexadecimal digits."""
    return _whole(_UUID, text)


def serial(text: str | None) -> str | None:
    """The board's number, which may hold letters."""
    return _whole(_SERIAL, text)


def vbios_version(text: str | None) -> str | None:
    """`96.00.A5.00.01`."""
    return _whole(_VBIOS, text)


def compute_capability(text: str | None) -> str | None:
    """`8.9`."""
    return _whole(_CAPABILITY, text)


def version(text: str | None) -> str | None:
    """A driver's or CUDA's version, without a sentence that follows it."""
    match = _VERSION.match((text or "").strip())
    return match[0] if match else None


def _whole(pattern: re.Pattern[str], text: str | None) -> str | None:
    match = pattern.fullmatch((text or "").strip())
    return match[0] if match else None


def compute_mode(text: str | None) -> str | None:
    """`Default`, `Exclusive_Process` or (in the table) `E. Process`, `Prohibited`."""
    return COMPUTE_MODES.get((text or "").strip().casefold())


def recovery_action(text: str | None) -> str | None:
    """What the driver asks for; None is an answer, N/A is not."""
    return RECOVERY_ACTIONS.get((text or "").strip().casefold())


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
    """`0x0000000000000004` as names; all ones are no mask."""
    match = re.fullmatch(r"0x([0-9A-Fa-f]{1,16})", (text or "").strip())
    mask = int(match[1], 16) if match else None
    return None if mask is None or mask in ALL_ONES else reason_names(mask)
