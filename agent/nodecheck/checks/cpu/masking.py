"""Why vector instructions are missing: hidden, switched off, or not in the silicon."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum

from nodecheck.checks.cpu import isa
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.cpu.silicon import Silicon, identify, is_generic
from nodecheck.checks.seen import Seen
from nodecheck.model import Evidence, Struct


class Cause(Enum):
    """What took the instructions away."""

    GENERIC_TYPE = "the CPU type is a generic one"
    HIDDEN = "the silicon has them and the guest does not see them"
    XSAVE_OFF = "XSAVE is off, and with it all vector state"
    SWITCHED_OFF = "the silicon has them and they are switched off"
    SILICON = "nothing shows that the silicon has them"

    @property
    def masked(self) -> bool:
        """Whether it is the hypervisor's doing."""
        return self in {Cause.GENERIC_TYPE, Cause.HIDDEN}


class Diagnosis(Struct, frozen=True):
    """Which of isa.VECTOR are missing and why. `switches` name the option or mitigation at work."""

    cause: Cause
    missing: tuple[str, ...]
    flags: frozenset[str]
    silicon: Silicon | None
    switches: tuple[Evidence, ...] = ()

    @property
    def has_avx(self) -> bool:
        """Whether AVX itself is there."""
        return "avx" not in self.missing


_CLEARCPUID_BITS = {
    "154": "xsave",
    "156": "avx",
    "157": "f16c",
    "140": "fma",
    "293": "avx2",
    "296": "bmi2",
}
"""Feature numbers of Linux's cpufeatures.h, word x 32 + bit."""

_DROPPED_WITH = {
    "xsave": ("avx", "avx2", "fma"),
    "avx": ("avx", "avx2", "fma"),
}
"""What the kernel drops along (arch/x86/kernel/cpu/cpuid-deps.c)."""


def brand_of(cpu: CpuFacts) -> str | None:
    """The brand that counts: CPUID's, as an emulator leaves /proc/cpuinfo to its host."""
    return cpu.cpuid_brand or cpu.brand


def diagnose(seen: Seen) -> Diagnosis | None:
    """None where nothing is missing, where the flags are not known, and off x86-64."""
    cpu = seen.facts.cpu
    if cpu.arch != "x86_64" or cpu.usable_flags is None:
        return None
    flags = frozenset(cpu.usable_flags)
    missing = isa.missing(flags)
    if not missing:
        return None
    guest = bool(seen.facts.virt.guest) or cpu.hypervisor is not None
    brand = brand_of(cpu)
    silicon = None
    if not is_generic(brand, guest=guest):
        silicon = identify(cpu.vendor, cpu.family, cpu.model, cpu.stepping, brand)
    switches = tuple(_switches(cpu, missing))
    cause = _cause(brand, guest, flags, _hidden(silicon, missing), switches)
    return Diagnosis(cause, missing, flags, silicon, switches)


def _cause(
    brand: str | None,
    guest: bool,
    flags: frozenset[str],
    hidden: tuple[str, ...],
    switches: tuple[Evidence, ...],
) -> Cause:
    if is_generic(brand, guest=False) or (is_generic(brand, guest=guest) and not switches):
        return Cause.GENERIC_TYPE
    if _xsave_is_off(flags):
        return Cause.XSAVE_OFF
    # no kernel switch removes SSE4, so without it someone else hides things
    below_sse4 = any(name not in flags for name in isa.SSE4)
    if hidden and not switches and (guest or below_sse4):
        return Cause.HIDDEN
    return Cause.SWITCHED_OFF if hidden or switches else Cause.SILICON


def _hidden(silicon: Silicon | None, missing: Collection[str]) -> tuple[str, ...]:
    """What is missing although the silicon has it for sure; beyond AVX only where it has AVX2."""
    if silicon is None:
        return ()
    sure = silicon.features if "avx2" in silicon.features else silicon.features & {"avx"}
    return tuple(name for name in missing if name in sure)


def _xsave_is_off(flags: Collection[str]) -> bool:
    return "xsave" not in flags and any(name in flags for name in isa.XSAVE_PEERS)


def _switches(cpu: CpuFacts, missing: Collection[str]) -> Iterator[Evidence]:
    """Boot options and mitigations that explain what is missing."""
    for option in cpu.boot_options:
        if any(name in missing for name in _switched_off_by(option)):
            yield Evidence(value=option, source="/proc/cmdline", expected="no such option")
    mitigation = cpu.gather_data_sampling or ""
    if "AVX disabled" in mitigation and "avx" in missing:
        source = "/sys/devices/system/cpu/vulnerabilities/gather_data_sampling"
        yield Evidence(value=mitigation, source=source, expected="microcode with the mitigation")
    if off := [name for name in missing if name in cpu.disabled_flags]:
        yield Evidence(
            value=f"CPUID shows {' '.join(off)}, XCR0 does not enable it",
            source="CPUID and XGETBV",
            expected="enabled by the kernel",
        )


def _switched_off_by(option: str) -> tuple[str, ...]:
    name, _, value = option.partition("=")
    if name == "noxsave":
        return _DROPPED_WITH["xsave"]
    if name != "clearcpuid":
        return ()
    cleared = [_CLEARCPUID_BITS.get(item, item) for item in re.split(r"[,\s]", value.lower())]
    return tuple(lost for item in cleared for lost in _DROPPED_WITH.get(item, (item,)))
