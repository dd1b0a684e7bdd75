"""The table of `nvidia-smi` without arguments: the cards, then MIG's instances, then programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from nodecheck.checks.gpu.nvidia_smi_record import (
    ADDRESS,
    MIG,
    NO_PROCESSES,
    PROCESS,
    PROCESSES,
    Record,
    numbered,
    short_lines,
)
from nodecheck.checks.gpu.readings import count

WIDTH_LIMIT = 512
"""The table is 80 to 90 columns wide; programs' names may push it out."""

_ADDRESS = re.compile(ADDRESS)
_VERSIONS = re.compile(r"(?:Driver|KMD) Version: (\S+)(?:\s+CUDA (?:UMD )?Version: (\S+))?")
_PERSISTENCE = ("On", "Off", "N/A", "ERR!")
_PROCESS = re.compile(
    r"\|\s*(?P<gpu>\d{1,3})\s+(?:(?:\d{1,4}|N/A)\s+(?:\d{1,4}|N/A)\s+)?(?P<pid>\d{1,10})\s+"
    r"(?P<type>[CGMO](?:\+[CGM])?)\s+(?P<rest>\S.*)\|"
)
_ECC_WORDS = {"On": "Enabled", "Off": "Disabled"}


def parse(text: str) -> Iterator[Record]:
    """The cards of the table with what the tables below it tell of them."""
    lines = [line for line in short_lines(text) if len(line) <= WIDTH_LIMIT]
    table = _Table()
    for number, line in enumerate(lines):
        table.take(line.strip(), lines[number + 1 : number + 3])
    return table.records()


class _Table:
    """The three tables, line by line."""

    def __init__(self) -> None:
        self._head: Record = {}
        self._cards: dict[str, Record] = {}
        self._instances: dict[str, list[Record]] = {}
        self._processes: dict[str, list[Record]] = {}
        self._below: Callable[[str], None] | None = None

    def take(self, line: str, following: list[str]) -> None:
        if not line.startswith("|"):
            return
        if line.startswith("| MIG devices:"):
            self._below = self._take_instance
        elif line.startswith("| Processes:"):
            self._below = self._take_process
        elif self._below is not None:
            self._below(line)
        else:
            self._take_card(line, following)

    def records(self) -> Iterator[Record]:
        listed = {PROCESSES: NO_PROCESSES} if self._below == self._take_process else {}
        for index, card in self._cards.items():
            yield {
                **self._head,
                **card,
                **listed,
                **numbered(PROCESS, self._processes.get(index, [])),
                **numbered(MIG, self._instances.get(index, [])),
            }

    def _take_card(self, line: str, following: list[str]) -> None:
        versions = _VERSIONS.search(line)
        if versions is not None and not self._head:
            self._head = {"driver_version": versions[1], "cuda_version": versions[2] or ""}
            return
        first = _cells(line)
        if first is None:
            return
        left, middle, right = (cell.split() for cell in first)
        if len(left) < 3 or not left[0].isdecimal() or left[-1] not in _PERSISTENCE:
            return
        if not middle or _ADDRESS.fullmatch(middle[0]) is None or not right:
            return
        self._cards.setdefault(
            left[0],
            {
                "index": left[0],
                "name": " ".join(left[1:-1]),
                "persistence_mode": left[-1],
                "pci.bus_id": middle[0],
                "display_active": middle[-1],
                **_ecc(right[0]),
                **_second_row(following[:1]),
                **_third_row(following[1:2]),
            },
        )

    def _take_instance(self, line: str) -> None:
        cells = line.strip("|").split("|")
        ids, memory = cells[0].split(), cells[1].split(" / ") if len(cells) > 1 else []
        if len(ids) == 4 and all(part.isdecimal() for part in ids) and len(memory) == 2:
            instance = {"gpu_instance": ids[1], "compute_instance": ids[2]}
            instance |= {"used": memory[0].strip(), "total": memory[1].strip()}
            self._instances.setdefault(ids[0], []).append(instance)

    def _take_process(self, line: str) -> None:
        match = _PROCESS.fullmatch(line)
        if match is None:
            return
        name, _, memory = match["rest"].rstrip().rpartition(" ")
        self._processes.setdefault(match["gpu"], []).append(
            {"pid": match["pid"], "type": match["type"], "name": name.strip(), "memory": memory}
        )


def _cells(line: str) -> list[str] | None:
    """The three columns of the cards' table."""
    cells = line.strip().split("|")
    return cells[1:4] if len(cells) == 5 else None


def _ecc(word: str) -> Record:
    """A count, or On where MIG hides it, or Off."""
    if count(word) is not None:
        return {"ecc.volatile.uncorrected": word, "ecc.mode.current": "Enabled"}
    return {"ecc.volatile.uncorrected": "N/A", "ecc.mode.current": _ECC_WORDS.get(word, word)}


def _second_row(lines: list[str]) -> Record:
    cells = _cells(lines[0]) if lines else None
    if cells is None:
        return {}
    states, _, limit = cells[0].partition(" / ")
    used, of, total = cells[1].partition(" / ")
    busy, _, mode = cells[2].strip().partition(" ")
    words = states.split()
    if len(words) != 4:
        return {}
    return {
        "temperature.gpu": words[1],
        "pstate": words[2],
        "power.draw": words[3],
        "power.limit": limit.strip(),
        "memory.total": (total if of else used).strip(),
        "memory.used": used.strip(),
        "utilization.gpu": busy,
        "compute_mode": mode.strip(),
    }


def _third_row(lines: list[str]) -> Record:
    cells = _cells(lines[0]) if lines else None
    return {"mig.mode.current": cells[2].strip()} if cells else {}
