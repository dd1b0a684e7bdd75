"""A board's memory slots, as `dmidecode -t 17` prints them, and the channels they lie on."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from nodecheck.checks.memory.facts import Dimm

SLOTS_PER_CHANNEL_MAX = 3
"""More slots behind one name than a channel has: it names something else (Dell: a processor)."""

_UNITS = {"kB": 1 << 10, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"(\d{1,9}) ([kKMGT]B)")
_SPEED = re.compile(r"(\d{2,6}) (?:MT/s|MHz)")

_ALONE, _END = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
_SOCKET = re.compile(rf"{_ALONE}(?:P|CPU|PROC|SOCKET)[ _-]?\d{{1,2}}{_END}", re.IGNORECASE)
_NODE = re.compile(rf"{_ALONE}NODE[ _-]?\d{{1,2}}{_END}", re.IGNORECASE)
_CONTROLLER = re.compile(rf"{_ALONE}(?:MC|Controller)[ _-]?(\d{{1,2}}){_END}", re.IGNORECASE)
_CHANNEL = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"channel[ _-]?([A-Z]|\d{{1,2}}){_END}",  # P0 CHANNEL A, P0_Node0_Channel0_Dimm0
        rf"DIMM[ _-]P\d[ _-]([A-P])\d{{1,2}}{_END}",  # DIMM_P0_A0
        rf"(?:DIMM|DDR\d)[ _-]?([A-O])\d{{0,2}}{_END}",  # DIMM_A1, P1-DIMMA1, DDR4_A1
        rf"{_ALONE}C(\d{{1,2}})[ _-]?D\d{{1,2}}{_END}",  # CPU0_C0D0, P0_C0_D0
        rf"{_ALONE}CH[ _-]?([A-P]){_END}",  # DIMM_CHA_0, ChA-DIMM0
        rf"{_ALONE}CPU\d[ _-]([A-P])\d{{1,2}}{_END}",  # CPU0_A0
    )
)


def parse(text: str) -> tuple[Dimm, ...]:
    """The slots that dmidecode prints; firmware chips and blocks without a name are left out."""
    blocks = (
        _fields(block) for block in re.split(r"^Memory Device\s*$", text, flags=re.MULTILINE)[1:]
    )
    return _with_plausible_channels(
        [
            _dimm(fields)
            for fields in blocks
            if fields.get("Locator") and fields.get("Type") != "Flash"
        ]
    )


def _fields(block: str) -> dict[str, str]:
    """The indented `Name: value` lines that directly follow a block's title."""
    fields: dict[str, str] = {}
    for line in block.splitlines()[1:]:
        name, colon, value = line.strip().partition(":")
        if not colon or not line[:1].isspace():
            break
        fields.setdefault(name, value.strip())
    return fields


def _dimm(fields: dict[str, str]) -> Dimm:
    locator, bank = fields["Locator"], fields.get("Bank Locator")
    names = f"{bank or ''} {locator}"
    configured = fields.get("Configured Memory Speed") or fields.get("Configured Clock Speed")
    return Dimm(
        locator=locator,
        bank=bank,
        socket=_first(_SOCKET, names) or _first(_NODE, names),
        channel=_channel(names),
        size_bytes=_size(fields.get("Size", "")),
        speed_mts=_speed(fields.get("Speed")),
        configured_mts=_speed(configured),
    )


def _first(pattern: re.Pattern[str], names: str) -> str | None:
    found = pattern.search(names)
    return found[0].upper() if found else None


def _channel(names: str) -> str | None:
    """The channel, with the memory controller or the die that it belongs to before it."""
    found = next((match for pattern in _CHANNEL if (match := pattern.search(names))), None)
    if found is None:
        return None
    controller = _CONTROLLER.search(names)
    die = _first(_NODE, names) if _SOCKET.search(names) else None
    above = [part for part in (die, controller and controller[1]) if part]
    return ":".join([*above, found[1].upper()])


def _size(text: str) -> int | None:
    """Bytes; 0 for an empty slot, None where the firmware does not say."""
    if text in ("No Module Installed", "Not Installed"):
        return 0
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def _speed(text: str | None) -> int | None:
    match = _SPEED.fullmatch(text or "")
    return int(match[1]) if match else None


def _with_plausible_channels(dimms: list[Dimm]) -> tuple[Dimm, ...]:
    slots = Counter((dimm.socket, dimm.channel) for dimm in dimms if dimm.channel)
    if not slots or max(slots.values()) <= SLOTS_PER_CHANNEL_MAX:
        return tuple(dimms)
    return tuple(msgspec.structs.replace(dimm, channel=None) for dimm in dimms)
