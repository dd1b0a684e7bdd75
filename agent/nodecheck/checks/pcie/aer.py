"""Reads what devices counted by Advanced Error Reporting, twice."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from nodecheck.checks.pcie.facts import Errors
from nodecheck.machine.pci import SYSFS
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Struct
from nodecheck.ranges import LARGEST

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
    found = {a: _rise(earlier.errors[a], errors) for a, errors in later.errors.items()}
    return found, _seconds(earlier.uptime, later.uptime) if found else None


def _sample(reader: Reader, addresses: Iterable[str], suffix: str) -> Sample:
    found = {
        address: errors
        for address in addresses
        if (errors := _errors(reader, f"{SYSFS}/{address}", suffix)) is not None
    }
    return Sample(found, _uptime(reader, suffix), time.monotonic())


def _errors(reader: Reader, here: str, suffix: str) -> Errors | None:
    """None where the kernel does not count all three kinds, or counts what cannot be."""
    totals: dict[str, int] = {}
    names: dict[str, dict[str, int]] = {}
    for kind, total in _TOTALS.items():
        text = reader.text(f"{here}/aer_dev_{kind}{suffix}", None) or ""
        named = names.setdefault(kind, {})
        for name, count in _lines(text):
            if count >= LARGEST:
                said = f"{here.rpartition('/')[2]}: {name} is {count}, which cannot be"
                reader.gap("paths.hops.aer", Reason.FAILED, said)
                return None
            if name == f"TOTAL_ERR_{total}":
                totals[kind] = count
            elif count:
                named[name] = named.get(name, 0) + count
    if len(totals) < len(_TOTALS):
        return None
    return Errors(
        correctable=totals["correctable"],
        nonfatal=totals["nonfatal"],
        fatal=totals["fatal"],
        correctable_names=names["correctable"],
        nonfatal_names=names["nonfatal"],
        fatal_names=names["fatal"],
    )


def _lines(text: str) -> Iterable[tuple[str, int]]:
    """`RxErr 3`, `Receiver Error 3`: the last word is the number."""
    for line in text.splitlines()[:_LINES]:
        if match := re.fullmatch(r"([A-Za-z][\w\[\] -]{0,39}?) +([0-9]{1,20})", line.strip()):
            yield _SHORT.get(match[1], match[1]), int(match[2])


def _rise(before: Errors, after: Errors) -> Errors:
    """Where a counter fell the device was reset: all that it counts now came after."""
    names = (
        _more(before.correctable_names, after.correctable_names),
        _more(before.nonfatal_names, after.nonfatal_names),
        _more(before.fatal_names, after.fatal_names),
    )
    rise = Errors(
        correctable=after.correctable - before.correctable,
        nonfatal=after.nonfatal - before.nonfatal,
        fatal=after.fatal - before.fatal,
        correctable_names=names[0],
        nonfatal_names=names[1],
        fatal_names=names[2],
    )
    totals = (rise.correctable, rise.nonfatal, rise.fatal)
    lowest = min(*totals, *(count for kind in names for count in kind.values()))
    return rise if lowest >= 0 else after


def _more(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    changed = {name: after.get(name, 0) - before.get(name, 0) for name in (*after, *before)}
    return {name: count for name, count in changed.items() if count}


def _uptime(reader: Reader, suffix: str) -> float | None:
    match = re.match(r"([0-9]{1,12}\.[0-9]{2}) ", reader.text(UPTIME + suffix, None) or "")
    return float(match[1]) if match else None


def _seconds(before: float | None, after: float | None) -> float:
    """The kernel tells hundredths of a second; what is shorter than the window is another clock."""
    if before is None or after is None:
        return WINDOW_SECONDS
    return max(WINDOW_SECONDS, round(after - before, 2))
