"""How fast weights can be read and used: arithmetic on bytes and rates, nothing else.

A token of a dense model reads every weight once, so the time of a stage is the bytes that lie there
over a rate: what its memory delivers and what its instructions can use up, at once or in turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.model import Struct
from nodecheck.units import GB

RateTable = dict[str, dict[str, tuple[float, float]]]

CPU_RATES: RateTable = {
    "SSE2": {"q4_0": (1.0, 1.1), "q4_k": (0.9, 1.1), "q8_0": (6.1, 6.7), "f16": (1.8, 2.3)},
    "SSSE3/SSE4": {"q4_0": (5.2, 6.5), "q4_k": (3.8, 4.2), "q8_0": (5.8, 6.5), "f16": (2.5, 2.6)},
    "AVX": {"q4_0": (6.0, 7.6), "q4_k": (10.3, 12.3), "q8_0": (12.2, 15.1), "f16": (2.4, 2.6)},
    "AVX2": {"q4_0": (13.6, 17.7), "q4_k": (15.5, 19.2), "q8_0": (15.3, 15.8), "f16": (20.0, 25.3)},
}
"""GB of weights that one core can use up in a second, lowest and highest figure seen.

Reference: llama.cpp decode per instruction set on one core of a Zen 4 server part, and the same
loops of a 4-bit dot product alone; not measured on this node. AVX-512 gained nothing over AVX2.
"""

MORE_CPU_RATES: RateTable = {
    "SSE2": {
        "q6_k": (0.9, 1.4), "bf16": (1.7, 2.4), "fp8_e4m3": (1.7, 2.4), "int4_g128": (2.7, 3.8),
    },
    "SSSE3/SSE4": {
        "q6_k": (3.5, 5.0), "bf16": (1.7, 2.4), "fp8_e4m3": (1.7, 2.4), "int4_g128": (2.7, 3.8),
    },
    "AVX": {
        "q6_k": (9.9, 14.1), "bf16": (7.3, 10.4), "fp8_e4m3": (1.7, 2.4), "int4_g128": (2.7, 3.8),
    },
    "AVX2": {
        "q6_k": (19.4, 27.7), "bf16": (22.9, 32.7), "fp8_e4m3": (12.7, 18.2),
        "int4_g128": (3.2, 4.5),
    },
}  # fmt: skip
"""The same for types that no engine was measured with: 0.7 to 1 of what our own products reach in
the caches of one core of that part."""

ENGINE_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("AVX2", frozenset({"avx2", "fma", "f16c"})),
    ("AVX", frozenset({"avx"})),
    ("SSSE3/SSE4", frozenset({"ssse3"})),
    ("SSE2", frozenset({"sse2"})),
)
"""Code paths of the CPU backends, best first, and the flags that each needs."""

MEASURED_LEVELS = {"sse2": "SSE2", "sse4.2": "SSSE3/SSE4", "avx": "AVX", "neon": "NEON"}
"""Name of a measured kernel's instruction set where it is what holds decode back."""

WIDE_LEVELS = ("AVX2", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "dotprod")
"""With these it is the number of cores that holds decode back."""

CLEARLY_SLOWER = 1.5
"""Between reading weights and using them up, from which one of the two is told as the limit: decode
needs both, and they overlap only in part."""

ENGINE_SHARE_FROM_MEMORY = (0.45, 1.35)
"""Share of the rate of our products from memory that an engine's whole decode reaches. Source:
docs/accuracy.md, where 95 % of the undisturbed runs lie between 0.84 and 1.34 with weights in small
pages. A report measures in pages of 2 MiB, which engines do not ask for: while two vCPUs used up
56 GB/s in those, llama.cpp's weights came at 27 to 30 (0.48 to 0.56); else 0.81 to 1.15 of that.
"""

ENGINE_SHARE_LOW, ENGINE_SHARE_HIGH = 0.75, 1.2
"""The same where products were measured from the caches alone: of one after the other, reading the
weights and using them up, and of the slower of the two. Source: docs/accuracy.md; on one host they
were hardly done at once (0.97 of one after the other), on another nearly (0.9 of the slower)."""

REFERENCE_SHARE_LOW = 0.8
"""Of the slower of reading and using up, what an engine reaches at least where a core's rate is a
reference. Source: llama.cpp on two threads of the Zen 4 part, 0.79 to 1.26 of two such cores."""

VRAM_EFFICIENCY = (0.70, 0.80)
"""Share of the VRAM rate that decode reaches: 0.73-0.77 seen on an L40, 0.8 in AIConfigurator."""

LINK_EFFICIENCY = (0.50, 0.80)
"""Share of the encoded PCIe rate that pinned copies reach. Source: 0.78-0.88 in public nvbandwidth
outputs; half of it allows for the engine's own gather and scatter."""

READ_SHARE = (0.95, 1.0)
"""Share of the weights that a token reads. The input embedding is read one row a token; it is about
5 % of a 27B model."""


class Range(Struct, frozen=True):
    """A lower and an upper bound; `low` is None where there is only a ceiling."""

    low: float | None
    high: float

    @property
    def floor(self) -> float:
        """The lower bound, 0 where there is none."""
        return self.low or 0.0

    def __add__(self, other: Range) -> Range:
        """The range of a sum; without a lower bound where one of the two has none."""
        known = self.low is not None and other.low is not None
        return Range(self.floor + other.floor if known else None, self.high + other.high)

    def times(self, factor: float) -> Range:
        """Both bounds multiplied."""
        return Range(None if self.low is None else self.low * factor, self.high * factor)


def total(ranges: Iterable[Range]) -> Range:
    """The range of the sum of all."""
    return sum(ranges, Range(0.0, 0.0))


def tokens_per_second(seconds: Range, *, ceiling_only: bool = False) -> Range:
    """The rates of a token's time, fastest to slowest; no lower one where only a ceiling holds."""
    return Range(None if ceiling_only else 1 / seconds.high, 1 / seconds.floor)


def engine_level(flags: tuple[str, ...]) -> str | None:
    """The code path that an engine's CPU backend takes with these flags."""
    have = set(flags)
    return next((name for name, needs in ENGINE_LEVELS if needs <= have), None)


def from_memory(rate: float) -> Range:
    """What an engine reaches where our products from memory reach `rate`, in the same unit."""
    low, high = ENGINE_SHARE_FROM_MEMORY
    return Range(rate * low, rate * high)


def from_caches(compute: float, read: float) -> Range:
    """What an engine reaches where weights are used up at one rate and read at another."""
    in_turn = 1 / (1 / compute + 1 / read)
    return Range(ENGINE_SHARE_LOW * in_turn, ENGINE_SHARE_HIGH * min(compute, read))


def from_reference(compute: float, read: float) -> float:
    """The least that an engine reaches where `compute` is a reference, in the same unit."""
    in_turn = 1 / (1 / compute + 1 / read)
    return min(REFERENCE_SHARE_LOW * min(compute, read), in_turn)


def core_rate(level: str, weight_type: str) -> Range | None:
    """Bytes of weights a second that one core uses up; None where there is no reference."""
    rates = (CPU_RATES[level] | MORE_CPU_RATES[level]).get(weight_type)
    return Range(rates[0] * GB, rates[1] * GB) if rates else None
