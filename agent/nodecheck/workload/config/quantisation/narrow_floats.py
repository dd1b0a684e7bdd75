"""Quantisations to narrow floats: FP8, FBGEMM's FP8, MXFP4. Pure."""

from __future__ import annotations

from nodecheck.workload.config.keys import Keys
from nodecheck.workload.config.quantisation.scheme import Coding, Scheme
from nodecheck.workload.config.quantisation.shared_keys import (
    Checkpoint,
    choice,
    not_known,
    sides,
    skipped,
)

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

MICROSCALED = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}
"""Bits of a number, and numbers that share one scale of a byte, E8M0 or in nvfp4 E4M3.

Source: OCP Microscaling formats 1.0; NVIDIA, NVFP4.
"""


def microscaled(
    kind: str, *, columns: int | None = None, word_bits: int = 8, matrix_bytes: int = 0
) -> Coding:
    """A small float in blocks; `columns` where a block is not the usual one."""
    bits, usual = MICROSCALED[kind]
    return Coding(
        type=kind,
        bits=bits,
        word_bits=word_bits,
        scale_rows=1,
        scale_columns=columns or usual,
        scale_bytes=1,
        matrix_bytes=matrix_bytes,
    )


def fp8(keys: Keys, checkpoint: Checkpoint) -> Scheme:
    """FP8 of transformers and AutoFP8: a scale for each block or for each matrix.

    Source: transformers, integrations/finegrained_fp8.py; AutoFP8, quantize.py.
    """
    if keys.holds("quant_algo") or checkpoint.expert_type not in ("", "fp8"):
        raise not_known("fp8 mixed with another type")
    kind = FORMATS[choice(keys, "fmt", tuple(FORMATS), "e4m3")]
    fixed = choice(keys, "activation_scheme", ("dynamic", "static"), "dynamic") == "static"
    block = sides(keys, "weight_block_size")
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
        skips=skipped(keys),
        notes=(f"fp8 scales taken as {scale_bytes} bytes each: config.json does not say",),
    )


def fbgemm_fp8(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """FP8 with an F32 scale a row. Source: transformers, integrations/fbgemm_fp8.py."""
    return Scheme(
        method="fbgemm_fp8",
        default=Coding(type="fp8_e4m3", bits=8, scale_rows=1, scale_bytes=F32_BYTES),
        skips=skipped(keys),
    )


def mxfp4(keys: Keys, _checkpoint: Checkpoint) -> Scheme:
    """MXFP4 of experts alone, as gpt-oss ships. Source: transformers, integrations/mxfp4.py."""
    return Scheme(
        method="mxfp4",
        default=microscaled("mxfp4"),
        skips=skipped(keys),
        experts_only=True,
    )
