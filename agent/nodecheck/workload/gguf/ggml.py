"""The storage types of ggml, by the number that a GGUF file gives them. Pure."""

from __future__ import annotations

from fractions import Fraction

from nodecheck.model import Struct
from nodecheck.workload.errors import WorkloadError, shown


class GgmlType(Struct, frozen=True, kw_only=True):
    """A type that stores `block` elements of a row in `bytes`."""

    name: str
    block: int
    bytes: int

    @property
    def bits_per_weight(self) -> Fraction:
        """Scales included."""
        return Fraction(8 * self.bytes, self.block)


_SIZES = {
    0: ("f32", 1, 4),
    1: ("f16", 1, 2),
    2: ("q4_0", 32, 18),
    3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24),
    8: ("q8_0", 32, 34),
    9: ("q8_1", 32, 36),
    10: ("q2_k", 256, 84),
    11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144),
    13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210),
    15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136),
    24: ("i8", 1, 1),
    25: ("i16", 1, 2),
    26: ("i32", 1, 4),
    27: ("i64", 1, 8),
    28: ("f64", 1, 8),
    29: ("iq1_m", 256, 56),
    30: ("bf16", 1, 2),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17),
    40: ("nvfp4", 64, 36),
    41: ("q1_0", 128, 18),
    42: ("q2_0", 64, 18),
}

TYPES = {
    number: GgmlType(name=name, block=block, bytes=size)
    for number, (name, block, size) in _SIZES.items()
}
"""Every type that llama.cpp reads. Source: llama.cpp, ggml/src/ggml.c."""

BY_NAME = {kind.name: kind for kind in TYPES.values()}

GGUF_ONLY = {name for name, kind in BY_NAME.items() if kind.block > 1} - {"mxfp4", "nvfp4"}
"""Types of which checkpoints of transformers have none."""

REMOVED = {
    4: "q4_2",
    5: "q4_3",
    31: "q4_0_4_4",
    32: "q4_0_4_8",
    33: "q4_0_8_8",
    36: "iq4_nl_4_4",
    37: "iq4_nl_4_8",
    38: "iq4_nl_8_8",
}
"""Types that llama.cpp once had and no longer reads. Source: llama.cpp, ggml/include/ggml.h."""


def type_of(number: int) -> GgmlType:
    """The type of this number; WorkloadError where there is none."""
    if (found := TYPES.get(number)) is not None:
        return found
    if (name := REMOVED.get(number)) is not None:
        raise WorkloadError(f"type {number} ({name}) was removed from llama.cpp: convert it again")
    raise WorkloadError(f"unknown type {number}: the file is damaged or newer than this program")


def row_bytes(elements: int, kind: GgmlType) -> int:
    """Bytes of a row of so many elements; WorkloadError where they fill no whole blocks."""
    if elements % kind.block:
        raise WorkloadError(
            f"rows of {shown(elements)} elements, which is no multiple of"
            f" the {kind.block} that {kind.name} stores together"
        )
    return elements // kind.block * kind.bytes
