"""amdgpu's file gpu_metrics: a table of the card's firmware, in several layouts.

The table begins with its size in bytes, its format and its content revision. Format 1 is that of
cards; 2 and 3 are of graphics inside processors and are not read. All ones mean "not available".
Sources: Linux, kgd_pp_interface.h (layouts) and amdgpu_smu.h (the bits of indep_throttle_status).
"""

from __future__ import annotations

import struct

from nodecheck.checks.gpu.card_files import Reasons
from nodecheck.checks.gpu.facts import HW_SLOWDOWN, HW_THERMAL, POWER_CAP, SW_THERMAL
from nodecheck.model import Struct

_HEADER = struct.Struct("<HBB")
_CARDS = 1

_FIRST = {
    "edge": "4H", "hotspot": "6H", "memory": "8H", "busy": "16H", "power": "22H",
    "gfx_clock": "54H", "memory_clock": "58H",
}  # fmt: skip
_V1_4 = {"hotspot": "4H", "memory": "6H", "power": "10H", "busy": "12H"}
_V1_7 = {
    **_V1_4, "memory_gb_per_second": "16Q", "cycles": "40I", "prochot": "44I", "ppt": "48I",
    "socket_thermal": "52I", "vr_thermal": "56I", "hbm_thermal": "60I", "replays": "112Q",
    "rollovers": "120Q", "nak_sent": "128I", "nak_received": "132I", "gfx_clock": "296H",
    "memory_clock": "336H",
}  # fmt: skip
_LAYOUTS: dict[int, tuple[int, dict[str, str]]] = {
    1: (96, _FIRST),
    2: (104, _FIRST),
    3: (120, {**_FIRST, "throttled": "112Q"}),
    4: (288, {
        **_V1_4, "replays": "88Q", "rollovers": "96Q", "gfx_clock": "240H", "memory_clock": "280H",
    }),
    5: (328, {
        **_V1_4, "replays": "120Q", "rollovers": "128Q", "nak_sent": "136I", "nak_received": "140I",
        "gfx_clock": "280H", "memory_clock": "320H",
    }),
    6: (1664, {
        **_V1_4, "cycles": "32I", "prochot": "36I", "ppt": "40I", "socket_thermal": "44I",
        "vr_thermal": "48I", "hbm_thermal": "52I", "replays": "104Q", "rollovers": "112Q",
        "nak_sent": "120I", "nak_received": "124I", "gfx_clock": "264H", "memory_clock": "304H",
    }),
    7: (338, _V1_7),
    8: (338, _V1_7),
}  # fmt: skip
"""Content revision -> the least size, and each value's offset and width (as `struct` names it)."""

_EXACT = 6
"""Above this revision a table's end holds what partitions do, of which no reader needs the size."""

_BITS = {
    **dict.fromkeys(range(8), POWER_CAP),  # PPT 0 to 3, SPL, FPPT, SPPT: package power limits
    16: "amd_tdc_gfx", 17: "amd_tdc_soc", 18: "amd_tdc_mem", 19: "amd_tdc_vdd", 20: "amd_tdc_cvip",
    21: "amd_edc_cpu", 22: "amd_edc_gfx", 23: "amd_apcc",
    **dict.fromkeys(range(32, 44), SW_THERMAL),  # a sensor is at its limit: firmware gives way
    44: HW_THERMAL, 45: HW_THERMAL,  # the voltage regulators' own signal
    46: "amd_prochot_cpu",
    47: HW_SLOWDOWN,  # the pin PROCHOT: heat or power, the table does not say which
    56: "amd_ppm", 57: "amd_fit",
}  # fmt: skip
"""Bit of the throttle status that is the same for all cards -> reason.

TDC and EDC are limits of current. They are kept under AMD's names, as no other reason says that.
"""

VIOLATIONS = {
    "ppt": POWER_CAP,
    "socket_thermal": SW_THERMAL,
    "hbm_thermal": SW_THERMAL,
    "vr_thermal": SW_THERMAL,
    "prochot": HW_SLOWDOWN,
}
"""What may hold the clocks from MI300 on, by AMD's names -> reason.

The table counts the cycles in which each did, amd-smi says whether it does.
"""

_HELD_SHARE = 0.5
"""Of the cycles between two samples: for half of them and more the clocks are held."""


class Table(Struct, frozen=True, kw_only=True):
    """What was read of it, by this module's names; a value that is not available is missing."""

    values: dict[str, int]

    def get(self, name: str) -> int | None:
        """A value, None where the table has none."""
        return self.values.get(name)


def parse(content: bytes | None) -> Table | None:
    """The table of a card; None for one of an unknown layout, or whose size is another."""
    if content is None or len(content) < _HEADER.size:
        return None
    size, form, revision = _HEADER.unpack_from(content)
    least, layout = _LAYOUTS.get(revision, (0, {}))
    fits = size == least if revision <= _EXACT else size >= least
    if form != _CARDS or not layout or not fits or len(content) != size:
        return None
    found = {name: _value(content, place) for name, place in layout.items()}
    return Table(values={name: value for name, value in found.items() if value is not None})


def _value(content: bytes, place: str) -> int | None:
    form = struct.Struct(f"<{place[-1]}")
    value: int = form.unpack_from(content, int(place[:-1]))[0]
    return value if value != (1 << 8 * form.size) - 1 else None


def reasons(table: Table | None) -> Reasons | None:
    """What holds the clocks now, where one sample tells it."""
    status = table.get("throttled") if table is not None else None
    if status is None:
        return None
    bits = [bit for bit in range(64) if status >> bit & 1]
    return tuple(dict.fromkeys(_BITS.get(bit, hex(1 << bit)) for bit in bits))


def counts_reasons(table: Table | None) -> bool:
    """Whether it takes two samples to know what holds the clocks."""
    return table is not None and table.get("cycles") is not None


def reasons_between(first: Table, second: Table | None) -> Reasons | None:
    """What held the clocks for most of the time between two samples."""
    if second is None:
        return None
    cycles = _risen(first, second, "cycles")
    if not cycles:
        return None
    found: dict[str, None] = {}
    for name, reason in VIOLATIONS.items():
        held = _risen(first, second, name)
        if held is None:
            return None
        if held >= _HELD_SHARE * cycles:
            found[reason] = None
    return tuple(found)


def _risen(first: Table, second: Table, name: str) -> int | None:
    """By how much a counter of 32 bits rose; None where it is not there, or began anew."""
    before, after = first.get(name), second.get(name)
    return after - before if before is not None and after is not None and after >= before else None
