"""One card's files in sysfs, and its link as its slot sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nodecheck.checks.gpu.facts import HOLDING, Gpu
from nodecheck.links import GENERATIONS, holds_a_switch
from nodecheck.machine import pci
from nodecheck.machine.pci import PciDevice
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Struct

SECOND_SAMPLE_SECONDS = 1.0

HOTTEST_CELSIUS = 200
STRONGEST_WATTS = 5000.0
FASTEST_MHZ = 20_000
"""Above these stands no value but a register's all ones, or nonsense."""

_ALL_ONES = (1 << 32) - 1
_MOST = 10**15
"""Above any count of a card, and any size in bytes."""

Reasons = tuple[str, ...]
Refusals = dict[str, tuple[Reason, str]]
"""A member of Gpu, by dots within it -> why the card's driver does not tell it, and its words."""

RefusalsByCard = dict[str, Refusals]
"""By `place_of` the card."""


def place_of(gpu: Gpu) -> str:
    """What a gap calls a card: its address, or its number where a source has none."""
    return gpu.pci_address or f"GPU {gpu.index}"


class Told(Struct, frozen=True, kw_only=True):
    """What a card's files tell; `gpu` names sysfs among its sources where they tell anything."""

    gpu: Gpu
    refusals: Refusals


class CardFiles:
    """Reads below a card's directory; what is refused there is kept, what is missing is not."""

    def __init__(self, reader: Reader, address: str) -> None:
        self.live = reader.host.live
        self.here = f"{pci.SYSFS}/{address}"
        self.refusals: Refusals = {}
        self._reader = reader

    def text(self, name: str, member: str | None = None) -> str | None:
        """A file's text, None where it is empty, missing or refused."""
        try:
            text = self._reader.host.read(f"{self.here}/{name}")
        except UnreadableError as error:
            if member is not None and error.reason is not Reason.ABSENT:
                self.refusals.setdefault(member, (error.reason, error.detail))
            return None
        return text.strip().strip("\0").strip() or None

    def number(self, name: str, member: str | None = None) -> int | None:
        """A count; a negative one and a register's all ones are none, and of `member` a gap."""
        text = self.text(name, member)
        value = count_of(text)
        if value is None and member is not None and text is not None and _is_number(text):
            self.refusals.setdefault(member, (Reason.FAILED, impossible(text)))
        return value

    def celsius(self, name: str, member: str | None = None) -> int | None:
        """A temperature that stands there in thousandths."""
        value = self.number(name, member)
        return value // 1000 if value is not None and value <= 1000 * HOTTEST_CELSIUS else None

    def watts(self, name: str, member: str | None = None) -> float | None:
        """A power that stands there in millionths; a limit of 0 is none."""
        value = self.number(name, member)
        return value / 1e6 if value and value <= 1e6 * STRONGEST_WATTS else None

    def mhz(self, name: str, member: str | None = None) -> int | None:
        """A clock in MHz; 0 stands for one that is switched off, and is none."""
        value = self.number(name, member)
        return value if value and value <= FASTEST_MHZ else None

    def binary(self, name: str, member: str) -> bytes | None:
        """A file that is no text."""
        try:
            return self._reader.host.read_bytes(f"{self.here}/{name}")
        except UnreadableError as error:
            if error.reason is not Reason.ABSENT:
                self.refusals.setdefault(member, (error.reason, error.detail))
            return None

    def names(self, directory: str = "") -> tuple[str, ...]:
        """The names in a directory below the card's."""
        return self._reader.names(f"{self.here}/{directory}".rstrip("/"))

    def names_at(self, path: str) -> tuple[str, ...]:
        """The names in a directory of the node."""
        return self._reader.names(path)

    def text_at(self, path: str) -> str | None:
        """The text of a file of the node."""
        return self._reader.text(path, None)

    def sensors(self) -> str | None:
        """Where the card's hwmon files are: `hwmon/hwmon3`."""
        first = next((name for name in self.names("hwmon") if name.startswith("hwmon")), None)
        return f"hwmon/{first}" if first else None


def count_of(text: str | None) -> int | None:
    """A count, unless it is what a register without one reads."""
    if text is None or not (_is_number(text) and len(text) <= len(str(_MOST))):
        return None
    return int(text) if 0 <= int(text) <= _MOST and int(text) != _ALL_ONES else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()


def impossible(value: object) -> str:
    """The words of a gap for a number that cannot be true."""
    return f"impossible value {str(value)[:24]}"


def confirmed(
    first: Reasons | None, again: Callable[[], Reasons | None], *, live: bool
) -> Reasons | None:
    """The reasons with only those that hold the clocks down which a second sample shows too."""
    if first is None or not live or not set(first) & set(HOLDING):
        return first
    time.sleep(SECOND_SAMPLE_SECONDS)
    return lasting(first, again())


def lasting(first: Reasons, second: Reasons | None) -> Reasons | None:
    """Of a sample's reasons those that hold the clocks only where a second sample shows them too.

    None where there is no second sample: what only flashed is not told apart.
    """
    if second is None:
        return None
    return tuple(reason for reason in first if reason not in HOLDING or reason in second)


def link_of(way: Sequence[PciDevice]) -> dict[str, int | None]:
    """The members of Gpu that tell the link between the card and its slot."""
    inner = holds_a_switch([device.vendor for device in way])
    card, slot = (way[2], way[3]) if inner else (way[0], way[1] if len(way) > 1 else None)
    real = slot if slot is not None and not slot.emulated_port else None
    ends = [card, *([real] if real is not None else [])]
    speeds = {
        "link_generation": [end.current_gts for end in ends],
        "link_generation_max": [end.maximum_gts for end in ends],
        "link_generation_device_max": [card.maximum_gts],
        "link_generation_host_max": [real.maximum_gts] if real is not None else [],
    }
    widths = {
        "link_width": [end.current_width for end in ends],
        "link_width_max": [end.maximum_width for end in ends],
    }
    found = {member: _least(values) for member, values in widths.items()}
    for member, values in speeds.items():
        slowest = min((value for value in values if value is not None), default=None)
        found[member] = GENERATIONS.get(slowest) if slowest is not None else None
    return found


def _least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
