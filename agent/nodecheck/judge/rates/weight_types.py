"""Storage types of weights on a CPU: which are measured, and which of those another one is like."""

from __future__ import annotations

from collections.abc import Mapping

from nodecheck.judge.rates.ceilings import Range
from nodecheck.model import Struct
from nodecheck.serving import Workload
from nodecheck.workload.errors import WorkloadError
from nodecheck.workload.restate import BITS_PER_WEIGHT, restated

MEASURED_TYPES = ("q4_0", "q4_k", "q6_k", "q8_0", "f16", "bf16", "fp8_e4m3", "int4_g128")
"""Types whose products a report measures."""

MEASURED_FROM_MEMORY = 3
"""Of them at most as many also from memory: each takes its share of the report's three seconds."""

SMALL_SHARE = 0.02
"""Of what a token reads: a type with less is not worth its measurement."""


class Likeness(Struct, frozen=True):
    """As many weights a second as the type `of`, times `least` to `most`."""

    of: str
    least: float
    most: float


LIKENESSES: Mapping[str, Likeness] = {
    "q5_k": Likeness("q4_k", 0.60, 1.10),
    "q3_k": Likeness("q4_k", 0.50, 1.20),
    "q2_k": Likeness("q4_k", 0.50, 1.30),
    **dict.fromkeys(("q4_1", "q5_0", "q5_1"), Likeness("q4_0", 0.40, 1.10)),
    **dict.fromkeys(("iq4_nl", "iq4_xs", "mxfp4", "nvfp4"), Likeness("q4_0", 0.30, 1.20)),
    **dict.fromkeys(("iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs"), Likeness("q4_k", 0.1, 0.7)),
    **dict.fromkeys(("iq1_s", "iq1_m"), Likeness("q4_k", 0.1, 0.7)),
    "f32": Likeness("f16", 0.50, 3.00),
}
"""What a type without figures of its own is taken for. It is an assumption, and told as one.

Loops of one structure use up about as many weights a second whatever their width: on one core of a
Zen 4 part our q6_k made 0.7 to 1.05 of q4_k's weights with SSE2, SSE4, AVX and AVX2 alike. q4_1 and
q5 have no interleaved layout in llama.cpp; the iq types look each weight up in a table, the
smallest ones in a grid (ggml-cpu/arch/x86/quants.c).
"""


def bits_per_weight(weight_type: str) -> float | None:
    """Scales included, None for a type of which that is not known."""
    bits = BITS_PER_WEIGHT.get(weight_type)
    return float(bits) if bits else None


def as_type(work: Workload, weight_type: str) -> Workload | None:
    """The model with its matrices stored so; None where its size does not follow."""
    try:
        return restated(work, weight_type, None)
    except WorkloadError:
        return None


def rate_by_likeness(weight_type: str, rate_of: Mapping[str, Range]) -> tuple[str, Range] | None:
    """The type that this one is like, and bytes a second from those that this other one reaches.

    None where it is like no type of `rate_of`.
    """
    likeness = LIKENESSES.get(weight_type)
    own = bits_per_weight(weight_type)
    if likeness is None or own is None or likeness.of not in rate_of:
        return None
    width = own / (bits_per_weight(likeness.of) or own)
    rate = rate_of[likeness.of]
    low, high = rate.floor * width * likeness.least, rate.high * width * likeness.most
    return likeness.of, Range(low, high)


def measurable(read_bytes: Mapping[str, float]) -> tuple[str, ...]:
    """The types to measure for a model that reads so many bytes of each, most first.

    One without a kernel of its own is stood for by the one that it is like.
    """
    total = sum(read_bytes.values())
    wanted: dict[str, float] = {}
    for name, size in read_bytes.items():
        likeness = LIKENESSES.get(name)
        kernel = name if name in MEASURED_TYPES else likeness.of if likeness else None
        if kernel and size >= SMALL_SHARE * total:
            wanted[kernel] = wanted.get(kernel, 0) + size
    ranked = sorted(wanted, key=lambda name: -wanted[name])
    return tuple(ranked[:MEASURED_FROM_MEMORY])
