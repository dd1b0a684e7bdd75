"""Reads what devices counted by Advanced Error Reporting, twice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from nodecheck.checks.pcie.facts import Errors
from nodecheck.machine.pci import SYSFS
from nodecheck.machine.reader import Reader
from nodecheck.model import Struct

WINDOW_SECONDS = 1.0
"""Between the samples; in a capture that does not hold the clock too."""

UPTIME = "/proc/uptime"

_TOTALS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}
_LINES = 64
"""The status registers have 32 bits each."""

_SHORT = {
    "Receiver Error": "RxErr",
    "Bad TLP": "BadTLP",
    "Bad DLLP": "BadDLLP",
    "RELAY_NUM Rollover": "Rollover",
    "REPLAY_NUM Rollover": "Rollover",
    "Replay Timer Timeout": "Timeout",
    "Advisory Non-Fatal": "NonFatalErr",
    "Corrected Internal Error": "CorrIntErr",
    "Header Log Overflow": "HeaderOF",
    "Data Link Protocol": "DLP",
    "Surprise Down Error": "SDES",
    "Poisoned TLP": "TLP",
    "Flow Control Protocol": "FCP",
    "Completion Timeout": "CmpltTO",
    "Completer Abort": "CmpltAbrt",
    "Unexpected Completion": "UnxCmplt",
    "Receiver Overflow": "RxOF",
    "Malformed TLP": "MalfTLP",
    "Unsupported Request": "UnsupReq",
    "ACS Violation": "ACSViol",
    "Uncorrectable Internal Error": "UncorrIntErr",
    "MC Blocked TLP": "BlockedTLP",
    "AtomicOp Egress Blocked": "AtomicOpBlocked",
    "TLP Prefix Blocked Error": "TLPBlockedErr",
}
"""Names of older kernels and of Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats."""


class Sample(Struct, frozen=True):
    """One reading: errors by address, and the node's uptime in seconds then."""

    errors: dict[str, Errors]
    uptime: float | None
    at: float


def first(reader: Reader, addresses: Iterable[str]) -> Sample:
    """The errors so far, of those devices that count them."""
    return _sample(reader, addresses, "")


def rises(reader: Reader, earlier: Sample) -> tuple[dict[str, Errors], float | None]:
    """By how much the counters rose since, and within how many seconds; waits on a live node."""
    if not earlier.errors:
        return {}, None
    if reader.host.live:
        time.sleep(max(0.0, earlier.at + WINDOW_SECONDS - time.monotonic()))
    later = _sample(reader, earlier.errors, "" if reader.host.live else ".2")
    found = {
        address: rise
        for address, errors in later.errors.items()
        if (rise := _rise(earlier.errors[address], errors)) is not None
    }
    return found, _seconds(earlier.uptime, later.uptime) if found else None


def _sample(reader: Reader, addresses: Iterable[str], suffix: str) -> Sample:
    found = {
        address: errors
        for address in addresses
        if (errors := _errors(reader, f"{SYSFS}/{address}", suffix)) is not None
    }
    return Sample(found, _uptime(reader, suffix), time.monotonic())


def _errors(reader: Reader, here: str, suffix: str) -> Errors | None:
    """None where the kernel does not count all three kinds."""
    totals: dict[str, int] = {}
    by_name: dict[str, int] = {}
    for kind, total in _TOTALS.items():
        text = reader.text(f"{here}/aer_dev_{kind}{suffix}", None) or ""
        for name, count in _lines(text):
            if name == f"TOTAL_ERR_{total}":
                totals[kind] = count
            elif count:
                by_name[name] = by_name.get(name, 0) + count
    return Errors(**totals, by_name=by_name) if len(totals) == len(_TOTALS) else None


def _lines(text: str) -> Iterable[tuple[str, int]]:
    """`RxErr 3`, `Receiver Error 3`: the last word is the number."""
    for line in text.splitlines()[:_LINES]:
        if match := re.fullmatch(r"([A-Za-z][\w\[\] -]{0,39}?) +([0-9]{1,17})", line.strip()):
            yield _SHORT.get(match[1], match[1]), int(match[2])


def _rise(before: Errors, after: Errors) -> Errors | None:
    """None where a counter fell: the device was taken away and came back."""
    names = {n: after.by_name.get(n, 0) - count for n, count in before.by_name.items()}
    rise = Errors(
        correctable=after.correctable - before.correctable,
        nonfatal=after.nonfatal - before.nonfatal,
        fatal=after.fatal - before.fatal,
        by_name={n: c for n, c in ({**after.by_name, **names}).items() if c},
    )
    counts = (rise.correctable, rise.nonfatal, rise.fatal, *rise.by_name.values())
    return rise if min(counts) >= 0 else None


def _uptime(reader: Reader, suffix: str) -> float | None:
    match = re.match(r"([0-9]{1,12}\.[0-9]{2}) ", reader.text(UPTIME + suffix, None) or "")
    return float(match[1]) if match else None


def _seconds(before: float | None, after: float | None) -> float:
    """The kernel tells hundredths of a second; what is shorter than the window is another clock."""
    if before is None or after is None:
        return WINDOW_SECONDS
    return max(WINDOW_SECONDS, round(after - before, 2))
