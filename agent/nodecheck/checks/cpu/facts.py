"""What was seen of the processor."""

from __future__ import annotations

from nodecheck.model import Struct


class CoreType(Struct, frozen=True, kw_only=True):
    """Cores of one kind on a hybrid processor, named by part, PMU, capacity, L2 or frequency."""

    name: str
    cpus: tuple[int, ...]


class CpuFacts(Struct, frozen=True, kw_only=True):
    """Names are the kernel's (`/proc/cpuinfo`); CPU numbers are logical CPUs.

    `flags` is the first processor's list, `cpuid_flags` the instruction sets that our own CPUID
    shows and the OS enabled (names as in `flags`), `usable_flags` what both say. `witness` tells
    for an instruction set whether its instructions execute whatever CPUID says: executed, sigill
    (proves nothing) or wrong. On aarch64 the HWCAP bits take the place of CPUID.

    `vendor`, `family`, `model` and `stepping` are CPUID's where we have it: an emulator leaves
    /proc/cpuinfo to its host. `disabled_flags` are what CPUID shows and the OS did not enable.
    `hypervisor` is named as systemd-detect-virt prints it. `clocked_cpus` counts the CPUs whose
    frequency can be read, `current_mhz` and `maximum_mhz` are medians over a sample of them. Shares
    are 0 to 1 of all CPUs over `sample_seconds`.
    """

    arch: str | None = None
    vendor: str | None = None
    brand: str | None = None
    family: int | None = None
    model: int | None = None
    stepping: int | None = None
    implementer: str | None = None
    parts: tuple[str, ...] = ()
    flags: tuple[str, ...] | None = None
    cpuid_flags: tuple[str, ...] | None = None
    cpuid_brand: str | None = None
    usable_flags: tuple[str, ...] | None = None
    disabled_flags: tuple[str, ...] = ()
    x86_64_level: int | None = None
    witness: dict[str, str] | None = None
    hypervisor: str | None = None
    logical_cpus: int | None = None
    physical_cores: int | None = None
    sockets: int | None = None
    online: tuple[int, ...] | None = None
    present: tuple[int, ...] | None = None
    isolated: tuple[int, ...] | None = None
    smt_control: str | None = None
    core_types: tuple[CoreType, ...] = ()
    llc_bytes: int | None = None
    boot_options: tuple[str, ...] = ()
    gather_data_sampling: str | None = None
    clocksource: str | None = None
    clock_gettime_seconds: float | None = None
    scaling_driver: str | None = None
    governors: tuple[str, ...] = ()
    clocked_cpus: int | None = None
    current_mhz: float | None = None
    maximum_mhz: float | None = None
    load_1min: float | None = None
    steal_share: float | None = None
    busy_share: float | None = None
    sample_seconds: float | None = None
