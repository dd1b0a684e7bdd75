"""NVIDIA's Model Optimizer: its algorithms by name, in either of two files. Pure.

Source: Model-Optimizer, modelopt/torch/export: convert_hf_config.py, quant_utils.py.
"""

from __future__ import annotations

from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.quantisation.module_names import Named
from nodecheck.workload.config.quantisation.narrow_floats import F32_BYTES, MICROSCALED, microscaled
from nodecheck.workload.config.quantisation.scheme import Coding, Scheme, integer_type
from nodecheck.workload.config.quantisation.shared_keys import (
    Checkpoint,
    entry,
    group_size,
    not_known,
    section_or_none,
    skipped,
    text,
)
from nodecheck.workload.errors import WorkloadError, shown

BLOCK = 128
"""Rows and columns of FP8_PB_WO's blocks, and columns of an AWQ group."""

MIXED = "mixed_precision"

AWQ_NOTE = "AWQ's pre_quant_scale is not counted: config.json does not say which matrices have one"


def modelopt(keys: Keys, _checkpoint: Checkpoint) -> Scheme | None:
    """The scheme that quant_algo names; None where it says that nothing is quantised."""
    algorithm = text(keys, "quant_algo")
    if not algorithm or algorithm == "no_quant":
        return None
    named: Named[Coding] = Named()
    if algorithm == MIXED:
        _name_layers(keys, named)
    return Scheme(
        method="modelopt",
        default=None if algorithm == MIXED else _coding(keys, algorithm),
        skips=skipped(keys),
        named=named,
        kv_type=(kv_type := _kv_type(keys)),
        kv_scale_bytes=F32_BYTES if kv_type else 0,
        notes=(
            "modelopt: scales taken as its exporter writes them (E4M3 in blocks, else F32)",
            *([AWQ_NOTE] if "awq" in algorithm else []),
        ),
    )


def _name_layers(keys: Keys, named: Named[Coding]) -> None:
    layers = section_or_none(keys, "quantized_layers")
    if layers is None:
        raise WorkloadError(f"{keys.named('quantized_layers')} is missing for MIXED_PRECISION")
    codings: dict[tuple[str, int | None], Coding] = {}
    for module in layers.inner:
        layer = entry(layers, module)
        key = (text(layer, "quant_algo"), group_size(layer))
        if key not in codings:
            codings[key] = _coding(layer, key[0])
        named.add(module, codings[key])


def _by_row(kind: str, matrix_bytes: int = 0) -> Coding:
    return Coding(type=kind, bits=8, scale_rows=1, scale_bytes=F32_BYTES, matrix_bytes=matrix_bytes)


CODINGS = {
    "fp8": Coding(type="fp8_e4m3", bits=8, scale_bytes=F32_BYTES, matrix_bytes=F32_BYTES),
    "fp8_per_channel_per_token": _by_row("fp8_e4m3"),
    "w8a16": _by_row("int8"),
    "w8a8_sq_per_channel": _by_row("int8", F32_BYTES),
    "fp8_pb_wo": Coding(
        type="fp8_e4m3", bits=8, scale_rows=BLOCK, scale_columns=BLOCK, scale_bytes=F32_BYTES
    ),
    "mxfp4": microscaled("mxfp4"),
    "w4a8_mxfp4_fp8": microscaled("mxfp4", matrix_bytes=F32_BYTES),
    "mxfp8": microscaled("mxfp8"),
}
"""The algorithms without a group of their own; weight_scale_2 and input_scale are F32, once a
matrix."""


def _coding(keys: Keys, algorithm: str) -> Coding:
    """How a matrix is stored; NotEnoughMetadata for an algorithm that is not known."""
    if algorithm in ("nvfp4", "nvfp4_awq", "w4a16_nvfp4", "w4a8_nvfp4_fp8"):
        scales = F32_BYTES if algorithm == "w4a16_nvfp4" else 2 * F32_BYTES
        columns = _group(keys, MICROSCALED["nvfp4"][1])
        return microscaled("nvfp4", columns=columns, matrix_bytes=scales)
    if algorithm in ("w4a16_awq", "w4a8_awq"):
        group = _group(keys, BLOCK)
        return Coding(
            type=integer_type(4, group),
            bits=4,
            scale_rows=1,
            scale_columns=group,
            scale_bytes=F32_BYTES,
            matrix_bytes=0 if algorithm == "w4a16_awq" else 2 * F32_BYTES,
        )
    if algorithm not in CODINGS:
        raise not_known(f"modelopt {shown(algorithm)}")
    return CODINGS[algorithm]


def _group(keys: Keys, absent: int) -> int:
    """The group of an algorithm that must have one."""
    group = group_size(keys, absent)
    if group is None:
        raise WorkloadError(f"{keys.named('group_size')} is -1: this algorithm has groups")
    return group


def _kv_type(keys: Keys) -> str | None:
    """The cache's type, from either spelling of it."""
    asked = keys.value("kv_cache_quant_algo") or keys.value("kv_cache_scheme")
    if asked is None:
        return None
    if isinstance(asked, dict):
        return "fp8" if asked.get("type") == "float" and asked.get("num_bits") == 8 else None
    if not isinstance(asked, str):
        raise WorkloadError(f"{keys.named('kv_cache_quant_algo')} is {shown(asked)}, not a name")
    return None if asked.lower() in ("none", "auto", "") else shown(asked).lower()
