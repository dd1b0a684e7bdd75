"""Messages about file systems, block devices and memory."""

from __future__ import annotations

import re

import msgspec

from nodecheck.checks.kernel_log.facts import DimmErrors

MESSAGES_AT_MOST = 40

_FILE_SYSTEM = re.compile(
    r"EXT[234]-fs error \(device "
    r"|EXT[234]-fs \([^)]*\): (?:Remounting filesystem read-only|error count since last fsck: )"
    r"|Aborting journal on device |JBD2: (?:Error|Detected IO errors|Detected aborted journal)"
    r"|XFS \([^)]*\): .*(?:[Cc]orruption|[Ss]hut(?:ting)? ?down|I/O [Ee]rror)"
    r"|BTRFS:? (?:error|critical) \(device |BTRFS:? \w+ \(device [^)]*\).*: forced readonly"
    r"|F2FS-fs \([^)]*\): .*(?:[Ss]topped filesystem|inconsistent|I/O error)"
    r"|Buffer I/O error on dev |.{0,40}\b(?:I/O|medium) error, dev "
)
_DEVICE = re.compile(r"\((?:device )?([^):]+)|(?:device|dev) ([\w.-]+)")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")

_EDAC = re.compile(
    r"EDAC (MC\d+): (?:(\d+) )?(CE|UE)\b(?:.*? on (\S+(?: or \S+)*) ?\(|.*?, label \"([^\"]*)\")?"
)
_POISON = re.compile(r"Memory failure: 0x[0-9a-fA-F]+: ")


class FileSystems(msgspec.Struct):
    """Errors of file systems and of the devices below them, each kind once a device."""

    _lines: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)

    def take(self, message: str) -> None:
        """Look at one message."""
        if not _FILE_SYSTEM.match(message) or len(self._lines) >= MESSAGES_AT_MOST:
            return
        device = _DEVICE.search(message)
        kind = _NUMBERS.sub("#", message)[:80]
        self._lines.setdefault((device[0] if device else "", kind), message)

    def lines(self) -> tuple[str, ...]:
        """The first message of each kind."""
        return tuple(self._lines.values())


class Memory(msgspec.Struct):
    """Errors that memory controllers reported, and pages that were taken out of use."""

    _lines: list[str] = msgspec.field(default_factory=list)
    _correctable: dict[str, int] = msgspec.field(default_factory=dict)
    _uncorrectable: dict[str, int] = msgspec.field(default_factory=dict)

    def take(self, message: str) -> None:
        """Look at one message."""
        edac = _EDAC.match(message)
        if edac:
            dimm = (edac[4] or edac[5] or edac[1]).strip()
            counts = self._correctable if edac[3] == "CE" else self._uncorrectable
            counts[dimm] = counts.get(dimm, 0) + min(int(edac[2] or 1), 1 << 32)
        if (edac or _POISON.match(message)) and len(self._lines) < MESSAGES_AT_MOST:
            self._lines.append(message)

    def lines(self) -> tuple[str, ...]:
        """The first messages."""
        return tuple(dict.fromkeys(self._lines))

    def dimms(self) -> tuple[DimmErrors, ...]:
        """The sums of all messages by DIMM."""
        names = sorted({*self._correctable, *self._uncorrectable})
        return tuple(
            DimmErrors(
                dimm=name,
                correctable=self._correctable.get(name, 0),
                uncorrectable=self._uncorrectable.get(name, 0),
            )
            for name in names
        )
