"""What it proves that a hidden instruction executes. That one does not execute proves nothing."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.model import Evidence

_INSTRUCTIONS = {
    "ssse3": "PSHUFB",
    "sse4_1": "PMULLD",
    "sse4_2": "CRC32",
    "popcnt": "POPCNT",
    "bmi1": "ANDN",
    "movbe": "MOVBE",
    "adx": "ADCX",
    "bmi2": "PDEP and MULX",
}
"""Names for a reader; aes, pclmulqdq and sha_ni say nothing of AVX2."""

_TELLING = ("ssse3", "sse4_2", "bmi2")
"""One a generation: enough to name where these ran."""

_ZHAOXIN = frozenset(("CentaurHauls", "Shanghai"))


def hidden_but_executed(cpu: CpuFacts) -> tuple[str, ...]:
    """The instruction sets that execute although no flag shows them."""
    usable = cpu.usable_flags or ()
    ran = {name for name, outcome in (cpu.witness or {}).items() if outcome == "executed"}
    return tuple(name for name in _INSTRUCTIONS if name in ran and name not in usable)


def is_avx2_generation(cpu: CpuFacts) -> bool:
    """Whether the silicon is of the AVX2 generation: BMI2 came with AVX2 but for one Zhaoxin."""
    return "bmi2" in hidden_but_executed(cpu) and (cpu.vendor or "").strip() not in _ZHAOXIN


def proof(cpu: CpuFacts) -> Iterator[Evidence]:
    """One piece of evidence where hidden instructions execute, none otherwise."""
    ran = hidden_but_executed(cpu)
    if not ran:
        return
    named = [name for name in _TELLING if name in ran] or list(ran)
    words = ", ".join(_INSTRUCTIONS[name] for name in named)
    told = ": the silicon is of the AVX2 generation" if is_avx2_generation(cpu) else ""
    yield Evidence(
        value=f"{words} execute although CPUID hides them{told}",
        source="execution in a child process",
        expected="a fault, were they missing in the silicon",
        basis="BMI2 ships with AVX2 (447 CPUID dumps)" if told else None,
    )
