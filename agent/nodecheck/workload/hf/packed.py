"""How many parameters a module's tensors hold, and in which type, by their shapes. Pure.

A quantised matrix is several tensors: packed numbers and what scales them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from nodecheck.model import Struct
from nodecheck.workload.config.quantisation.scheme import integer_type

_PART = re.compile(
    r"(.+?)[._](weight\.(?:absmax|quant_map|nested_absmax|nested_quant_map|quant_state\..+)"
    r"|weight_(?:packed|scale|scale_inv|scale_2|scale_second|global_scale|zero_point|g_idx|shape"
    r"|format|scales|offset)"
    r"|input_(?:scale|global_scale|amax)|output_scale|[kvq]_scale|scale_inv"
    r"|qweight|qzeros|scales|g_idx|biases|blocks|SCB|weight)"
)

INTEGERS = frozenset(("I8", "U8", "I16", "U16", "I32", "U32"))
"""Of these dtypes an element is no parameter but where a scheme says so."""

NO_NUMBERS = frozenset(("I64", "U64", "BOOL"))
"""Positions, tables of experts and masks: no parameters at all."""

MAIN = ("qweight", "weight_packed", "blocks", "weight")
"""The parts that hold a matrix's numbers, the first that is there."""

SCALES = frozenset(
    (
        "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_shape",
        "input_scale", "input_global_scale", "output_scale", "k_scale", "v_scale", "q_scale",
        "scale_inv", "g_idx", "weight_g_idx",
    )
)  # fmt: skip
"""Parts that are no parameters of a model even where they stand alone."""

_TYPE_NAMES = {"F8_E4M3": "fp8_e4m3", "F8_E5M2": "fp8_e5m2"}


class Stored(Struct, frozen=True):
    """`count` tensors alike, of one dtype and shape: those of all experts of a layer."""

    dtype: str
    shape: tuple[int, ...]
    count: int
    elements: int
    bytes: int


Parts = Mapping[str, Stored]


class Packed(Struct, frozen=True):
    """How a quantisation's configuration says that a module is stored."""

    type: str
    bits: int


class Contents(Struct, frozen=True):
    """What a module's tensors hold together: `parameters` is None where nothing says how many."""

    type: str
    parameters: int | None


def split(name: str) -> tuple[str, str]:
    """A tensor's module and which part of it the tensor is; "" where it is no known part."""
    found = _PART.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def type_name(dtype: str) -> str:
    """A dtype as it is named elsewhere: bf16, fp8_e4m3."""
    return _TYPE_NAMES.get(dtype, dtype.lower())


def main_part(parts: Parts) -> Stored:
    """The tensor that holds a module's numbers; some tensor where none does."""
    found = next((parts[name] for name in MAIN if name in parts), None)
    return found or next(iter(parts.values()))


def contents(parts: Parts, said: Callable[[], Packed | None] = lambda: None) -> Contents:
    """The matrix that a module's tensors hold; `said` is asked where their shapes do not tell."""
    main = main_part(parts)
    if "" in parts or not any(name in parts for name in MAIN):
        scales = all(name in SCALES for name in parts)
        return _plain(main, 0 if scales else main.elements)
    for reading in (_bitsandbytes, _gptq, _floats_of_4_bits):
        if found := reading(parts, main):
            return found
    if len(parts) > 1 and main.dtype in INTEGERS and (packed := said()) is not None:
        return Contents(packed.type, main.bytes * 8 // packed.bits)
    if len(parts) > 1 and main.dtype == "I8":
        return Contents("int8", main.elements)
    return _plain(main, main.elements)


def _plain(main: Stored, elements: int) -> Contents:
    if main.dtype in NO_NUMBERS:
        elements = 0
    unknown = main.dtype in INTEGERS and elements
    return Contents(type_name(main.dtype), None if unknown else elements)


def _bitsandbytes(parts: Parts, main: Stored) -> Contents | None:
    """Two numbers a byte, or one with a scale for each row."""
    if "weight.absmax" in parts:
        states = (part.rpartition("__")[2] for part in parts if "quant_state" in part)
        return Contents(f"bnb_{next(states, '4bit')}", 2 * main.bytes)
    return Contents("int8", main.elements) if "SCB" in parts else None


def _gptq(parts: Parts, main: Stored) -> Contents | None:
    """GPTQ and AWQ, by how zero points are packed: like the weights, for each group of inputs.

    scales are [groups, outputs], qzeros [groups, outputs * bits / word].
    """
    scales, zeros = parts.get("scales"), parts.get("qzeros")
    if scales is None or zeros is None or len(scales.shape) != 2 or len(zeros.shape) != 2:
        return None
    groups, outputs = scales.shape
    if not (groups and outputs and main.elements):
        return None
    word = main.bytes * 8 // main.elements
    bits = word * zeros.shape[1] // outputs
    if not bits:
        return None
    parameters = main.elements * word // bits
    inputs = parameters // main.count // outputs
    return Contents(integer_type(bits, inputs // groups if groups > 1 else None), parameters)


def _floats_of_4_bits(parts: Parts, main: Stored) -> Contents | None:
    """MXFP4 and NVFP4: two numbers a byte, and a scale of a byte for 32 or for 16 of them."""
    scale = parts.get("weight_scale") or parts.get("scales")
    if main.dtype not in ("U8", "F4") or scale is None or not scale.elements:
        return None
    numbers = main.bytes * 2
    group = numbers // scale.elements
    if scale.dtype == "F8_E4M3" and group == 16:
        return Contents("nvfp4", numbers)
    return Contents("mxfp4", numbers) if scale.dtype in ("U8", "F8_E8M0") and group == 32 else None
