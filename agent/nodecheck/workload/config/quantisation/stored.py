"""What each matrix weighs: in the checkpoint's float type or as a quantisation stores it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.serving import Kind, Weights
from nodecheck.workload.assemble import PlacedWeights
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.quantisation.scheme import Coding, Scheme
from nodecheck.workload.config.quantisation.shared_keys import FLOAT_BYTES


def stored(
    matrices: Sequence[Matrix], scheme: Scheme | None, float_type: str
) -> tuple[list[PlacedWeights], list[str]]:
    """The weights of each matrix, and what was assumed.

    `float_type` (bf16, f16, f32, f64) is that of all that the scheme does not take and that has
    none of its own.
    """
    codings = [scheme.coding(m) if scheme else None for m in matrices]
    pairs = list(zip(matrices, codings, strict=True))
    table = next((coding for matrix, coding in pairs if matrix.kind is Kind.EMBEDDING), None)
    placed: list[PlacedWeights] = []
    for matrix, own in pairs:
        is_tied = matrix.kind is Kind.OUTPUT and not matrix.stored
        coding = table if is_tied else own
        weights = _as_float(matrix, float_type) if coding is None else _as_coded(matrix, coding)
        placed.append((matrix.layer, weights))
    if scheme is None:
        return placed, []
    if scheme.kv_scale_bytes:
        placed += _kv_scales(matrices, scheme)
    has_mtp = any(m.kind is Kind.MTP for m in matrices)
    return placed, _notes(scheme, takes_any=any(codings), has_mtp=has_mtp)


LEAVE_MTP_OUT = frozenset(("mlx", "gptq", "awq", "auto-round"))
"""Methods whose writers load the model by transformers or MLX, which know no MTP modules."""


def _notes(scheme: Scheme, *, takes_any: bool, has_mtp: bool) -> list[str]:
    notes = list(scheme.notes)
    if has_mtp and scheme.method in LEAVE_MTP_OUT:
        notes.append(f"MTP modules are counted, which many {scheme.method} files leave out")
    if not takes_any:
        notes.append(f"quantised by {scheme.method}, but no tensor of this model is taken by it")
    if scheme.kv_type is not None:
        notes.append(f"the checkpoint asks for a KV cache of {scheme.kv_type}")
    return notes


def _as_float(matrix: Matrix, default: str) -> Weights:
    """In float. What a token reads counts in the checkpoint's type, which engines convert it to."""
    kind = matrix.float_type or default
    size = FLOAT_BYTES[kind]
    return Weights(
        kind=matrix.kind,
        type=kind,
        parameters=matrix.parameters,
        bytes=matrix.parameters * size,
        read_parameters=matrix.read_parameters,
        read_bytes=matrix.read_parameters * min(size, FLOAT_BYTES[default]),
    )


def _as_coded(matrix: Matrix, coding: Coding) -> Weights:
    size = coding.size_bytes(matrix.rows, matrix.columns)
    rows = matrix.rows if matrix.read_rows is None else matrix.read_rows
    used = matrix.copies if matrix.used is None else matrix.used
    return Weights(
        kind=matrix.kind,
        type=coding.type,
        parameters=matrix.parameters,
        bytes=size * matrix.copies if matrix.stored else 0,
        read_parameters=matrix.read_parameters,
        read_bytes=coding.size_bytes(rows, matrix.columns) * used,
    )


def _kv_scales(matrices: Sequence[Matrix], scheme: Scheme) -> list[PlacedWeights]:
    """The scales of an FP8 cache, stored beside the projections of K and V and not counted as read.

    A latent cache has no such projections: its scales are in no checkpoint's description.
    """
    counts = {"k_proj": 1, "v_proj": 1, "qkv_proj": 2, "Wqkv": 2}
    scales = []
    for matrix in matrices:
        count = counts.get(matrix.module.rsplit(".", 1)[-1], 0) if matrix.linear else 0
        if count and matrix.kind is Kind.ATTENTION:
            coding = scheme.coding(matrix)
            scales.append(
                (
                    matrix.layer,
                    Weights(
                        kind=matrix.kind,
                        type=coding.type if coding else "f32",
                        parameters=0,
                        bytes=count * scheme.kv_scale_bytes,
                        read_parameters=0,
                        read_bytes=0,
                    ),
                )
            )
    return scales
