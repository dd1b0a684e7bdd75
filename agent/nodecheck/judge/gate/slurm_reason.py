"""Why a node is drained, as Slurm keeps it: one line that everything may print, split and store."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.judge.gate.gate import NODE, Gate
from nodecheck.model import Struct
from nodecheck.report import Report

OURS = "nodecheck:"
"""What a reason begins with that is ours. No other drain is ever lifted."""

ADDED = " : "
"""What Slurm puts between a reason that is there and its own, e.g. "Kill task failed"."""

REASON_CHARACTERS = 200
"""Source: the accounting database of Slurm keeps 255 bytes of it (tinytext)."""

NAMES_TOLD = 3
SUBJECT_CHARACTERS = 60

UNKNOWN = "unknown"
ASKED = ("disk_free", "dram_read", "gpus", "instruction_sets", "model", "pcie_generation",
         "pcie_width", "tokens_per_second", UNKNOWN)  # fmt: skip
"""What a fault is called that is no finding: by its requirement, or as what is not known."""

_SPEAKING = str.maketrans({"|": "/", "[": "(", "]": ")", "{": "(", "}": ")",
                           **dict.fromkeys("\"'`=")})  # fmt: skip
_SAFE = r"A-Za-z0-9 _.,:;/()<>+*%-"
_UNSAFE = re.compile(f"[^{_SAFE}]")
"""Quotes, and what splits a line of Slurm's (bars, equals signs) or means something to a shell."""

_NAME = rf"(?:[a-z]+\.[a-z0-9_]+|{'|'.join(ASKED)})"
_OURS = re.compile(
    rf"{OURS} {_NAME}(?:, {_NAME}){{0,{NAMES_TOLD - 1}}}(?: and [0-9]+ more)?(?:: [?{_SAFE}]+)?"
)
"""All that reason_of can write, and little else."""


class _Fault(Struct, frozen=True):
    """What fails: its id, of which part of the node, and in words."""

    name: str
    subject: str
    text: str


def reason_of(told: Gate, report: Report) -> str:
    """The reason for a node that fails the gate: what fails, of which part, and first words."""
    faults = list(_faults(told, report))
    names = list(dict.fromkeys(fault.name for fault in faults))
    more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
    first = faults[0]
    parts = [", ".join(names[:NAMES_TOLD]) + more, _cut(first.subject, SUBJECT_CHARACTERS),
             first.text]  # fmt: skip
    safe = [_safe(part) for part in parts if part]
    return _cut(": ".join((OURS.removesuffix(":"), *safe)), REASON_CHARACTERS)


def is_ours(reason: str) -> bool:
    """Whether nodecheck can have written it, and nothing shows that somebody has added to it."""
    fits = len(reason) <= REASON_CHARACTERS and _OURS.fullmatch(reason) is not None
    return fits and ADDED not in reason


def tells_the_same(reason: str, other: str) -> bool:
    """Whether both name the same faults of the same part: figures alone may move."""
    return reason.rpartition(": ")[0] == other.rpartition(": ")[0]


def _faults(told: Gate, report: Report) -> Iterator[_Fault]:
    """What gave the gate its status, in the order in which it tells it."""
    for answer in told.answers:
        if answer.status is not told.status:
            continue
        found = [f for f in report.findings if f.severity.value == told.status.value]
        if answer.name == NODE and found:
            yield from (_Fault(f.id, f.subject, f.summary) for f in found)
        else:
            yield _Fault(UNKNOWN if answer.name == NODE else answer.name, "", answer.text)


def _safe(text: str) -> str:
    """No character that could end or split the reason anywhere; no colon in it ends a part."""
    words = " ".join(_UNSAFE.sub("?", text.translate(_SPEAKING)).split())
    return re.sub(r" ?:+(?= |$)", ";", words) or "?"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."
