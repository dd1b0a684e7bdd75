"""Read the processor: what it is, what it executes, how its CPUs are laid out and clocked."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from nodecheck.checks.cpu import clocks, cpuid, hwcap, isa, topology
from nodecheck.checks.cpu.cpuinfo import CpuInfo, parse
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.cpu.silicon import is_generic
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.machine.virtualization import detect
from nodecheck.model import Reason

DEADLINE_SECONDS = 4.0

_BOOT_OPTIONS = frozenset(
    [
        "noxsave",
        "clearcpuid",
        "gather_data_sampling",
        "mitigations",
        "isolcpus",
        "nohz_full",
        "maxcpus",
        "nr_cpus",
        "nosmt",
        "clocksource",
        "tsc",
        "notsc",
        "intel_pstate",
        "amd_pstate",
    ]
)
"""Those that a rule looks at; the rest of a command line may hold secrets."""

_CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

T = TypeVar("T")


def probe(reader: Reader) -> CpuFacts:
    """The processor as this process sees it; see Reader for what is missing."""
    ticks = clocks.sample(reader)
    text = reader.text("/proc/cpuinfo", "flags")
    info = parse(text or "")
    facts = _identified(reader, info, text)
    facts = _laid_out(reader, facts, info)
    facts = _clocked(reader, facts)
    shares = clocks.shares(reader, ticks)
    return replace(
        facts, busy_share=shares.busy, steal_share=shares.steal, sample_seconds=shares.seconds
    )


def _identified(reader: Reader, info: CpuInfo, text: str | None) -> CpuFacts:
    """Who made it, and which instruction sets can be used."""
    arch = _arch(reader, info)
    if text is not None and info.arch is None:
        reader.gap("flags", Reason.FAILED, "/proc/cpuinfo: names no processor that is known")
    leaves = None
    if arch in {"x86_64", None}:
        leaves = _ask(reader, "cpuid_flags", reader.host.cpuid)
    who = cpuid.identity(leaves) if leaves else None
    arch = arch or ("x86_64" if who else None)
    brand = info.brand or (who.brand if who else None)
    sets = _instruction_sets(reader, arch, info, leaves)
    return CpuFacts(
        arch=arch,
        vendor=who.vendor if who else info.vendor,
        brand=brand or (_last_resort_brand(reader) if text is None and who is None else None),
        family=who.family if who else info.family,
        model=who.model if who else info.model,
        stepping=who.stepping if who else info.stepping,
        implementer=info.implementer,
        parts=tuple(dict.fromkeys(part for _, part in info.part_of)),
        flags=sets.listed,
        cpuid_flags=sets.shown,
        cpuid_brand=who.brand if who else None,
        usable_flags=sets.usable,
        disabled_flags=sets.disabled,
        x86_64_level=isa.level(sets.usable) if arch == "x86_64" and sets.usable else None,
        witness=_witness(reader, arch, sets, who.brand if who else brand),
        hypervisor=detect(reader, text, leaves).hypervisor,
    )


def _arch(reader: Reader, info: CpuInfo) -> str | None:
    """Live the kernel's word, in a capture what cpuinfo shows."""
    if reader.host.live:
        return os.uname().machine
    if info.arch == "ppc64":  # cpuinfo does not tell the byte order
        return reader.text("/proc/sys/kernel/arch", None) or info.arch
    return info.arch


@dataclass(frozen=True)
class _Sets:
    """Instruction sets: listed by the kernel, shown by CPUID (or HWCAP), usable, shown but off."""

    listed: tuple[str, ...] | None
    shown: tuple[str, ...] | None = None
    usable: tuple[str, ...] | None = None
    disabled: tuple[str, ...] = ()


def _instruction_sets(
    reader: Reader, arch: str | None, info: CpuInfo, leaves: cpuid.Leaves | None
) -> _Sets:
    # under user-mode emulation cpuinfo may be of another architecture
    listed = info.flags if info.arch in {arch, None} else None
    if leaves:
        xcr0 = _ask(reader, None, reader.host.xcr0)
        can = cpuid.usable(leaves, xcr0)
        disabled = tuple(sorted(cpuid.shown(leaves) - can))
        return _Sets(listed, tuple(sorted(can)), _both(listed, can, cpuid.COVERED), disabled)
    if arch == "aarch64" and reader.host.live:
        capabilities = _ask(reader, "cpuid_flags", _hwcaps)
        if capabilities is not None:
            can = hwcap.names(*capabilities)
            return _Sets(listed, tuple(sorted(can)), _both(listed, can, hwcap.COVERED))
    return _Sets(listed, usable=listed)


def _both(
    listed: tuple[str, ...] | None, can: frozenset[str], covered: frozenset[str]
) -> tuple[str, ...]:
    """Listed flags that the processor confirms; its own word alone where there is no list."""
    if listed is None:
        return tuple(sorted(can))
    return tuple(name for name in listed if name in can or name not in covered)


def _hwcaps() -> tuple[int, int]:
    from nodecheck.machine import native

    return native.hwcaps()


def _witness(
    reader: Reader, arch: str | None, sets: _Sets, brand: str | None
) -> dict[str, str] | None:
    """Which hidden instructions execute; asked only where something seems hidden.

    Refused instructions leave a line in the kernel log, so a sound node is left in peace.
    """
    if arch != "x86_64" or sets.usable is None:
        return None
    if not isa.missing(sets.usable) and not is_generic(brand, guest=False):
        return None
    return _ask(reader, "witness", reader.host.witness)


def _ask(reader: Reader, field: str | None, ask: Callable[[], T]) -> T | None:
    """What only the processor or our own C code can tell; a gap where it does not."""
    try:
        return ask()
    except UnreadableError as error:
        reason, detail = error.reason, error.detail
    except Exception as error:  # noqa: BLE001  the extension may be missing or built for another CPU
        reason, detail = Reason.UNSUPPORTED, str(error)
    if field is not None:
        reader.gap(field, reason, detail)
    return None


def _last_resort_brand(reader: Reader) -> str | None:
    """The brand by py-cpuinfo, for where there is neither /proc/cpuinfo nor CPUID.

    It takes 1.2 s, and its flags and cache sizes are wrong as often as not: nothing else is used.
    """
    if not reader.host.live:
        return None
    try:
        import cpuinfo

        brand = cpuinfo.get_cpu_info().get("brand_raw")
    except Exception as error:  # noqa: BLE001  it runs programs and parses what they print
        reader.gap("brand", Reason.FAILED, f"py-cpuinfo: {error}")
        return None
    return str(brand)[:120] if brand else None


def _laid_out(reader: Reader, facts: CpuFacts, info: CpuInfo) -> CpuFacts:
    """Which CPUs there are, and how they share cores, packages and caches."""
    folder = topology.CPU_FOLDER
    online = reader.numbers(f"{folder}/online", "online")
    cpus = topology.cpu_numbers(reader, online)
    logical = len(online) if online else info.logical_cpus
    cores, packages = topology.cores_and_packages(reader, cpus)
    cores = cores or info.physical_cores
    llc = topology.llc_bytes(reader, cpus) or _cpuid_llc_bytes(reader, facts, logical)
    for field, value in (("logical_cpus", logical), ("physical_cores", cores), ("llc_bytes", llc)):
        if value is None:
            reader.gap(field, Reason.ABSENT, f"neither {folder} nor /proc/cpuinfo tells")
    return replace(
        facts,
        logical_cpus=logical,
        physical_cores=cores,
        sockets=info.sockets or packages,
        online=online,
        present=reader.numbers(f"{folder}/present", "present"),
        isolated=reader.numbers(f"{folder}/isolated", "isolated"),
        smt_control=reader.text(f"{folder}/smt/control", "smt_control"),
        core_types=topology.core_types(reader, info, cpus),
        llc_bytes=llc,
        boot_options=_boot_options(reader),
        gather_data_sampling=reader.text(f"{folder}/vulnerabilities/gather_data_sampling", None),
    )


def _cpuid_llc_bytes(reader: Reader, facts: CpuFacts, logical: int | None) -> int | None:
    if facts.cpuid_flags is None or facts.arch != "x86_64":
        return None
    return cpuid.llc_bytes(_ask(reader, None, reader.host.cpuid) or {}, logical)


def _boot_options(reader: Reader) -> tuple[str, ...]:
    text = reader.text("/proc/cmdline", "boot_options") or ""
    kernel, _, _ = text.partition(" -- ")  # what follows is for init
    return tuple(o[:200] for o in kernel.split() if o.partition("=")[0] in _BOOT_OPTIONS)


def _clocked(reader: Reader, facts: CpuFacts) -> CpuFacts:
    """Clock source and frequencies."""
    cpus = topology.cpu_numbers(reader, facts.online)
    clock = clocks.frequencies(reader, cpus)
    return replace(
        facts,
        clocksource=reader.text(_CLOCKSOURCE, "clocksource"),
        clock_gettime_seconds=_clock_gettime(reader),
        scaling_driver=clock.driver,
        governors=clock.governors,
        clocked_cpus=clock.cpus,
        current_mhz=clock.current_mhz,
        maximum_mhz=clock.maximum_mhz,
        load_1min=clocks.load_1min(reader),
    )


def _clock_gettime(reader: Reader) -> float | None:
    if not reader.host.live:
        return None

    def timed() -> float:
        from nodecheck.machine import native

        return native.clock_gettime_seconds()

    return _ask(reader, "clock_gettime_seconds", timed)
