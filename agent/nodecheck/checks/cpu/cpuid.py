"""What CPUID says: instruction sets by the kernel's names, identity, last-level cache."""

from __future__ import annotations

import struct

from nodecheck.model import Struct

Leaves = dict[str, tuple[int, int, int, int]]
"""`"leaf.subleaf"` in lower-case hex -> eax, ebx, ecx, edx."""

_EAX, _EBX, _ECX, _EDX = range(4)

_BITS = (
    ("1.0", _EDX, "0 fpu 8 cx8 15 cmov 23 mmx 24 fxsr 25 sse 26 sse2"),
    ("1.0", _ECX, "0 pni 1 pclmulqdq 9 ssse3 12 fma 13 cx16 19 sse4_1 20 sse4_2 22 movbe"),
    ("1.0", _ECX, "23 popcnt 25 aes 26 xsave 28 avx 29 f16c"),
    ("7.0", _EBX, "3 bmi1 5 avx2 8 bmi2 16 avx512f 17 avx512dq 18 rdseed 19 adx 21 avx512ifma"),
    ("7.0", _EBX, "28 avx512cd 29 sha_ni 30 avx512bw 31 avx512vl"),
    ("7.0", _ECX, "1 avx512vbmi 6 avx512_vbmi2 8 gfni 9 vaes 10 vpclmulqdq 11 avx512_vnni"),
    ("7.0", _ECX, "12 avx512_bitalg 14 avx512_vpopcntdq"),
    ("7.0", _EDX, "2 avx512_4vnniw 3 avx512_4fmaps 8 avx512_vp2intersect 22 amx_bf16"),
    ("7.0", _EDX, "23 avx512_fp16 24 amx_tile 25 amx_int8"),
    ("7.1", _EAX, "4 avx_vnni 5 avx512_bf16 21 amx_fp16 23 avx_ifma"),
    ("80000001.0", _ECX, "0 lahf_lm 5 abm 6 sse4a 11 xop 16 fma4 21 tbm"),
    ("80000001.0", _EDX, "11 syscall 29 lm"),
)
"""Leaf, register, bits and the names that /proc/cpuinfo gives them."""

_FEATURES = tuple(
    (name, leaf, register, int(bit))
    for leaf, register, text in _BITS
    for bit, name in zip(text.split()[::2], text.split()[1::2], strict=True)
)

COVERED = frozenset(name for name, *_ in _FEATURES)
"""Instruction sets that this module knows; any other flag is the kernel's word alone."""

_OSXSAVE = 1 << 27
_YMM_STATE, _ZMM_STATE, _TILE_STATE = 0x6, 0xE6, 0x60000
_YMM = frozenset(
    ["avx", "avx2", "fma", "f16c", "fma4", "xop", "vaes", "vpclmulqdq", "avx_vnni", "avx_ifma"]
)

_CACHE_LEAVES = ("8000001d", "4")  # leaf 4 is empty on AMD
_UNIFIED = 3


class Identity(Struct, frozen=True):
    """Vendor, brand and the numbers as /proc/cpuinfo prints them; a brand may be missing."""

    vendor: str
    brand: str | None
    family: int
    model: int
    stepping: int


def shown(leaves: Leaves) -> frozenset[str]:
    """Instruction sets whose CPUID bit is set, whether the OS enabled them or not."""
    zero = (0, 0, 0, 0)
    return frozenset(
        name
        for name, leaf, register, bit in _FEATURES
        if leaves.get(leaf, zero)[register] >> bit & 1
    )


def usable(leaves: Leaves, xcr0: int | None) -> frozenset[str]:
    """Those that are shown and whose registers the OS saves.

    Without XCR0 (a capture) the OSXSAVE bit stands for all register states.
    """
    if not leaves.get("1.0", (0, 0, 0, 0))[_ECX] & _OSXSAVE:
        xcr0 = 0
    return frozenset(
        name for name in shown(leaves) if xcr0 is None or xcr0 & _state(name) == _state(name)
    )


def _state(name: str) -> int:
    """The XCR0 bits that an instruction set needs."""
    if name.startswith("avx512"):
        return _ZMM_STATE
    if name.startswith("amx"):
        return _TILE_STATE
    return _YMM_STATE if name in _YMM else 0


def identity(leaves: Leaves) -> Identity | None:
    """Vendor, family, model, stepping and brand; None without leaves 0 and 1."""
    if "0.0" not in leaves or "1.0" not in leaves:
        return None
    _, b, c, d = leaves["0.0"]
    eax = leaves["1.0"][_EAX]
    family, model = eax >> 8 & 0xF, eax >> 4 & 0xF
    if family == 0xF:
        family += eax >> 20 & 0xFF
    if family in {6, 7} or family >= 0xF:
        model += (eax >> 16 & 0xF) << 4
    return Identity(_text((b, d, c)), _brand(leaves) or None, family, model, eax & 0xF)


def _brand(leaves: Leaves) -> str:
    names = ("80000002.0", "80000003.0", "80000004.0")
    return "".join(_text(leaves[name], strip=False) for name in names if name in leaves).strip()


def _text(registers: tuple[int, ...], *, strip: bool = True) -> str:
    raw = struct.pack(f"<{len(registers)}I", *(value & 0xFFFFFFFF for value in registers))
    text = raw.split(b"\0")[0].decode("ascii", errors="replace")
    return text.strip() if strip else text


def llc_bytes(leaves: Leaves, logical_cpus: int | None) -> int | None:
    """Size of all last-level caches together, from the cache leaves (deterministic parameters).

    bytes = ways x partitions x line x sets, each field stored less one. Without the number of
    logical CPUs one cache is counted.
    """
    caches = [
        registers
        for leaf in _CACHE_LEAVES
        for name, registers in leaves.items()
        if name.split(".")[0] == leaf and registers[_EAX] & 0x1F == _UNIFIED
    ]
    if not caches:
        return None
    eax, ebx, ecx, _ = max(caches, key=lambda registers: registers[_EAX] >> 5 & 7)
    size = ((ebx >> 22) + 1) * ((ebx >> 12 & 0x3FF) + 1) * ((ebx & 0xFFF) + 1) * (ecx + 1)
    sharing = (eax >> 14 & 0xFFF) + 1
    return size * (-(-logical_cpus // sharing) if logical_cpus else 1)
