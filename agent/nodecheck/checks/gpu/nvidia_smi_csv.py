"""`nvidia-smi --query-gpu=... --format=csv`: the first line names the columns and their units."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.checks.gpu.nvidia_smi_names import CSV
from nodecheck.checks.gpu.nvidia_smi_record import LINE_LIMIT, REASON, Record, renamed
from nodecheck.checks.gpu.readings import count

_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_ECC = re.compile(r"ecc\.errors\.(un)?corrected\.(volatile|aggregate)\.(\w+(?:\.\w+)?)")
_DEVICE_MEMORY = ("dram", "device_memory")
"""Two names of one place."""

_COLUMN = re.compile(r"([a-z][\w.]*)(?: \[([^\]]+)\])?")
_ROWS_LIMIT = 1024
_LINES_BEFORE = 64
"""Lines of messages before the one that names the columns."""

_NAMING = {
    "index", "name", "gpu_name", "pstate", "uuid", "gpu_uuid", "serial", "gpu_serial",
    "pci.bus_id", "gpu_bus_id", "vbios_version", "compute_mode", "compute_cap",
    "gpu_recovery_action", "display_active",
}  # fmt: skip
_QUERIED = (
    "clocks.",
    "clocks_",
    "ecc.",
    "fabric.",
    "memory.",
    "mig.",
    "pcie.",
    "persistence_mode",
    "power.",
    "remapped_rows.",
    "retired_pages.",
    "temperature.",
    "utilization.",
)


def parse(text: str) -> Iterator[Record]:
    """The cards, a line each; nothing where no line names the columns."""
    lines = [line for line in text.split("\n", _ROWS_LIMIT) if line.strip()]
    lines = [line for line in lines[:_ROWS_LIMIT] if len(line) <= LINE_LIMIT]
    start = next((n for n, line in enumerate(lines[:_LINES_BEFORE]) if _is_header(line)), None)
    if start is None:
        return
    columns = [_COLUMN.fullmatch(cell.strip()) for cell in lines[start].split(",")]
    for line in lines[start + 1 :]:
        cells = line.split(",")
        if len(cells) == len(columns):
            yield _record(
                {
                    column[1]: _with_unit(cell.strip(), column[2])
                    for column, cell in zip(columns, cells, strict=True)
                    if column is not None
                }
            )


def _record(cells: Record) -> Record:
    record = renamed(cells, CSV)
    for column, text in cells.items():
        if match := _REASON.fullmatch(column):
            record[REASON + match[1]] = text
    return record | _ecc_counts(cells)


def _ecc_counts(cells: Record) -> Record:
    """The totals; without one the device's memory and the highest count of any other place."""
    places: dict[str, dict[str, str]] = {}
    for column, text in cells.items():
        if match := _ECC.fullmatch(column):
            name = f"ecc.{match[2]}.{'uncorrected' if match[1] else 'corrected'}"
            places.setdefault(name, {})[match[3]] = text
    return {name: _total(texts) for name, texts in places.items()}


def _total(texts: dict[str, str]) -> str:
    if "total" in texts:
        return texts["total"]
    counts = {place: n for place, text in texts.items() if (n := count(text)) is not None}
    if not counts:
        return next(iter(texts.values()))
    memory = max((n for place, n in counts.items() if place in _DEVICE_MEMORY), default=0)
    other = max((n for place, n in counts.items() if place not in _DEVICE_MEMORY), default=0)
    return str(memory + other)


def _is_header(line: str) -> bool:
    """Names of columns and nothing else, one of them a name that cards are asked for."""
    cells = [_COLUMN.fullmatch(cell.strip()) for cell in line.split(",")]
    names = [cell[1] for cell in cells if cell is not None]
    if set(names) & _NAMING:
        return True
    return len(names) == len(cells) and any(name.startswith(_QUERIED) for name in names)


def _with_unit(cell: str, unit: str | None) -> str:
    """With `nounits` the unit stands in the first line alone."""
    return f"{cell} {unit}" if unit and re.fullmatch(r"[\d.]+", cell) else cell
