"""Read the processor: what it is, what it executes, how its CPUs are laid out and clocked."""

from __future__ import annotations

import os

from msgspec.structs import replace

from nodecheck.checks.cpu import clocks, cpuid, isa, topology
from nodecheck.checks.cpu.cpuinfo import CpuInfo, parse
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.cpu.instruction_sets import ask, instruction_sets, witness
from nodecheck.machine.reader import Reader
from nodecheck.machine.virtualization import detect
from nodecheck.model import Reason

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
        leaves = ask(reader, "cpuid_flags", reader.host.cpuid)
    who = cpuid.identity(leaves) if leaves else None
    arch = arch or ("x86_64" if who else None)
    brand = info.brand or (who.brand if who else None)
    sets = instruction_sets(reader, arch, info, leaves)
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
        witness=witness(reader, arch, sets, who.brand if who else brand),
        hypervisor=detect(reader, text, leaves).hypervisor,
    )


def _arch(reader: Reader, info: CpuInfo) -> str | None:
    """Live the kernel's word, in a capture what cpuinfo shows."""
    if reader.host.live:
        return os.uname().machine
    if info.arch == "ppc64":  # cpuinfo does not tell the byte order
        return reader.text("/proc/sys/kernel/arch", None) or info.arch
    return info.arch


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
    return cpuid.llc_bytes(ask(reader, None, reader.host.cpuid) or {}, logical)


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

    return ask(reader, "clock_gettime_seconds", timed)
