"""Instruction sets by the kernel's names: the x86-64 levels and what their absence costs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from nodecheck.checks.cpu import cpuid, hwcap

V1 = frozenset(["lm", "cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse2"])
V2 = V1 | frozenset(["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"])
V3 = V2 | frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"])
V4 = V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
LEVELS = (V1, V2, V3, V4)
"""What x86-64-v1 to v4 need (psABI); osxsave is the kernel's side of xsave."""

VECTOR = ("avx", "avx2", "fma", "f16c", "bmi2")
"""What 4-bit kernels are built for; without one of them an AVX2 build does not run."""

SSE4 = ("ssse3", "sse4_1", "sse4_2", "popcnt", "cx16")
"""No switch of the kernel's removes these: where silicon has them, a hypervisor hid them."""

XSAVE_PEERS = ("f16c", "bmi1", "bmi2", "adx", "rdseed")
"""Stay when the kernel drops XSAVE, and are never found on silicon without it."""

EXTRA = frozenset(
    [
        "avx512_vnni",
        "avx512_bf16",
        "avx512_fp16",
        "avx512vbmi",
        "avx512_vbmi2",
        "avx512ifma",
        "avx512_bitalg",
        "avx512_vpopcntdq",
        "avx512_vp2intersect",
        "avx512_4vnniw",
        "avx512_4fmaps",
        "amx_tile",
        "amx_int8",
        "amx_bf16",
        "amx_fp16",
    ]
)
"""AVX-512 beyond v4, and AMX."""

COMPARED = V4 | EXTRA
"""Where the kernel and CPUID must agree."""

BY_ARCHITECTURE = {"x86_64": cpuid.COVERED, "aarch64": hwcap.COVERED}
"""Instruction sets that can be asked for, by the names of /proc/cpuinfo."""

IMPORTANT = (
    "avx2", "fma", "f16c", "bmi2", "avx", r"avx512.*", r"amx.*", "ssse3", r"sse4_.*", "popcnt",
    r"sve.*", "i8mm", "bf16", "asimddp",
)  # fmt: skip
"""Instruction sets that decode on the CPU, or libraries that serve, are built for."""


def level(flags: Collection[str]) -> int | None:
    """The x86-64 level that the flags reach, None where not even v1 is there."""
    have = frozenset(flags)
    reached = 0
    for needed in LEVELS:
        if not needed <= have:
            break
        reached += 1
    return reached or None


def lacking(asked: Collection[str], flags: Collection[str], arch: str | None) -> tuple[str, ...]:
    """Those asked for that are not there.

    Where some are of this architecture, those of others are for other nodes.
    """
    ours = BY_ARCHITECTURE.get(arch or "", frozenset())
    return tuple(n for n in [n for n in asked if n in ours] or asked if n not in flags)


def missing(flags: Collection[str]) -> tuple[str, ...]:
    """Those of VECTOR that are not there."""
    return tuple(name for name in VECTOR if name not in flags)


def decode_cost(flags: Collection[str]) -> str | None:
    """What 4-bit decode on the CPU costs against AVX2, None where nothing is missing.

    llama.cpp on one Zen 4 core, tok/s of Q4_0 and Q4_K_M by build: SSE2 1.05 and 0.95, SSE4.2 5.3
    and 3.8, AVX 6.1 and 11.8, AVX2 17.9 and 18.4. AVX counts without SSSE3 too: what an engine was
    built for runs, whatever CPUID hides below it.
    """
    if not missing(flags):
        return None
    if "avx" in flags:
        factor = "1.6-2.9x"
    elif "ssse3" in flags:
        factor = "3.4-4.8x"
    else:
        factor = "17-19x"
    return f"4-bit decode on the CPU is {factor} slower than with AVX2"


def by_importance(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Those that matter for serving, the first first, and the others."""
    order = {flag: _place(flag) for flag in flags}
    known = sorted((f for f in order if order[f] is not None), key=lambda f: (order[f], f))
    return known, sorted(f for f in order if order[f] is None)


def _place(flag: str) -> int | None:
    return next((n for n, name in enumerate(IMPORTANT) if re.fullmatch(name, flag)), None)
