"""Rules on which processor this is: architectures, contradictions, Arm's features."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cpu import isa
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity


def judge_unsupported(seen: Seen) -> Iterator[Finding]:
    """cpu.unsupported_arch."""
    arch = seen.facts.cpu.arch
    if arch is None or arch in {"x86_64", "aarch64"}:
        return
    yield Finding(
        id="cpu.unsupported_arch",
        severity=Severity.INFO,
        subject="cpu",
        summary=f"The instruction set of {arch} was not judged",
        evidence=(
            Evidence(
                value=f"machine {arch}",
                source="/proc/cpuinfo or uname",
                expected="x86_64 or aarch64",
            ),
        ),
        impact="Nothing is known here about what runs on this processor, and how fast",
        remedy=Remedy(text="Nothing to change", action=Action.NONE),
        owner=Owner.USER,
    )


def judge_flags_disagree(seen: Seen) -> Iterator[Finding]:
    """cpu.flags_disagree: the kernel lists what CPUID does not show. The reverse is a cause."""
    cpu = seen.facts.cpu
    if cpu.arch != "x86_64" or cpu.flags is None or cpu.cpuid_flags is None:
        return
    extra = [name for name in cpu.flags if name in isa.COMPARED and name not in cpu.cpuid_flags]
    if not extra:
        return
    yield Finding(
        id="cpu.flags_disagree",
        severity=Severity.WARNING,
        subject="cpu",
        summary="The kernel lists instruction sets that CPUID does not show: emulated or faked",
        evidence=(
            Evidence(
                value=f"listed only by the kernel: {' '.join(extra)}",
                source="/proc/cpuinfo",
                expected="what CPUID shows",
                basis=f"CPUID of {cpu.cpuid_brand or 'this processor'}",
            ),
        ),
        impact=(
            f"{len(extra)} instruction sets that programs read from /proc/cpuinfo end in SIGILL; "
            "this report trusts CPUID"
        ),
        remedy=Remedy(
            text="Nothing to change: judge what executes. Do not build for the listed flags",
            action=Action.NONE,
        ),
        owner=Owner.USER,
    )


def judge_no_i8mm(seen: Seen) -> Iterator[Finding]:
    """cpu.no_i8mm."""
    cpu = seen.facts.cpu
    if cpu.arch != "aarch64" or cpu.usable_flags is None or "i8mm" in cpu.usable_flags:
        return
    yield Finding(
        id="cpu.no_i8mm",
        severity=Severity.INFO,
        subject="cpu",
        summary="The processor has no int8 matrix multiplication (i8mm)",
        evidence=(
            Evidence(
                value="no i8mm among the features",
                source="/proc/cpuinfo Features" + (" and HWCAP" if cpu.cpuid_flags else ""),
                expected="i8mm, as on Neoverse V1 and newer",
            ),
        ),
        impact="Prompt processing of 8-bit and 4-bit weights on the CPU uses dot products only",
        remedy=Remedy(text="Nothing to change: it is the silicon's", action=Action.NONE),
        owner=Owner.HARDWARE,
    )
