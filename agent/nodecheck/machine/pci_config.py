"""The configuration space of a PCI device: what its link is set to, and what its port lets pass.

The kernel shows an ordinary user the first 64 bytes, which hold none of it, and root all 4,096.
Registers are those of the PCI Express Base Specification, by the offsets of Linux' pci_regs.h.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.links import GTS
from nodecheck.model import Struct

SIZE = 4096
USER_BYTES = 64
"""What a user without CAP_SYS_ADMIN may read."""

ACS_CONTROLS = (
    "source_validation",
    "translation_blocking",
    "request_redirect",
    "completion_redirect",
    "upstream_forwarding",
    "egress_control",
    "direct_translated",
)
"""Access Control Services, from bit 0 of the control register on."""

REDIRECTS = frozenset(("request_redirect", "completion_redirect", "egress_control"))
"""With any of these a port sends traffic between its devices up to the root. Source: Linux,
pci_bridge_has_acs_redir."""

_CAPABILITY_LIST, _FIRST_CAPABILITY = 0x10, 0x34
_EXPRESS = 0x10
_LINK_CAP, _LINK_CTL2, _LINK_STA2 = 0x0C, 0x30, 0x32
_EQUALISED = 0x2
_EXTENDED = 0x100
_SERIAL, _ACS, _ATS, _RESIZABLE_BAR = 0x0003, 0x000D, 0x000F, 0x0015
_ATS_ENABLED = 0x8000
_BARS = 6
_MIB_BITS = 20


class Config(Struct, frozen=True, kw_only=True):
    """What was set in a device's registers; None where they could not be read.

    Speeds are in GT/s, the width in lanes. `target_gts` is the fastest that this end lets its link
    train to, `equalised` whether the link was tuned for 8 GT/s. `acs` names the enabled controls,
    () for a device without them. `bar_maximum_bytes` is the largest that a resizable memory window
    (BAR) can be made, None for a device without one.
    """

    maximum_gts: float | None = None
    maximum_width: int | None = None
    target_gts: float | None = None
    equalised: bool | None = None
    acs: tuple[str, ...] | None = None
    ats: bool | None = None
    bar_maximum_bytes: int | None = None

    @property
    def acs_redirect(self) -> bool | None:
        """Whether peer traffic through this port goes by way of the root."""
        return None if self.acs is None else not REDIRECTS.isdisjoint(self.acs)


def parse(data: bytes) -> Config:
    """The registers of a configuration space; never raises, whatever the bytes."""
    data = data[:SIZE]
    express = _express(data)
    extended = dict(_extended(data))
    known = _number(data, _EXTENDED, 4) not in (None, 0xFFFFFFFF)
    acs, ats = extended.get(_ACS), extended.get(_ATS)
    control2 = _number(data, express + _LINK_CTL2, 2) if express else None
    status2 = _number(data, express + _LINK_STA2, 2) if express else None
    capable = _number(data, express + _LINK_CAP, 4) if express else None
    return Config(
        maximum_gts=None if capable is None else GTS.get(capable & 0xF),
        maximum_width=None if capable is None else (capable >> 4 & 0x3F) or None,
        target_gts=None if control2 is None else GTS.get(control2 & 0xF),
        equalised=None if status2 is None else bool(status2 & _EQUALISED),
        acs=_controls(_number(data, acs + 6, 2)) if acs else () if known else None,
        ats=_ats(_number(data, ats + 6, 2)) if ats else False if known else None,
        bar_maximum_bytes=_largest_window(data, extended.get(_RESIZABLE_BAR)),
    )


def without_serial(data: bytes) -> bytes:
    """The same without the device's serial number."""
    place = dict(_extended(data[:SIZE])).get(_SERIAL)
    if place is None:
        return data
    return data[: place + 4] + bytes(len(data[place + 4 : place + 12])) + data[place + 12 :]


def _number(data: bytes, offset: int, size: int) -> int | None:
    field = data[offset : offset + size]
    return int.from_bytes(field, "little") if len(field) == size else None


def _express(data: bytes) -> int | None:
    """Where the PCI Express capability lies."""
    if not (_number(data, 6, 2) or 0) & _CAPABILITY_LIST:
        return None
    seen: set[int] = set()
    here = _number(data, _FIRST_CAPABILITY, 1)
    while here and here not in seen:
        seen.add(here)
        here &= ~3
        if _number(data, here, 1) == _EXPRESS:
            return here
        here = _number(data, here + 1, 1)
    return None


def _extended(data: bytes) -> Iterator[tuple[int, int]]:
    """The extended capabilities: id and offset."""
    seen: set[int] = set()
    here = _EXTENDED
    while here >= _EXTENDED and here not in seen:
        seen.add(here)
        header = _number(data, here, 4)
        if not header or header == 0xFFFFFFFF:
            return
        yield header & 0xFFFF, here
        here = header >> 20 & ~3


def _controls(word: int | None) -> tuple[str, ...] | None:
    if word is None:
        return None
    return tuple(name for bit, name in enumerate(ACS_CONTROLS) if word >> bit & 1)


def _ats(word: int | None) -> bool | None:
    return None if word is None else bool(word & _ATS_ENABLED)


def _largest_window(data: bytes, place: int | None) -> int | None:
    """Bit 4 of a window's capability register stands for 1 MiB, bit 31 for 128 TiB."""
    if place is None:
        return None
    windows = min(_BARS, (_number(data, place + 8, 4) or 0) >> 5 & 0x7)
    registers = (_number(data, place + 4 + 8 * n, 4) or 0 for n in range(windows))
    largest = max((sizes >> 4).bit_length() for sizes in (0, *registers))
    return 1 << (_MIB_BITS + largest - 1) if largest else None
