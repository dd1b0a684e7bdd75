"""Counters and registers of planted devices."""

from __future__ import annotations

from tests.trees import Tree

CARD, ROOT = "0000:01:00.0", "0000:00:01.0"
_TOTALS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}
_NAMES = {
    "correctable": ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr",
                    "CorrIntErr", "HeaderOF"),
    "nonfatal": ("Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt",
                 "RxOF", "MalfTLP", "ECRC", "UnsupReq", "ACSViol", "UncorrIntErr"),
}  # fmt: skip
_NAMES["fatal"] = _NAMES["nonfatal"]


def counters(
    correctable: dict[str, int] | None = None,
    nonfatal: dict[str, int] | None = None,
    fatal: dict[str, int] | None = None,
) -> dict[str, str]:
    """The three files of a device as Linux prints them, all names and a total."""
    made = {}
    for kind, counts in (("correctable", correctable), ("nonfatal", nonfatal), ("fatal", fatal)):
        told = dict.fromkeys(_NAMES[kind], 0) | (counts or {})
        total = sum(told.values())
        lines = [f"{name} {count}" for name, count in told.items()]
        lines.append(f"TOTAL_ERR_{_TOTALS[kind]} {total}")
        made[f"aer_dev_{kind}"] = "\n".join(lines) + "\n"
    return made


def counted(place: str, files: dict[str, str], suffix: str = "") -> Tree:
    """Those files of a device: `place` holds its address and those above it, the root's first."""
    return {f"sys/devices/pci0000:00/{place}/{name}{suffix}": text for name, text in files.items()}
