"""The NVIDIA driver's messages: Xids in all their forms, GPUs that fell off the bus, recoveries."""

from __future__ import annotations

import re

import msgspec

from nodecheck.checks.kernel_log.facts import Xid

TEXTS_AT_MOST = 20
"""Different texts of one Xid that are kept apart; further ones count as one more."""

MESSAGES_AT_MOST = 20
UNKNOWN = "unknown"

WRAPPED_LIMIT = 1000
WRAPPED_LINES = 5
"""A message about a lost GPU is wrapped over this many lines of the driver."""

_ADDRESS = r"((?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{_ADDRESS}(?: [^)]*)?\): (\d{{1,6}})(?:, ?(.*))?$")
_PROCESS_ID = re.compile(r"pid='?[^,']{0,20}'?(?:, |$)")
_PROCESS_NAME = re.compile(
    r"name=(?:"
    r"'?[^,]{0,15}'?, (?=Ch |Channel )"  # what the driver says next is known
    r"|'?.{0,15}'?(?:, |$)"  # a name has 15 characters at most, and may hold any
    r"|[^,]*(?:, |$))"
)
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{6,}|\d+")
_LOST = re.compile(r"NVRM:.*\bfallen off the bus\b")
_LOST_START = re.compile(rf"NVRM: The NVIDIA GPU {_ADDRESS}\b")
_GPU = re.compile(rf"NVRM: (?:The NVIDIA )?GPU {_ADDRESS}\b")
_LOADED = re.compile(r"NVRM: loading NVIDIA ")
_RESET = re.compile(rf"(?:nvidia|vfio-pci|pci) {_ADDRESS}: (?:.* )?reset done$")
_RECOVERY = re.compile(r"GPU recovery action changed from \S+ \(.*?\) to 0x0+\b")
_FAILED = re.compile(
    r"NVRM: .*(?:RmInitAdapter failed|API mismatch: |probe routine was not called"
    r"|No NVIDIA devices probed|does not have the necessary power cables)"
)


def sysfs_address(address: str) -> str:
    """`PCI:00000000:0B:00` as sysfs writes it: 0000:0b:00.0."""
    domain, bus, device = address.lower().split(":")
    device, _, function = device.partition(".")
    return f"{int(domain, 16):04x}:{bus}:{device}.{function or '0'}"


class _Event(msgspec.Struct):
    code: int
    address: str
    text: str
    at: int
    count: int = 1


class Driver(msgspec.Struct):
    """Takes messages in order, and says at the end what is current."""

    _at: int = 0
    _healthy_since: int = 0
    _reset_at: dict[str, int] = msgspec.field(default_factory=dict)
    _events: dict[tuple[int, str, str, int], _Event] = msgspec.field(default_factory=dict)
    _texts: dict[int, int] = msgspec.field(default_factory=dict)
    _lost: dict[str, int] = msgspec.field(default_factory=dict)
    _named: tuple[str, int] | None = None
    _wrapped: str = ""
    _errors: list[tuple[str, int]] = msgspec.field(default_factory=list)

    def boot(self) -> None:
        """All that came before is over."""
        self._at += 1
        self._healthy_since = self._at

    def take(self, message: str) -> None:
        """Look at one message."""
        self._at += 1
        if xid := _XID.match(message):
            self._take_xid(int(xid[2]), sysfs_address(xid[1]), (xid[3] or "").strip())
        elif _LOADED.match(message):
            self._healthy_since = self._at
        elif reset := _RESET.match(message):
            self._reset_at[sysfs_address(reset[1])] = self._at
        elif message.startswith("NVRM:"):
            self._take_other(message)
        else:
            self._at -= 1  # only the driver's own lines count for a wrapped message

    def _take_xid(self, code: int, address: str, text: str) -> None:
        text = _PROCESS_ID.sub("", text, count=1) if text.startswith("pid=") else text
        if text.startswith("name=") and (name := _PROCESS_NAME.match(text)):
            text = text[name.end() :]
        if code == 154 and _RECOVERY.match(text):
            self._at += 1
            self._reset_at[address] = self._at
        if code == 79:
            self._lost[address] = self._at
        self._keep(_Event(code, address, text, self._at))

    def _keep(self, event: _Event) -> None:
        """Repetitions, which may be many thousands, are counted. A reset starts a new count."""
        epoch = max(self._healthy_since, self._reset_at.get(event.address, 0))
        alike = _NUMBERS.sub("#", event.text)
        known = self._events.get(key := (event.code, event.address, alike, epoch))
        if known is None and self._texts.get(event.code, 0) >= TEXTS_AT_MOST:
            known = self._events.get(key := (event.code, event.address, "", epoch))
        if known is not None:
            known.count, known.at, known.text = known.count + 1, event.at, event.text
        else:
            self._events[key] = event
            self._texts[event.code] = self._texts.get(event.code, 0) + 1

    def _take_other(self, message: str) -> None:
        if start := _LOST_START.match(message):
            self._named = (sysfs_address(start[1]), self._at)
            self._wrapped = ""
        self._wrapped = f"{self._wrapped} {message.removeprefix('NVRM:').strip()}"[-WRAPPED_LIMIT:]
        follows = self._named is not None and self._at - self._named[1] < WRAPPED_LINES
        if _LOST.match(message) or (follows and "fallen off the bus" in self._wrapped):
            self._lost[self._lost_address(message)] = self._at
        elif _FAILED.match(message):
            self._errors.append((message, self._at))
            del self._errors[:-MESSAGES_AT_MOST]

    def _lost_address(self, message: str) -> str:
        if named := _GPU.match(message):
            return sysfs_address(named[1])
        if self._named and self._at - self._named[1] < WRAPPED_LINES:
            return self._named[0]
        return UNKNOWN

    def _is_over(self, address: str, at: int) -> bool:
        return at <= max(self._healthy_since, self._reset_at.get(address, 0))

    def xids(self) -> tuple[Xid, ...]:
        """The events in order of their last time."""
        return tuple(
            Xid(
                code=event.code,
                pci_address=event.address,
                text=event.text,
                recovered=self._is_over(event.address, event.at),
                count=event.count,
            )
            for event in sorted(self._events.values(), key=lambda event: event.at)
        )

    def lost(self) -> tuple[str, ...]:
        """The GPUs that fell off the bus and were not seen to come back."""
        gone = [address for address, at in self._lost.items() if not self._is_over(address, at)]
        return tuple(sorted(gone))

    def errors(self) -> tuple[str, ...]:
        """Messages about devices that could not be started, since the driver was loaded."""
        current = [message for message, at in self._errors if not self._is_over(UNKNOWN, at)]
        return tuple(dict.fromkeys(current))
