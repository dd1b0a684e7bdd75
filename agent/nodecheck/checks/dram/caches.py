"""The last level caches of the usable CPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nodecheck.machine.reader import Reader, parse_list
from nodecheck.model import Struct

UNKNOWN_BYTES = 64 << 20
"""What is assumed where no source tells a size."""

_CPUS = "/sys/devices/system/cpu"
_SIZE = re.compile(r"(\d{1,9})([KMG]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAVES = ("8000001d", "4")
_UNIFIED = 3


class Cache(Struct, frozen=True):
    """A last level cache and those of the usable CPUs that share it."""

    size_bytes: int
    cpus: frozenset[int]


class Caches(Struct, frozen=True):
    """`known` is False where the size is an assumption."""

    caches: tuple[Cache, ...]
    known: bool

    @property
    def total_bytes(self) -> int:
        """What the usable CPUs have in all."""
        return sum(cache.size_bytes for cache in self.caches)

    def share_bytes(self, cpus: Sequence[int]) -> float:
        """The most that one of `cpus`, all reading at once, can have for itself."""
        chosen = [(cache.size_bytes, len(cache.cpus.intersection(cpus))) for cache in self.caches]
        return max((size / readers for size, readers in chosen if readers), default=0.0)


def read(reader: Reader, cpus: Sequence[int]) -> Caches:
    """From sysfs; else the size that CPUID tells, for all CPUs together; else an assumption."""
    found = {cache.cpus: cache for cpu in cpus if (cache := _last_level(reader, cpu, cpus))}
    covered = frozenset[int]().union(*found)
    if covered.issuperset(cpus):
        return Caches(tuple(found.values()), known=True)
    size = _from_cpuid(reader)
    return Caches((Cache(size or UNKNOWN_BYTES, frozenset(cpus)),), known=size is not None)


def _last_level(reader: Reader, cpu: int, cpus: Sequence[int]) -> Cache | None:
    """The unified cache of the highest level of one CPU."""
    best: tuple[int, Cache] | None = None
    root = f"{_CPUS}/cpu{cpu}/cache"
    for name in reader.names(root):
        if not name.startswith("index") or reader.text(f"{root}/{name}/type", None) != "Unified":
            continue
        level = reader.integer(f"{root}/{name}/level", None) or 0
        size = _size(reader.text(f"{root}/{name}/size", None))
        if size and (best is None or level > best[0]):
            shared = _shared(reader.text(f"{root}/{name}/shared_cpu_list", None), cpu)
            best = level, Cache(size, shared.intersection(cpus))
    return best[1] if best else None


def _shared(text: str | None, cpu: int) -> frozenset[int]:
    try:
        return frozenset(parse_list(text or "")) | {cpu}
    except ValueError:
        return frozenset({cpu})


def _size(text: str | None) -> int | None:
    match = _SIZE.fullmatch(text or "")
    return int(match[1]) * _UNITS[match[2]] if match else None


def _from_cpuid(reader: Reader) -> int | None:
    """The largest unified cache in AMD's or Intel's leaf: ways x partitions x line x sets."""
    try:
        leaves = reader.host.cpuid()
    except Exception:  # noqa: BLE001 - the extension's own error cannot be imported without it
        return None
    return max(_cpuid_sizes(leaves), default=None)


def _cpuid_sizes(leaves: dict[str, tuple[int, int, int, int]]) -> Iterator[int]:
    for name, (eax, ebx, ecx, _) in leaves.items():
        if name.partition(".")[0] in _LEAVES and eax & 0x1F == _UNIFIED:
            ways, partitions, line = (ebx >> 22) + 1, (ebx >> 12 & 0x3FF) + 1, (ebx & 0xFFF) + 1
            yield ways * partitions * line * (ecx + 1)
