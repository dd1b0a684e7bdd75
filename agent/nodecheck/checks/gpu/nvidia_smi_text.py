"""`nvidia-smi -q`: a tree by indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.checks.gpu.nvidia_smi_names import TEXT, TEXT_HEAD
from nodecheck.checks.gpu.nvidia_smi_record import (
    CARD_LINE,
    CARDS_LIMIT,
    MIG,
    NO_PROCESSES,
    PROCESS,
    PROCESSES,
    REASON,
    Record,
    ecc_sums,
    numbered,
    renamed,
    short_lines,
)

_INDENT_LIMIT = 64
_INSTANCE = "MIG Device"
_INSTANCE_PATHS = {
    "GPU Instance ID": "gpu_instance",
    "Compute Instance ID": "compute_instance",
    "FB Memory Usage/Total": "total",
    "FB Memory Usage/Used": "used",
    "Shared FB Memory Usage/Total": "total",
    "Shared FB Memory Usage/Used": "used",
}
"""Where a line stands in its instance -> its member of a record."""

_PROCESS_KEYS = {
    "Process ID": "pid",
    "Type": "type",
    "Name": "name",
    "Used GPU Memory": "memory",
}
_REASON = re.compile(r"Clocks (?:Event|Throttle) Reasons/(?:HW Slowdown/)?([^/]+)")
_REASON_NAMES = {"idle": "gpu_idle", "display_clock_setting": "display_clocks_setting"}
_ECC = re.compile(
    r"ECC Errors/(Volatile|Aggregate)"
    r"/(?:(?:SRAM|DRAM) (Unc|C)orrectable.*|(Single|Double) Bit/Total)"
)


def parse(text: str) -> Iterator[Record]:
    """The cards of `nvidia-smi -q`, in the order in which they were printed."""
    head: Record = {}
    cards: dict[str, _Card] = {}
    card: _Card | None = None
    for line in short_lines(text):
        match = CARD_LINE.fullmatch(line)
        if match is not None and not (card is not None and card.in_name):
            if len(cards) == CARDS_LIMIT:
                break
            card = _Card(match[1], len(cards))
            # A program's name with line feeds in it can forge a card, but no second one of a name.
            cards.setdefault(match[1], card)
        elif card is not None:
            card.take(line)
        else:
            key, _, value = line.partition(":")
            head.setdefault(key.strip(), value.strip())
    versions = renamed(head, TEXT_HEAD)
    for card in cards.values():
        yield card.record() | versions


class _Card:
    """One card, line by line."""

    def __init__(self, address: str, number: int) -> None:
        self.in_name = False
        self._begin: Record = {"pci.bus_id": address, "index": str(number)}
        self._texts: Record = {}
        self._stack: list[tuple[int, str]] = []
        self._instances: list[Record] = []
        self._list: str | None = None
        self._processes: list[Record] = []

    def take(self, line: str) -> None:
        body = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if not body or indent > _INDENT_LIMIT:
            return
        key, colon, value = body.partition(":")
        key, value = key.strip(), value.strip()
        if self._list is not None:
            self._take_process(key, value)
            return
        if key == "Processes":
            self._list = value or NO_PROCESSES
            return
        self._stack = [level for level in self._stack if level[0] < indent]
        path = "/".join([*(name for _, name in self._stack), key])
        self._stack.append((indent, key))
        if path == _INSTANCE:
            self._instances.append({})
        elif path.startswith(f"{_INSTANCE}/") and self._instances:
            member = _INSTANCE_PATHS.get(path.removeprefix(f"{_INSTANCE}/"))
            if member is not None:
                self._instances[-1].setdefault(member, value)
        elif colon:
            self._texts.setdefault(path, value)

    def _take_process(self, key: str, value: str) -> None:
        """Nothing but programs is read from their list on: it is the last that matters."""
        member = _PROCESS_KEYS.get(key)
        if self.in_name and member != "memory":
            return  # a name of several lines
        self.in_name = member == "name"
        if member == "pid":
            self._processes.append({})
        if member is not None and self._processes:
            self._processes[-1].setdefault(member, value)

    def record(self) -> Record:
        record = renamed(self._texts, TEXT) | self._begin
        counts = []
        for path, text in self._texts.items():
            if match := _REASON.fullmatch(path):
                name = match[1].strip().casefold().replace(" ", "_")
                record[REASON + _REASON_NAMES.get(name, name)] = text
            elif match := _ECC.fullmatch(path):
                uncorrected = match[2] == "Unc" or match[3] == "Double"
                counts.append((match[1].casefold(), uncorrected, text))
        record |= ecc_sums(counts)
        if self._list is not None:
            record[PROCESSES] = self._list
        record |= numbered(PROCESS, self._processes)
        return record | numbered(MIG, self._instances)
