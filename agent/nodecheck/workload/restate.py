"""What a model would weigh if it were stored in another type, or were of another size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import ceil

import msgspec

from nodecheck.serving import Kind, Layers, Weights, Workload
from nodecheck.units import GB, GIB
from nodecheck.workload.assemble import NOT_TEXT
from nodecheck.workload.errors import WorkloadError, shown
from nodecheck.workload.gguf.ggml import BY_NAME, GGUF_ONLY

KEPT = frozenset((Kind.NORM, Kind.OTHER))
"""Kinds that stay as they are: vectors, and the towers that no text model's type changes."""

BITS_PER_WEIGHT = {
    **{name: kind.bits_per_weight for name, kind in BY_NAME.items()},
    "fp8_e4m3": Fraction(8),
    "int4_g128": Fraction(4) + Fraction(4 + 16, 128),
}
"""Bits of a number, scales included: ggml's types, FP8 without its few scales, AWQ's 4 bits."""

MIXTURES = {
    "q2_k_s": "q2_k",
    "q3_k_s": "q3_k",
    "q3_k_m": "q3_k",
    "q3_k_l": "q3_k",
    "q4_k_s": "q4_k",
    "q4_k_m": "q4_k",
    "q5_k_s": "q5_k",
    "q5_k_m": "q5_k",
    "iq2_m": "iq2_s",
    "iq3_xs": "iq3_s",
    "iq3_m": "iq3_s",
    "mxfp4_moe": "mxfp4",
}
"""What llama-quantize calls a file of several types, and the type of most of it.

Source: llama.cpp, src/llama-quant.cpp, llama_ftype_get_default_type.
"""


def storage_type(said: str) -> str:
    """The type that a name stands for, of a mixture that of most of it. WorkloadError lists all."""
    name = said.strip().lower()
    name = MIXTURES.get(name, name)
    if name not in BITS_PER_WEIGHT:
        known = ", ".join([*BITS_PER_WEIGHT, *MIXTURES])
        raise WorkloadError(f"weight type {shown(said)!r} is not known: one of {known}")
    return name


def restated(work: Workload, weight_type: str | None, weight_bytes: int | None) -> Workload:
    """The same model, every matrix in a type (q4_k, or a mixture's name such as q4_k_m).

    With `weight_bytes` all matrices scale until the model weighs so much, exactly. What a token
    reads follows. WorkloadError for a type or a size that cannot be.
    """
    if weight_type is not None:
        work = _retyped(work, weight_type, exact=weight_bytes is not None)
    if weight_bytes is not None:
        suffix = "" if weight_type is not None else f" at {weight_bytes / GB:.1f} GB"
        work = _resized(work, weight_bytes, suffix)
    return work


def _retyped(work: Workload, weight_type: str, *, exact: bool) -> Workload:
    said, name = weight_type.strip().lower(), storage_type(weight_type)
    bits = BITS_PER_WEIGHT[name]
    notes = [f"as if every matrix were stored as {name}, {float(bits):g} bits a weight"]
    if said in MIXTURES and not exact:
        notes.append(
            f"{said} is a mixture of types, of which only {name} is counted: files are larger;"
            " give the file's size in --weights"
        )
    if not _has_parts(work):
        return _retyped_total(work, said, name, notes, exact=exact)

    def change(weights: Weights) -> Weights:
        return weights if _stays(work, weights) else _stored_as(weights, name, bits)

    changed = _changed(work, change)
    return _named(changed, f" as {said}", notes, weight_type=name)


def _stored_as(weights: Weights, name: str, bits: Fraction) -> Weights:
    return msgspec.structs.replace(
        weights,
        type=name,
        bytes=ceil(weights.parameters * bits / 8),
        read_bytes=ceil(weights.read_parameters * bits / 8),
    )


def _retyped_total(
    work: Workload, said: str, name: str, notes: list[str], *, exact: bool
) -> Workload:
    """A model of which no parts are known: by its parameters, else by its own type's bits."""
    bits, own = BITS_PER_WEIGHT[name], BITS_PER_WEIGHT.get(work.weight_type)
    if work.parameters is not None:
        size = ceil(work.parameters * bits / 8)
    elif own is not None:
        size = ceil(work.weight_bytes_shipped * bits / own)
    elif exact:
        size = work.weight_bytes_shipped
    else:
        raise WorkloadError(
            f"what {shown(work.name)} weighs as {name} does not follow from its type"
            f" {shown(work.weight_type)}: give its size in --weights"
        )
    return _named(_of_total(work, size), f" as {said}", notes, weight_type=name)


def _stays(work: Workload, weights: Weights) -> bool:
    """Whether these are vectors or the like, which writers keep in F32 beside a narrower type."""
    return weights.kind in KEPT or (weights.type == "f32" and work.weight_type != "f32")


def _resized(work: Workload, weight_bytes: int, suffix: str) -> Workload:
    kept = sum(w.bytes for w in _every(work) if _stays(work, w))
    matrices = work.weight_bytes_shipped - kept
    if weight_bytes <= kept or matrices <= 0:
        raise WorkloadError(
            f"{weight_bytes} bytes of weights: more are needed, {kept} are norms and towers alone"
        )
    note = f"as if it weighed {weight_bytes} bytes, {weight_bytes / GIB:.2f} GiB"
    if work.parameters:
        note += f": {8 * weight_bytes / work.parameters:.2f} bits a weight"
    if not _has_parts(work):
        return _named(_of_total(work, weight_bytes), suffix, [note])
    share = Fraction(weight_bytes - kept, matrices)

    def scale(weights: Weights) -> Weights:
        if _stays(work, weights):
            return weights
        return msgspec.structs.replace(
            weights,
            bytes=int(weights.bytes * share),
            read_bytes=round(weights.read_bytes * share),
        )

    scaled = _changed(work, scale)
    return _named(_topped_up(scaled, weight_bytes), suffix, [note])


def _topped_up(work: Workload, weight_bytes: int) -> Workload:
    """The bytes that rounding down has lost, on the largest matrix that is stored once.

    Where all are in layers that are alike, the last of them becomes a group of its own.
    """
    lost = weight_bytes - work.weight_bytes_shipped
    size = partial(_size_of_matrix, work)
    once = max(work.outside, key=size, default=None)
    if once is not None and size(once):
        outside = tuple(_more(w, lost) if w is once else w for w in work.outside)
        return _summed(work, outside, work.layer_groups)
    group = max(work.layer_groups, key=lambda g: max(map(size, g.weights), default=0))
    largest = max(group.weights, key=size)
    last = msgspec.structs.replace(
        group,
        numbers=group.numbers[-1:],
        weights=tuple(_more(w, lost) if w is largest else w for w in group.weights),
    )
    rest = msgspec.structs.replace(group, numbers=group.numbers[:-1])
    split = [g for g in (rest, last) if g.numbers]
    groups = [part for g in work.layer_groups for part in (split if g is group else [g])]
    return _summed(work, work.outside, tuple(groups))


def _size_of_matrix(work: Workload, weights: Weights) -> int:
    return 0 if _stays(work, weights) else weights.bytes


def _more(weights: Weights, more: int) -> Weights:
    return msgspec.structs.replace(weights, bytes=weights.bytes + more)


def _has_parts(work: Workload) -> bool:
    return bool(work.outside or work.layer_groups)


def _every(work: Workload) -> Iterator[Weights]:
    yield from work.outside
    for group in work.layer_groups:
        for _ in group.numbers:
            yield from group.weights


def _changed(work: Workload, change: Callable[[Weights], Weights]) -> Workload:
    groups = tuple(
        msgspec.structs.replace(g, weights=tuple(change(w) for w in g.weights))
        for g in work.layer_groups
    )
    return _summed(work, tuple(change(w) for w in work.outside), groups)


def _summed(work: Workload, outside: tuple[Weights, ...], groups: tuple[Layers, ...]) -> Workload:
    """The workload with these parts and their sums; no text model reads MTP or towers."""
    work = msgspec.structs.replace(work, outside=outside, layer_groups=groups)
    read = sum(w.read_bytes for w in _every(work) if w.kind not in NOT_TEXT)
    return msgspec.structs.replace(
        work,
        weight_bytes_shipped=sum(w.bytes for w in _every(work)),
        read_bytes_per_token_shipped=read,
    )


def _of_total(work: Workload, size: int) -> Workload:
    """A workload without parts, of another size; what it reads changes alike."""
    read = work.read_bytes_per_token_shipped
    if read is not None and work.weight_bytes_shipped:
        read = round(Fraction(read * size, work.weight_bytes_shipped))
    return msgspec.structs.replace(
        work, weight_bytes_shipped=size, read_bytes_per_token_shipped=read
    )


def _named(
    work: Workload, suffix: str, notes: list[str], weight_type: str | None = None
) -> Workload:
    """The workload under another name; its files are not those that were read.

    In a type that only GGUF files have it is one, of which no file is there yet.
    """
    becomes_gguf = weight_type in GGUF_ONLY and work.format not in ("gguf", "numbers")
    storage = None if becomes_gguf else work.storage
    if storage is not None:
        storage = msgspec.structs.replace(
            storage, size_bytes=None, allocated_bytes=None, cached_bytes=None
        )
    return msgspec.structs.replace(
        work,
        name=work.name + suffix,
        notes=(*work.notes, *notes),
        storage=storage,
        weight_type=weight_type or work.weight_type,
        format="gguf" if becomes_gguf else work.format,
    )
