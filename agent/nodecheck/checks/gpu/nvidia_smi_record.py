"""What every form of nvidia-smi is read into, and how its lines are looked at.

A record holds one card: nvidia-smi's own query names -> text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from nodecheck.checks.gpu import readings

Record = dict[str, str]
"""Query name (see nvidia_smi_names) -> text.

`reason.<name>` holds one clock event reason, `ecc.<volatile or aggregate>.<corrected or
uncorrected>` a sum over the memories. What a card has several of is numbered: `process.0.pid`,
`mig.0.gpu_instance`; `processes` is the word that stands for an empty list.
"""

REASON = "reason."
PROCESS = "process."
PROCESSES = "processes"
MIG = "mig."
NO_PROCESSES = "None"
LINE_LIMIT = 4096
"""Longest line that any of the forms prints; longer ones are not looked at."""

LINES_LIMIT = 120_000
"""So many lines are looked at: 16 cards print fewer, with thousands of processes."""

CARDS_LIMIT = 256

_TABLE_LIST, _TABLE_END = "| Processes:", "+-"
_LISTS = ("Processes", "<processes>", _TABLE_LIST)
"""How the list of programs begins in each form."""

ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
CARD_LINE = re.compile(rf"GPU ({ADDRESS}) *")
"""How a card begins in `-q`."""

_ECC_NAMES = {True: "uncorrected", False: "corrected"}


def short_lines(text: str) -> list[str]:
    """The lines that nvidia-smi may have printed; none of them ends but at a line feed."""
    lines = text.split("\n", LINES_LIMIT)[:LINES_LIMIT]
    return [line.rstrip("\r") for line in lines if len(line) <= LINE_LIMIT]


def outside_processes(text: str) -> Iterator[str]:
    """The lines of any form but its lists of programs, whose names their owners chose."""
    lines = short_lines(text)
    ends = [number for number, line in enumerate(lines) if line.startswith(_TABLE_END)]
    inside = in_table = False
    for number, line in enumerate(lines):
        if in_table:  # a name may hold line feeds, but the table's own end comes after them all
            in_table = number != ends[-1]
        elif inside:
            inside = "</processes>" not in line and CARD_LINE.fullmatch(line) is None
        elif line.lstrip().startswith(_LISTS):
            in_table = line.startswith(_TABLE_LIST) and bool(ends)
            inside = "</processes>" not in line and not in_table
        else:
            yield line


def renamed(texts: Mapping[str, str], names: Mapping[str, tuple[str, ...]]) -> Record:
    """The texts under their query names; of several places for one the last that tells one."""
    record: Record = {}
    for name, places in names.items():
        for place in places:
            text = texts.get(place)
            if text and (name not in record or readings.is_told(text)):
                record[name] = text
    return record


def ecc_sums(counts: Iterable[tuple[str, bool, str]]) -> Record:
    """Counts of single memories (scope, whether uncorrected, text), summed where they are told."""
    record: Record = {}
    for scope, uncorrected, text in counts:
        name = f"ecc.{scope}.{_ECC_NAMES[uncorrected]}"
        count = readings.count(text)
        if count is not None:
            record[name] = str(count + (readings.count(record.get(name)) or 0))
        elif text:
            record.setdefault(name, text)
    return record


def numbered(prefix: str, items: list[Record]) -> Record:
    """What a card has several of, in one record."""
    return {f"{prefix}{n}.{k}": text for n, item in enumerate(items) for k, text in item.items()}


def several(record: Record, prefix: str) -> list[Record]:
    """What a card has several of, in the order in which it was printed."""
    found: dict[str, Record] = {}
    for name, text in record.items():
        number, dot, member = name.removeprefix(prefix).partition(".")
        if name.startswith(prefix) and dot and number.isdigit():
            found.setdefault(number, {})[member] = text
    return list(found.values())
