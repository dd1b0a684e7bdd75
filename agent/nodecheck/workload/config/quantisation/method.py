"""Which quantisation a configuration names, and the type of a checkpoint's floats. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.quantisation.compressed_tensors import compressed_tensors
from nodecheck.workload.config.quantisation.integers import (
    auto_round,
    awq,
    bitnet,
    bitsandbytes,
    eetq,
    gptq,
    mlx,
)
from nodecheck.workload.config.quantisation.modelopt import modelopt
from nodecheck.workload.config.quantisation.narrow_floats import fbgemm_fp8, fp8, mxfp4
from nodecheck.workload.config.quantisation.scheme import Scheme
from nodecheck.workload.config.quantisation.shared_keys import (
    FLOAT_BYTES,
    Checkpoint,
    not_known,
    text,
)
from nodecheck.workload.config.text_model import INNER
from nodecheck.workload.errors import WorkloadError, shown

Method = Callable[[Keys, Checkpoint], "Scheme | None"]

METHODS: dict[str, Method] = {
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
    return replace(chosen, notes=(*chosen.notes, note))


def _checkpoint(config: Mapping[str, Any]) -> Checkpoint:
    levels = _levels(config)
    return Checkpoint(
        model_type=next((t for k in levels if (t := text(k, "model_type"))), ""),
        expert_type=next((t for k in levels if (t := text(k, "expert_dtype"))), ""),
        float_bytes=min(FLOAT_BYTES[float_type(config)[0]], 4),
    )


def _levels(config: Mapping[str, Any]) -> list[Keys]:
    """The configuration and those inside it that describe the text model."""
    levels = [Keys(config, config)]
    for keys in levels:
        inner = (name for name in INNER if isinstance(keys.inner.get(name), dict))
        levels.extend(keys.section(name) for name in inner)
    return levels


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
