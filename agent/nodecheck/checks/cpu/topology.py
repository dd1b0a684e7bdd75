"""CPUs, cores, packages, kinds of cores and the last-level cache, from sysfs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from nodecheck.checks.cpu.cpuinfo import CpuInfo
from nodecheck.checks.cpu.facts import CoreType
from nodecheck.machine.reader import Reader

CPU_FOLDER = "/sys/devices/system/cpu"

_HYBRID_CPU_LIMIT = 256
"""No hybrid processor is larger; comparing the cores of a large server one by one takes long."""

_HYBRID_FREQUENCY_RATIO = 1.2
"""Favoured cores of one kind differ by less than 20 %."""

_CACHE_LIMIT_BYTES = 1 << 36


def cpu_numbers(reader: Reader, online: tuple[int, ...] | None) -> tuple[int, ...]:
    """The online CPUs; without that list, those that have a folder."""
    if online is not None:
        return online
    names = (re.fullmatch(r"cpu([0-9]{1,5})", name) for name in reader.names(CPU_FOLDER))
    return tuple(sorted(int(match[1]) for match in names if match))


def cores_and_packages(reader: Reader, cpus: tuple[int, ...]) -> tuple[int | None, int | None]:
    """Distinct (package, core) and packages; None where a CPU does not tell its place.

    A package number of -1 is the kernel's for "not known": one package then, of unknown number.
    """
    places = set()
    for cpu in cpus:
        folder = f"{CPU_FOLDER}/cpu{cpu}/topology"
        core = reader.integer(f"{folder}/core_id", None)
        package = reader.integer(f"{folder}/physical_package_id", None)
        if core is None or package is None:
            return None, None
        places.add((package, core))
    packages = {package for package, _ in places}
    return len(places) or None, None if not packages or -1 in packages else len(packages)


def core_types(reader: Reader, info: CpuInfo, cpus: tuple[int, ...]) -> tuple[CoreType, ...]:
    """The kinds of cores by the first trait that tells them apart, () where all are alike."""
    parts = dict(info.part_of)
    if len(set(parts.values())) > 1:
        return _grouped(parts)
    if pmus := _hybrid_pmus(reader):
        return pmus
    if not 1 < len(cpus) <= _HYBRID_CPU_LIMIT:
        return ()
    for trait in (_capacity, _l2_size):
        groups = _by_trait(reader, cpus, trait)
        if len(set(groups.values())) > 1:
            return _grouped(groups)
    return _by_frequency(reader, cpus)


def _grouped(traits: dict[int, str]) -> tuple[CoreType, ...]:
    groups: dict[str, list[int]] = {}
    for cpu in sorted(traits):
        groups.setdefault(traits[cpu], []).append(cpu)
    return tuple(CoreType(name=name, cpus=tuple(members)) for name, members in groups.items())


def _hybrid_pmus(reader: Reader) -> tuple[CoreType, ...]:
    """Intel's two PMUs, each with the CPUs that it counts on."""
    kinds = []
    for name in ("cpu_core", "cpu_atom"):
        for folder in ("/sys/devices", "/sys/bus/event_source/devices"):
            if cpus := reader.numbers(f"{folder}/{name}/cpus", None):
                kinds.append(CoreType(name=name, cpus=cpus))
                break
    return tuple(kinds) if len(kinds) > 1 else ()


def _by_trait(
    reader: Reader, cpus: tuple[int, ...], trait: Callable[[Reader, int], str | None]
) -> dict[int, str]:
    """The trait of every CPU, nothing where one of them does not tell."""
    found: dict[int, str] = {}
    for cpu in cpus:
        value = trait(reader, cpu)
        if value is None:
            return {}
        found[cpu] = value
    return found


def _capacity(reader: Reader, cpu: int) -> str | None:
    value = reader.integer(f"{CPU_FOLDER}/cpu{cpu}/cpu_capacity", None)
    return None if value is None else f"capacity {value}"


def _l2_size(reader: Reader, cpu: int) -> str | None:
    for index in (2, 1, 3):
        folder = f"{CPU_FOLDER}/cpu{cpu}/cache/index{index}"
        if reader.text(f"{folder}/level", None) == "2":
            size = reader.text(f"{folder}/size", None)
            return f"L2 {size}" if size else None
    return None


def _by_frequency(reader: Reader, cpus: tuple[int, ...]) -> tuple[CoreType, ...]:
    khz: dict[int, int] = {}
    for cpu in cpus:
        value = reader.integer(f"{CPU_FOLDER}/cpu{cpu}/cpufreq/cpuinfo_max_freq", None)
        if not value or value < 0:
            return ()
        khz[cpu] = value
    fastest = max(khz.values())
    if fastest < _HYBRID_FREQUENCY_RATIO * min(khz.values()):
        return ()
    big = {cpu: fastest < _HYBRID_FREQUENCY_RATIO * value for cpu, value in khz.items()}
    return _grouped(
        {cpu: "faster cores" if is_big else "slower cores" for cpu, is_big in big.items()}
    )


def llc_bytes(reader: Reader, cpus: tuple[int, ...]) -> int | None:
    """Size of all last-level caches: the largest unified level, each shared cache once."""
    total = 0
    covered: set[int] = set()
    for cpu in cpus:
        if cpu in covered:
            continue
        caches = list(_unified_caches(reader, cpu))
        if not caches:
            return None
        _, size, shared = max(caches)
        total += size
        covered.update((cpu, *shared))
    return total or None


def _unified_caches(reader: Reader, cpu: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    folder = f"{CPU_FOLDER}/cpu{cpu}/cache"
    for index in reader.names(folder):
        cache = f"{folder}/{index}"
        if not index.startswith("index") or reader.text(f"{cache}/type", None) != "Unified":
            continue
        level = reader.integer(f"{cache}/level", None)
        size = _size(reader.text(f"{cache}/size", None))
        if level is not None and size is not None:
            yield level, size, reader.numbers(f"{cache}/shared_cpu_list", None) or ()


def _size(text: str | None) -> int | None:
    """Bytes of `32768K` or `36M`."""
    match = re.fullmatch(r"([0-9]{1,9})([KMG]?)", text or "")
    if match is None:
        return None
    size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]
    return size if 0 < size <= _CACHE_LIMIT_BYTES else None
