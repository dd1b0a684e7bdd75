"""Rules on the vector instructions: hidden by a hypervisor, switched off, or not in the silicon."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cpu import isa, libraries, remedies
from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.cpu.masking import Cause, Diagnosis, brand_of, diagnose
from nodecheck.checks.cpu.silicon import is_emulated
from nodecheck.checks.cpu.witness import is_avx2_generation, proof
from nodecheck.checks.seen import Seen
from nodecheck.model import Evidence, Finding, Owner, Severity

_TYPES = (
    ("Common KVM processor", "kvm64"),
    ("Common 32-bit KVM processor", "kvm32"),
    ("QEMU Virtual CPU", "qemu64 or built on it"),
)
"""What a model name begins with -> the CPU type that shows it."""

_WORDS = {"ssse3": "SSSE3", "sse4_2": "SSE4.2"}
"""Of what lies below AVX, the two that cost most."""


def judge_masked(seen: Seen) -> Iterator[Finding]:
    """cpu.hypervisor_masked."""
    found = diagnose(seen)
    if found is None or not found.cause.masked:
        return
    cpu, virt = seen.facts.cpu, seen.facts.virt
    yield Finding(
        id="cpu.hypervisor_masked",
        severity=Severity.WARNING if found.has_avx else Severity.CRITICAL,
        subject="cpu",
        summary=f"{_who_hides(cpu, found)} {_names(found)}",
        headline=f"The hypervisor hides {_foremost(found)}",
        evidence=(
            *proof(cpu),
            _brand_evidence(cpu, found),
            _flag_evidence(cpu, found),
            *_guest_evidence(seen),
        ),
        impact=_impact(seen, found, faults=virt.emulated),
        remedy=remedies.unmask(virt, cpu.hypervisor, _what_it_gives(cpu, found)),
        owner=Owner.HYPERVISOR,
    )


def _who_hides(cpu: CpuFacts, found: Diagnosis) -> str:
    name = " ".join((brand_of(cpu) or "").split())
    level = f"x86-64-v{cpu.x86_64_level}" if cpu.x86_64_level else "below x86-64-v1"
    if found.cause is Cause.HIDDEN:
        silicon = found.silicon.name if found.silicon else "known silicon"
        return f'The hypervisor lowers this {silicon} ("{name}") to {level} and hides'
    kind = next((f" {kind}" for prefix, kind in _TYPES if name.startswith(prefix)), "")
    return f'VM CPU type{kind} ("{name}"), {level}: hides'


def judge_no_avx(seen: Seen) -> Iterator[Finding]:
    """cpu.no_avx."""
    found = diagnose(seen)
    if found is not None and not found.cause.masked and not found.has_avx:
        yield _not_masked(seen, found, "cpu.no_avx", Severity.CRITICAL)


def judge_no_avx2(seen: Seen) -> Iterator[Finding]:
    """cpu.no_avx2."""
    found = diagnose(seen)
    if found is not None and not found.cause.masked and found.has_avx:
        yield _not_masked(seen, found, "cpu.no_avx2", Severity.WARNING)


def _not_masked(seen: Seen, found: Diagnosis, finding_id: str, severity: Severity) -> Finding:
    cpu = seen.facts.cpu
    guest = bool(seen.facts.virt.guest)
    return Finding(
        id=finding_id,
        severity=severity,
        subject="cpu",
        summary=f"{_names(found)} cannot be used: {_why(cpu, found)}",
        evidence=(_brand_evidence(cpu, found), _flag_evidence(cpu, found), *found.switches),
        impact=_impact(seen, found, faults=found.cause is Cause.SILICON),
        remedy=remedies.without_vectors(found, guest=guest, on_arm=is_emulated(brand_of(cpu))),
        owner=_owner(found, guest=guest),
    )


def _why(cpu: CpuFacts, found: Diagnosis) -> str:
    if found.cause is Cause.XSAVE_OFF:
        return "XSAVE is off, so the kernel keeps no vector registers beyond SSE"
    if found.cause is Cause.SWITCHED_OFF:
        silicon = found.silicon.name if found.silicon else "the"
        return f"{silicon} silicon has them, but they are switched off"
    if is_emulated(brand_of(cpu)):
        return "this x86 processor is emulated on Arm"
    if found.silicon is not None:
        return f"{found.silicon.name} silicon has {found.silicon.reach}"
    return "nothing shows that this processor has them"


def _owner(found: Diagnosis, *, guest: bool) -> Owner:
    if found.cause is Cause.SILICON:
        return Owner.HARDWARE
    hidden_xsave = found.cause is Cause.XSAVE_OFF and not found.switches and guest
    return Owner.HYPERVISOR if hidden_xsave else Owner.OPERATOR


def _impact(seen: Seen, found: Diagnosis, *, faults: bool | None) -> str:
    lost = libraries.broken(found.flags, faults=faults)
    unharmed = "serving from the GPUs alone is not slowed" if seen.facts.gpus else None
    parts = (isa.decode_cost(found.flags), lost, unharmed)
    return "; ".join(part for part in parts if part)


def _names(found: Diagnosis) -> str:
    """The missing sets in a reader's spelling, e.g. "SSSE3, AVX and AVX2"."""
    below = [words for flag, words in _WORDS.items() if flag not in found.flags]
    *most, last = [*below, *(flag.upper() for flag in found.missing)]
    return f"{', '.join(most)} and {last}" if most else last


def _foremost(found: Diagnosis) -> str:
    """The missing sets that decide how fast weights are used, or all where neither is missing."""
    both = [name.upper() for name in ("avx2", "fma") if name in found.missing]
    return " and ".join(both) or _names(found)


def _brand_evidence(cpu: CpuFacts, found: Diagnosis) -> Evidence:
    is_type = found.cause is Cause.GENERIC_TYPE
    numbers = f"family {cpu.family} model {cpu.model} stepping {cpu.stepping}"
    return Evidence(
        value=f"{' '.join((brand_of(cpu) or 'no model name').split())} ({numbers})",
        source="CPUID" if cpu.cpuid_brand else "/proc/cpuinfo",
        expected="the name of a real processor" if is_type else None,
        basis="model names of QEMU's CPU types" if is_type else None,
    )


def _flag_evidence(cpu: CpuFacts, found: Diagnosis) -> Evidence:
    lost = [name for name in (*isa.SSE4, *isa.VECTOR) if name not in found.flags]
    basis = f"{found.silicon.name} in published CPUID dumps" if found.silicon else "x86-64 psABI"
    is_expected = found.cause is not Cause.SILICON
    return Evidence(
        value=f"missing: {' '.join(lost)}",
        source="/proc/cpuinfo and CPUID" if cpu.cpuid_flags is not None else "/proc/cpuinfo",
        expected=" ".join(isa.VECTOR) if is_expected else None,
        basis=basis if is_expected else None,
    )


def _guest_evidence(seen: Seen) -> Iterator[Evidence]:
    """What shows that there is a hypervisor at all."""
    for item in seen.facts.virt.guest_evidence[:1]:
        source, _, value = item.partition(": ")
        yield Evidence(
            value=f'"{value}"', source=source, expected="nothing of the kind on bare metal"
        )


def _what_it_gives(cpu: CpuFacts, found: Diagnosis) -> str:
    if found.silicon is not None:
        return f"The silicon ({found.silicon.name}) would give {found.silicon.reach}"
    if is_avx2_generation(cpu):
        return "The silicon would give AVX2 (x86-64-v3) at least"
    return (
        "What it gives is the silicon's: look for avx2 in the host's own /proc/cpuinfo first; a "
        "host without it cannot help"
    )
