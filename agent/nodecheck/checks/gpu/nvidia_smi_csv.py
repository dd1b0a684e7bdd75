"""`nvidia-smi --query-gpu=... --format=csv`: the first line names the columns and their units."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.checks.gpu.nvidia_smi_fields import LINE_LIMIT, REASON, Record

_ALIASES = {
    "gpu_name": "name",
    "gpu_bus_id": "pci.bus_id",
    "clocks.current.sm": "clocks.sm",
    "clocks.current.memory": "clocks.mem",
    "clocks.max.memory": "clocks.max.mem",
    "power.draw.average": "power.draw",
    "enforced.power.limit": "power.limit",
    "ecc.errors.uncorrected.volatile.total": "ecc.uncorrected",
    "ecc.errors.corrected.volatile.total": "ecc.corrected",
    "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
    "clocks_event_reasons.active": "reasons.active",
    "clocks_throttle_reasons.active": "reasons.active",
}
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_COLUMN = re.compile(r"\s*([a-z][\w.]*)(?: \[([^\]]+)\])?\s*")
_ROWS_LIMIT = 1024
_UNCORRECTED = "ecc.errors.uncorrected.volatile."
_NAMING = {"index", "name", "gpu_name", "pstate", "uuid", "pci.bus_id", "gpu_bus_id"}
_QUERIED = (
    "clocks.",
    "clocks_",
    "ecc.",
    "memory.",
    "mig.",
    "pcie.",
    "persistence_mode",
    "power.",
    "remapped_rows.",
    "temperature.",
    "utilization.",
)


def parse(text: str) -> Iterator[Record]:
    """The cards, a line each; nothing where no line names the columns."""
    lines = [line for line in text.splitlines() if line.strip() and len(line) <= LINE_LIMIT]
    start = next((n for n, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        return
    columns = [_COLUMN.fullmatch(cell) for cell in lines[start].split(",")]
    for line in lines[start + 1 : start + 1 + _ROWS_LIMIT]:
        cells = line.split(",")
        if len(cells) == len(columns):
            record = {
                _name(column[1]): _with_unit(cell.strip(), column[2])
                for column, cell in zip(columns, cells, strict=True)
                if column is not None
            }
            yield _with_total(record)


def _with_total(record: Record) -> Record:
    """Without a total, the highest count of one place: some places have two names."""
    counts = [int(v) for k, v in record.items() if k.startswith(_UNCORRECTED) and v.isdigit()]
    return {"ecc.uncorrected": str(max(counts)), **record} if counts else record


def _is_header(line: str) -> bool:
    """Names of columns and nothing else, one of them a name that cards are asked for."""
    cells = [_COLUMN.fullmatch(cell) for cell in line.split(",")]
    names = [cell[1] for cell in cells if cell is not None]
    if set(names) & _NAMING:
        return True
    return len(names) == len(cells) and any(name.startswith(_QUERIED) for name in names)


def _name(column: str) -> str:
    if (match := _REASON.fullmatch(column)) and column not in _ALIASES:
        return REASON + match[1]
    return _ALIASES.get(column, column)


def _with_unit(cell: str, unit: str | None) -> str:
    """With `nounits` the unit stands in the first line alone."""
    return f"{cell} {unit}" if unit and re.fullmatch(r"[\d.]+", cell) else cell
