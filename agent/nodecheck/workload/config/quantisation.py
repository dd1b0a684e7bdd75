"""The bytes that a checkpoint takes: each tensor in its float type or as a quantisation stores it.

Pure. Source of each scheme's bytes: beside it, in schemes_*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nodecheck.serving import Kind, Weights
from nodecheck.workload.assemble import PlacedWeights
from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.matrix import Matrix
from nodecheck.workload.config.schemes import Coding, Scheme
from nodecheck.workload.config.schemes_compressed import compressed_tensors
from nodecheck.workload.config.schemes_float import fbgemm_fp8, fp8, mxfp4
from nodecheck.workload.config.schemes_keys import FLOAT_BYTES, Checkpoint, not_known, text
from nodecheck.workload.config.schemes_modelopt import modelopt
from nodecheck.workload.config.schemes_packed import (
    auto_round,
    awq,
    bitnet,
    bitsandbytes,
    eetq,
    gptq,
    mlx,
)
from nodecheck.workload.config.skips_automaton import Budget
from nodecheck.workload.errors import WorkloadError, shown

METHODS: dict[str, Callable[[Keys, Checkpoint], Scheme | None]] = {
    "gptq": gptq,
    "awq": awq,
    "auto-round": auto_round,
    "intel/auto-round": auto_round,
    "fp8": fp8,
    "fbgemm_fp8": fbgemm_fp8,
    "compressed-tensors": compressed_tensors,
    "compressed_tensors": compressed_tensors,
    "modelopt": modelopt,
    "modelopt_fp4": modelopt,
    "modelopt_fp8": modelopt,
    "mxfp4": mxfp4,
    "bitsandbytes": bitsandbytes,
    "eetq": eetq,
    "bitnet": bitnet,
}
"""Each `quant_method` whose bytes follow from the configuration. Not HQQ, quanto, torchao, AQLM,
VPTQ, SpQR, QuIP#, EXL2 and the like: what they store is in the files alone."""

WRAPPING = ("text_config", "language_config", "llm_config", "thinker_config")
"""Keys under which a configuration holds that of its text model."""

FLOAT_TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "half": "f16",
    "float32": "f32",
    "float": "f32",
    "float64": "f64",
    **{name: name for name in FLOAT_BYTES},
}

HF_QUANT = "hf_quant_config.json: quantization"


def float_type(config: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The type of the floats of a checkpoint (bf16, f16, f32, f64), and what was assumed.

    WorkloadError for a type that is none of these.
    """
    for keys in _levels(config):
        for name in ("dtype", "torch_dtype"):
            said = text(keys, name)
            if "float8" in said and _said(config) is not None:
                return "bf16", [f"{keys.named(name)} is {shown(said)}: other floats taken as bf16"]
            if said and said != "auto":
                return _float_type(said, keys.named(name)), []
    return "bf16", ["torch_dtype is absent: floats taken as bf16"]


def _float_type(said: str, name: str) -> str:
    known = FLOAT_TYPES.get(said.removeprefix("torch."))
    if known is None:
        raise WorkloadError(f"{name} is {shown(said)!r}, none of {', '.join(FLOAT_TYPES)}")
    return known


def scheme(config: Mapping[str, Any], hf_quant: Mapping[str, Any] | None) -> Scheme | None:
    """The quantisation of a checkpoint, None where it has none.

    `hf_quant` is the content of hf_quant_config.json. NotEnoughMetadata where the bytes do not
    follow from the configuration, WorkloadError where it makes no sense.
    """
    found = _said(config)
    beside = _beside(hf_quant)
    if found is None:
        return None if beside is None else modelopt(beside, _checkpoint(config))
    chosen = found[0](found[1], _checkpoint(config))
    if chosen is None or beside is None or not text(beside, "quant_algo"):
        return chosen
    return _noting_both(chosen, found[1], beside)


def _noting_both(chosen: Scheme, keys: Keys, beside: Keys) -> Scheme:
    """Config.json counts, as it does in vLLM and SGLang; say so where the two differ."""
    other, own = text(beside, "quant_algo"), text(keys, "quant_algo", chosen.method)
    if other == own:
        return chosen
    note = f"config.json says {shown(own)}, hf_quant_config.json {shown(other)}: the former counts"
    return _replaced(chosen, notes=(*chosen.notes, note))


def _replaced(chosen: Scheme, **members: Any) -> Scheme:
    return Scheme(**{f: getattr(chosen, f) for f in chosen.__struct_fields__} | members)


def _checkpoint(config: Mapping[str, Any]) -> Checkpoint:
    levels = _levels(config)
    return Checkpoint(
        model_type=next((t for k in levels if (t := text(k, "model_type"))), ""),
        expert_type=next((t for k in levels if (t := text(k, "expert_dtype"))), ""),
        float_bytes=min(FLOAT_BYTES[float_type(config)[0]], 4),
        budget=Budget(),
    )


def _levels(config: Mapping[str, Any]) -> list[Keys]:
    """The configuration and those inside it that describe the text model."""
    levels = [Keys(config, config)]
    for keys in levels:
        inner = (name for name in WRAPPING if isinstance(keys.inner.get(name), dict))
        levels.extend(keys.section(name) for name in inner)
    return levels


Method = Callable[[Keys, Checkpoint], "Scheme | None"]


def _said(config: Mapping[str, Any]) -> tuple[Method, Keys] | None:
    """The method and the keys of the quantisation that a configuration names."""
    for keys in _levels(config):
        for name in ("quantization_config", "compression_config"):
            if keys.value(name) not in (None, {}):
                section = _unwrapped(keys.section(name))
                mlx_too = isinstance(keys.inner.get("quantization"), dict)
                if section.holds("quant_method") or not mlx_too:
                    return _method(section)
        if isinstance(keys.inner.get("quantization"), dict):
            return mlx, keys.section("quantization")
    return None


def _unwrapped(keys: Keys) -> Keys:
    """What compressed-tensors once wrote one level deeper."""
    inner = keys.inner.get("quantization_config")
    return keys.section("quantization_config") if isinstance(inner, dict) else keys


def _method(keys: Keys) -> tuple[Method, Keys]:
    name = text(keys, "quant_method")
    if not name:
        inferred: dict[str, Method] = {
            "quant_algo": modelopt,
            "config_groups": compressed_tensors,
            "load_in_4bit": bitsandbytes,
            "load_in_8bit": bitsandbytes,
        }
        for key, method in inferred.items():
            if keys.holds(key):
                return method, keys
        raise WorkloadError(f"{keys.named('quant_method')} is missing")
    if name not in METHODS:
        raise not_known(name)
    return METHODS[name], keys


def _beside(hf_quant: Mapping[str, Any] | None) -> Keys | None:
    """The keys of hf_quant_config.json."""
    if not hf_quant:
        return None
    inner = hf_quant.get("quantization", hf_quant)
    if not isinstance(inner, dict):
        raise WorkloadError(f"{HF_QUANT} is {shown(inner)}, not an object")
    return Keys(hf_quant, inner, HF_QUANT)


def stored(
    matrices: Sequence[Matrix], scheme: Scheme | None, float_type: str
) -> tuple[list[PlacedWeights], list[str]]:
    """The weights of each matrix, and what was assumed.

    `float_type` is the type of all that the scheme does not take and that has none of its own.
    """
    default = _float_type(float_type, "torch_dtype")
    codings = [scheme.coding(m) if scheme else None for m in matrices]
    pairs = list(zip(matrices, codings, strict=True))
    table = next((coding for matrix, coding in pairs if matrix.kind is Kind.EMBEDDING), None)
    placed: list[PlacedWeights] = []
    for matrix, own in pairs:
        is_tied = matrix.kind is Kind.OUTPUT and not matrix.stored
        coding = table if is_tied else own
        weights = _as_float(matrix, default) if coding is None else _as_coded(matrix, coding)
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
