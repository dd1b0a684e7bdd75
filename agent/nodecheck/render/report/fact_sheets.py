"""All facts of a report as labels and values, in the units that their names carry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from nodecheck.model import Struct
from nodecheck.report import Report
from nodecheck.units import gb_per_second, gib, percent, ranges

TITLES = {
    "cpu": "CPU",
    "virt": "Virtualisation",
    "limits": "Limits",
    "memory": "RAM",
    "numa": "NUMA nodes",
    "disk": "Disk",
    "pcie": "PCIe links",
    "gpu": "GPU driver",
    "gpus": "GPUs",
    "cuda": "CUDA",
    "kernel_log": "Kernel log",
    "engine": "Engine",
    "python": "Python libraries",
    "dram": "How memory was measured",
}
"""Member of the facts -> its heading."""

LEFT_OUT = {
    "round_trips", "pairs", "warnings", "usable_flags", "device_number", "kernel_device",
    "options", "super_options", "tid",
}  # fmt: skip
"""Members that stand elsewhere on a page, or tell its reader nothing."""

COLUMNS_MOST = 7
"""Things with more members stand side by side, so many of them."""

LONG, LONG_BESIDE = 60, 3
"""Characters from which a value, as a mount point may be, has fewer beside it."""

UNITS: dict[str, Callable[[Any], str]] = {
    "_bytes_per_second": gb_per_second,
    "_bytes_per_thread": gib,
    "_bytes": gib,
    "_share": percent,
    "_seconds": lambda value: f"{value * 1e9:.0f} ns" if value < 1e-4 else f"{value:.2f} s",
    "_mhz": lambda value: f"{value:,.0f} MHz",
    "_gts": lambda value: f"{value:g} GT/s",
    "_mts": lambda value: f"{value:,} MT/s",
    "_celsius": lambda value: f"{value} °C",
    "_watts": lambda value: f"{value:g} W",
    "_bits": lambda value: f"{value} bit",
}
"""End of a member's name -> how its value is written."""

WORDS = {
    "cpu_share": "ran", "delay_share": "waited for a CPU", "gpu_files": "GPU devices open",
    "pid": "process", "file_refaults": "pages of files read again",
    "x86_64_level": "x86-64 level", "load_1min": "load over a minute", "distances": "distances to",
    "free_order9_blocks": "free blocks of 2 MiB", "hugepages_total": "huge pages",
    "full_stall_avg10": "full stall over 10 s", "pci_device_id": "PCI device",
    "subsystem_id": "subsystem", "current_gts": "speed", "current_width": "width",
    "maximum_gts": "speed at most", "maximum_width": "width at most",
    "vram_bytes_per_second": "VRAM rate", "link_files": "link registers",
    "bios": "BIOS", "cgroup": "control group", "cpu": "CPU", "cpuid": "CPUID", "cpus": "CPUs",
    "cuda": "CUDA", "dimm": "DIMM", "dimms": "DIMMs", "ecc": "ECC", "fstype": "type", "gpu": "GPU",
    "gpus": "GPUs", "hugepage": "huge page", "hugepages": "huge pages", "id": "node",
    "llc": "last level cache", "memlock": "lockable memory", "mig": "MIG", "nofile": "open files",
    "numa": "NUMA", "pci": "PCI", "pcie": "PCIe", "sm": "SM", "smt": "SMT",
    "thp": "transparent huge pages", "uvm": "nvidia-uvm there", "vram": "VRAM", "xids": "Xid",
}  # fmt: skip
"""Names of members, and words in them, that a page writes otherwise."""

IN_ORDER = ("distances",)
"""Members whose numbers are no set of CPUs or nodes."""


class Table(Struct, frozen=True, kw_only=True):
    """Each row begins with its heading, and so does the row of headings."""

    name: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Sheet(Struct, frozen=True, kw_only=True):
    """What is known of one subject."""

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]


def sheets(report: Report) -> list[Sheet]:
    """The subjects of which anything is known."""
    made = (_sheet(title, getattr(report.facts, member)) for member, title in TITLES.items())
    return [sheet for sheet in made if sheet.facts or sheet.tables]


def _sheet(title: str, facts: Any) -> Sheet:
    if isinstance(facts, tuple):
        return Sheet(title=title, facts=(), tables=tuple(_tables(title, facts) if facts else ()))
    known = _known(facts)
    return Sheet(
        title=title,
        facts=tuple((label(n), text(n, v)) for n, v in known.items() if not _are_things(v)),
        tables=tuple(t for n, v in known.items() if _are_things(v) for t in _tables(label(n), v)),
    )


def _known(struct: Any) -> dict[str, Any]:
    """Member -> what it holds."""
    members = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return {
        name: value
        for name, value in members.items()
        if value is not None and value not in ((), {}) and name not in LEFT_OUT
    }


def _are_things(value: Any) -> bool:
    return isinstance(value, tuple) and isinstance(value[0], msgspec.Struct)


def _tables(title: str, things: tuple[Any, ...]) -> Iterator[Table]:
    """One with a row for each, or several that hold them side by side."""
    title = f"{title[:1].upper()}{title[1:]}"
    rows = [row for thing in things for row in _rows(thing)]
    told = dict.fromkeys(name for row in rows for name, value in row.items() if value is not False)
    cells = [[text(n, row[n]) if n in row else "-" for n in told] for row in rows]
    lines = [[label(name) for name in told], *cells]
    if len(told) <= COLUMNS_MOST:
        yield _table(title, lines)
        return
    longest = max(len(cell) for line in cells for cell in line)
    room = COLUMNS_MOST - 1 if longest < LONG else LONG_BESIDE
    for start in range(0, len(cells), room):
        beside = cells[start : start + room]
        part = f", {start + 1}-{start + len(beside)}" if len(cells) > len(beside) else ""
        yield _table(title + part, [list(line) for line in zip(lines[0], *beside, strict=True)])


def _rows(thing: Any) -> Iterator[dict[str, Any]]:
    """One, or one for each thing that it holds, with what it says itself."""
    known = _known(thing)
    inner = [each for value in known.values() if _are_things(value) for each in value]
    own = {name: value for name, value in known.items() if not _are_things(value)}
    for each in inner:
        yield {**_known(each), **own}
    if not inner:
        yield own


def _table(name: str, lines: list[list[str]]) -> Table:
    first, *rest = map(tuple, lines)
    return Table(name=name, headings=first, rows=tuple(rest))


def label(member: str) -> str:
    """The name of a member in words, without its unit."""
    if member in WORDS:
        return WORDS[member]
    name = member.removesuffix("_now")
    words = [WORDS.get(word, word) for word in name.removesuffix(_unit(name)).split("_")]
    return " ".join([*words, *(["now"] if member.endswith("_now") else [])])


def _unit(name: str) -> str:
    """The end of a member's name that is its unit."""
    return next((unit for unit in UNITS if name.endswith(unit)), "")


def text(member: str, value: Any) -> str:
    """The value of a member in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {text('', each)}" for name, each in value.items())
    if isinstance(value, tuple):
        numbers = all(isinstance(each, int) for each in value) and member not in IN_ORDER
        return ranges(value) if numbers else ", ".join(text("", each) for each in value)
    if isinstance(value, (int, float)):
        write = UNITS.get(_unit(member.removesuffix("_now")))
        return write(value) if write else f"{value:,}" if value > 99_999 else f"{value:.6g}"
    return str(value)
