"""/proc/cpuinfo of x86, Arm and POWER; also excerpts of it, in any order, with tabs or blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.model import Struct

_NUMBER_LIMIT = 1 << 20
_NAME_LIMIT = 120
_TOPOLOGY_KEYS = ("physical id", "siblings", "core id", "cpu cores")

_OTHER_ARCHITECTURES = (
    ("cpu", "POWER", "ppc64"),
    ("cpu", "PPC", "ppc64"),
    ("cpu", "UltraSparc", "sparc64"),
    ("isa", "rv64", "riscv64"),
    ("vendor_id", "IBM/S390", "s390x"),
    ("CPU Family", "Loongson", "loongarch64"),
    ("arch", "IA-64", "ia64"),
)
"""A key, what its value begins with, and the architecture that writes it."""

_Block = dict[str, str]


class CpuInfo(Struct, frozen=True):
    """What the file says; None where it does not, or where it is an excerpt and cannot say.

    `part_of` gives the Arm part of each processor number. `flags` are the first processor's.
    """

    arch: str | None = None
    vendor: str | None = None
    brand: str | None = None
    family: int | None = None
    model: int | None = None
    stepping: int | None = None
    implementer: str | None = None
    flags: tuple[str, ...] | None = None
    part_of: tuple[tuple[int, str], ...] = ()
    logical_cpus: int | None = None
    physical_cores: int | None = None
    sockets: int | None = None


def parse(text: str) -> CpuInfo:
    """Never raises: what does not parse is None."""
    blocks = list(_blocks(text))
    first: _Block = {}
    for block in blocks:
        for key, value in block.items():
            first.setdefault(key, value)
    processors = [block for block in blocks if number(block.get("processor")) is not None]
    x86 = "flags" in first
    whole = not _is_excerpt(processors)
    return CpuInfo(
        arch=_arch(first),
        vendor=_name(first.get("vendor_id")),
        brand=_name(first.get("model name")),
        # POWER's `model` names the machine
        family=number(first.get("cpu family")) if x86 else None,
        model=number(first.get("model")) if x86 else None,
        stepping=number(first.get("stepping")) if x86 else None,
        implementer=_name(first.get("CPU implementer")),
        flags=_flags(first),
        part_of=_parts(processors),
        logical_cpus=(len({b["processor"] for b in processors}) or None) if whole else None,
        physical_cores=_physical_cores(processors) if whole else None,
        sockets=(len(_physical_ids(processors)) or None) if whole else None,
    )


def number(text: str | None) -> int | None:
    """A count or an id in decimal; None for anything else or out of reason."""
    if text is None or not re.fullmatch(r"[0-9]{1,7}", text.strip()):
        return None
    value = int(text)
    return value if value <= _NUMBER_LIMIT else None


def _blocks(text: str) -> Iterator[_Block]:
    """Groups of `key : value` lines, ended by an empty line or by the next `processor`."""
    block: _Block = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        key = key.strip()
        if block and (not line.strip() or (key == "processor" and key in block)):
            yield block
            block = {}
        if colon and key:
            block.setdefault(key, value.strip(" \t\0"))
    if block:
        yield block


def _is_excerpt(processors: list[_Block]) -> bool:
    """A single processor that has siblings, or says nothing of its place, is not the only one."""
    if len(processors) != 1:
        return False
    siblings = number(processors[0].get("siblings"))
    return (siblings or 0) > 1 or not any(key in processors[0] for key in _TOPOLOGY_KEYS)


def _arch(first: _Block) -> str | None:
    if "flags" in first:
        return "x86_64" if "lm" in first["flags"].split() else "i686"
    if "CPU implementer" in first:
        version = number(first.get("CPU architecture"))
        return "arm" if version is not None and version < 8 else "aarch64"
    for key, prefix, arch in _OTHER_ARCHITECTURES:
        if first.get(key, "").startswith(prefix):
            return arch
    return None


def _flags(first: _Block) -> tuple[str, ...] | None:
    text = first.get("flags", first.get("Features"))
    if text is None:
        return None
    return tuple(dict.fromkeys(f for f in text.split() if re.fullmatch(r"[a-z0-9_]{1,40}", f)))


def _name(text: str | None) -> str | None:
    """A printable name of sane length, None where nothing is left."""
    return "".join(c for c in text or "" if c.isprintable())[:_NAME_LIMIT].strip() or None


def _parts(processors: list[_Block]) -> tuple[tuple[int, str], ...]:
    return tuple(
        (cpu, part)
        for block in processors
        if (part := _name(block.get("CPU part"))) is not None
        and (cpu := number(block["processor"])) is not None
    )


def _physical_ids(processors: list[_Block]) -> set[str]:
    return {b["physical id"] for b in processors if number(b.get("physical id")) is not None}


def _physical_cores(processors: list[_Block]) -> int | None:
    """Sum of `cpu cores` over the packages."""
    cores = {
        block["physical id"]: count
        for block in processors
        if number(block.get("physical id")) is not None
        and (count := number(block.get("cpu cores")))
    }
    return sum(cores.values()) or None
