"""Quantisations to narrow floats: FP8, FBGEMM's FP8, MXFP4. Pure."""

from __future__ import annotations

from nodecheck.workload.config.keys import Keys, whole
from nodecheck.workload.config.schemes import Coding, Scheme
from nodecheck.workload.config.schemes_keys import Checkpoint, choice, not_known, skipped
from nodecheck.workload.config.skips import Named
from nodecheck.workload.errors import WorkloadError, shown

F32_BYTES = 4

FORMATS = {
    "e4m3": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "float8_e5m2": "fp8_e5m2",
}

SCALES_IN_FLOAT_TYPE = ("qwen", "qwq")
"""Families whose block scales have the checkpoint's float type; the others' are F32.

Source: headers of Qwen3's FP8 checkpoints, as issues of vLLM and lmdeploy quote them, and of
DeepSeek-V3.
"""

MXFP4_COLUMNS = 32
"""Numbers that share one E8M0 scale of a byte. Source: OCP Microscaling formats 1.0."""


def fp8(keys: Keys, checkpoint: Checkpoint) -> Scheme:
    """FP8 of transformers and AutoFP8: a scale for each block or for each matrix.

    Source: transformers, integrations/finegrained_fp8.py; AutoFP8, quantize.py.
    """
    if keys.holds("quant_algo") or checkpoint.expert_type not in ("", "fp8"):
        raise not_known("fp8 mixed with another type")
    kind = FORMATS[choice(keys, "fmt", tuple(FORMATS), "e4m3")]
    fixed = choice(keys, "activation_scheme", ("dynamic", "static"), "dynamic") == "static"
    block = _block(keys)
    follows = checkpoint.model_type.startswith(SCALES_IN_FLOAT_TYPE)
    scale_bytes = checkpoint.float_bytes if block and follows else F32_BYTES
    return Scheme(
        method="fp8",
        default=Coding(
            type=kind,
            bits=8,
            scale_rows=block[0] if block else None,
            scale_columns=block[1] if block else None,
            scale_bytes=scale_bytes,
            matrix_bytes=F32_BYTES if fixed else 0,
        ),
        skips=skipped(keys, checkpoint.budget),
        named=Named(checkpoint.budget),
        notes=(f"fp8 scales taken as {scale_bytes} bytes each: config.json does not say",),
    )


def _block(keys: Keys) -> tuple[int, int] | None:
    sides = keys.list_of("weight_block_size")
    if not sides:
        return None
    name = keys.named("weight_block_size")
    if len(sides) != 2:
        raise WorkloadError(f"{name} is {shown(sides)}, not two sides")
    return whole(f"{name}[0]", sides[0], 1), whole(f"{name}[1]", sides[1], 1)


def fbgemm_fp8(keys: Keys, checkpoint: Checkpoint) -> Scheme:
    """FP8 with an F32 scale a row. Source: transformers, integrations/fbgemm_fp8.py."""
    return Scheme(
        method="fbgemm_fp8",
        default=Coding(type="fp8_e4m3", bits=8, scale_rows=1, scale_bytes=F32_BYTES),
        skips=skipped(keys, checkpoint.budget),
        named=Named(checkpoint.budget),
    )


def mxfp4(keys: Keys, checkpoint: Checkpoint) -> Scheme:
    """MXFP4 of experts alone, as gpt-oss ships. Source: transformers, integrations/mxfp4.py."""
    return Scheme(
        method="mxfp4",
        default=Coding(
            type="mxfp4", bits=4, scale_rows=1, scale_columns=MXFP4_COLUMNS, scale_bytes=1
        ),
        skips=skipped(keys, checkpoint.budget),
        named=Named(checkpoint.budget),
        experts_only=True,
    )
