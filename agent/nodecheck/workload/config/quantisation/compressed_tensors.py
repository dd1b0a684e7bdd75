"""compressed-tensors, which llm-compressor and others write: groups of modules. Pure.

Source: compressed-tensors, compressors/*/base.py and quantization/lifecycle/initialize.py.
"""

from __future__ import annotations

from nodecheck.serving import Kind
from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.quantisation.integers import WORD_BITS
from nodecheck.workload.config.quantisation.module_names import Named
from nodecheck.workload.config.quantisation.narrow_floats import F32_BYTES, MICROSCALED, microscaled
from nodecheck.workload.config.quantisation.scheme import Coding, Scheme, integer_type
from nodecheck.workload.config.quantisation.shared_keys import (
    HEADERS_KNOW,
    Checkpoint,
    bits,
    choice,
    entry,
    group_size,
    section_or_none,
    sides,
    skipped,
    strings,
    text,
)
from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown

FORMATS = (
    "float-quantized", "int-quantized", "naive-quantized", "pack-quantized",
    "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
)  # fmt: skip

SHAPE_BYTES = 16
"""weight_shape: two I64 with each packed matrix."""

SCALES_NOTE = (
    "compressed-tensors scales taken in the checkpoint's float type: config.json does not say"
)

Args = Keys | None


def compressed_tensors(keys: Keys, checkpoint: Checkpoint) -> Scheme:
    """The groups of config_groups; a group that targets a class is the default."""
    _refuse_sparsity(keys)
    groups = keys.section("config_groups")
    named: Named[Coding] = Named()
    default: Coding | None = None
    takes: set[Kind] = set()
    for group in (entry(groups, name) for name in _schemes(groups)):
        coding = _coding(keys, group, checkpoint)
        for target in strings(group, "targets") or ["Linear"]:
            if target == "Linear":
                default = default or coding
            elif target == "Embedding":
                takes.add(Kind.EMBEDDING)
            elif coding is not None:
                named.add(target, coding)
    kv_type, kv_scale_bytes = _cache(keys, checkpoint)
    return Scheme(
        method="compressed-tensors",
        default=default,
        skips=skipped(keys),
        named=named,
        takes=frozenset(takes),
        kv_type=kv_type,
        kv_scale_bytes=kv_scale_bytes,
        notes=(SCALES_NOTE,),
    )


def _refuse_sparsity(keys: Keys) -> None:
    sparsity = section_or_none(keys, "sparsity_config")
    if sparsity is not None and text(sparsity, "format", "dense") != "dense":
        raise NotEnoughMetadata(
            f"{sparsity.named('format')} is {shown(text(sparsity, 'format'))!r}: how many numbers"
            f" are left is not in config.json; {HEADERS_KNOW}"
        )


def _schemes(groups: Keys) -> list[str]:
    """The groups' names; WorkloadError for what this cannot be."""
    for name, value in groups.inner.items():
        if isinstance(value, list):
            raise NotEnoughMetadata(
                f"{groups.named(shown(name))} names a preset and not its scheme; {HEADERS_KNOW}"
            )
    return list(groups.inner)


def _coding(keys: Keys, group: Keys, checkpoint: Checkpoint) -> Coding | None:
    """How the matrices of a group are stored; None where only their inputs are quantised."""
    weights = section_or_none(group, "weights")
    inputs = section_or_none(group, "input_activations")
    if weights is None:
        return None
    form = _format(keys, group, weights)
    kind = form.partition("-")[0]
    if kind in MICROSCALED:
        scales = F32_BYTES * (1 + _has_global_scale(inputs)) if kind == "nvfp4" else 0
        return microscaled(kind, matrix_bytes=scales)
    return _scaled(form, weights, inputs, checkpoint)


def _format(keys: Keys, group: Keys, weights: Keys) -> str:
    """The group's own format, else the common one, else what its numbers imply."""
    for where in (group, keys):
        if text(where, "format", "mixed-precision") != "mixed-precision":
            return choice(where, "format", FORMATS, "")
    number, columns = weights.integer("num_bits"), group_size(weights)
    if text(weights, "type", "int") == "int":
        return "pack-quantized" if number < 8 else "int-quantized"
    if number == 4:
        return "mxfp4-pack-quantized" if columns == 32 else "nvfp4-pack-quantized"
    return "mxfp8-quantized" if columns == 32 else "float-quantized"


def _has_global_scale(inputs: Args) -> bool:
    """Whether an F32 is stored for the inputs: not where they are scaled while running."""
    return inputs is not None and inputs.value("dynamic") is not True


def _scaled(form: str, weights: Keys, inputs: Args, checkpoint: Checkpoint) -> Coding:
    """A matrix with scales in float, by tensor, row, group or block."""
    packed = form == "pack-quantized"
    whole_float = text(weights, "type", "int") == "float"
    number = bits(weights, (8,) if whole_float else tuple(range(1, 9)), "num_bits")
    rows, columns = _shared_by(weights)
    asymmetric = not weights.flag("symmetric", absent=True)
    ordered = weights.value("actorder") in ("group", True)
    return Coding(
        type="fp8_e4m3" if whole_float else integer_type(number, columns),
        bits=number if packed else 8,
        word_bits=WORD_BITS if packed else 8,
        scale_rows=rows,
        scale_columns=columns,
        scale_bytes=checkpoint.float_bytes + (asymmetric and not packed),
        zero_bits=number if asymmetric and packed else 0,
        column_bytes=4 if ordered else 0,
        matrix_bytes=SHAPE_BYTES * packed + _input_bytes(form, inputs, checkpoint),
    )


def _shared_by(weights: Keys) -> tuple[int | None, int | None]:
    """Rows and columns that share a scale, None for all."""
    columns = group_size(weights)
    absent = "group" if columns else "channel" if weights.value("group_size") == -1 else "tensor"
    strategy = choice(
        weights, "strategy", ("tensor", "channel", "group", "tensor_group", "block"), absent
    )
    if strategy == "block":
        block = sides(weights, "block_structure")
        if block is None:
            raise WorkloadError(f"{weights.named('block_structure')} is missing for strategy block")
        return block
    if strategy in ("group", "tensor_group") and columns is None:
        raise WorkloadError(f"{weights.named('group_size')} is missing for strategy {strategy}")
    return (
        None if strategy == "tensor" else 1,
        columns if strategy in ("group", "tensor_group") else None,
    )


def _input_bytes(form: str, inputs: Args, checkpoint: Checkpoint) -> int:
    """Bytes of input_scale, stored where inputs are scaled by what was measured before.

    It is an F32 in naive-quantized files: Hunyuan-7B-Instruct-FP8's index has 6 bytes of scales for
    each matrix.
    """
    if inputs is None or inputs.value("dynamic") not in (None, False):
        return 0
    return F32_BYTES if form == "naive-quantized" else checkpoint.float_bytes


def _cache(keys: Keys, checkpoint: Checkpoint) -> tuple[str | None, int]:
    """The cache's type and the bytes of a scale of it."""
    scheme = section_or_none(keys, "kv_cache_scheme")
    if scheme is None:
        return None, 0
    number = scheme.integer("num_bits")
    kind = "fp8" if text(scheme, "type", "int") == "float" else "int"
    stored = scheme.value("dynamic") is not True
    return (kind if (kind, number) == ("fp8", 8) else f"{kind}{number}"), (
        checkpoint.float_bytes if stored else 0
    )
