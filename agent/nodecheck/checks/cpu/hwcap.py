"""Arm's HWCAP bits that engines use, by the names of /proc/cpuinfo (Linux uapi/asm/hwcap.h)."""

from __future__ import annotations

_HWCAP = {
    0: "fp",
    1: "asimd",
    3: "aes",
    4: "pmull",
    7: "crc32",
    8: "atomics",
    9: "fphp",
    10: "asimdhp",
    20: "asimddp",
    22: "sve",
    23: "asimdfhm",
}
_HWCAP2 = {1: "sve2", 9: "svei8mm", 12: "svebf16", 13: "i8mm", 14: "bf16", 23: "sme"}

COVERED = frozenset((*_HWCAP.values(), *_HWCAP2.values()))
"""Names that this module knows; any other feature is the kernel's word alone."""


def names(hwcap: int, hwcap2: int) -> frozenset[str]:
    """The instruction sets that the auxiliary vector shows."""
    return frozenset(
        name
        for word, table in ((hwcap, _HWCAP), (hwcap2, _HWCAP2))
        for bit, name in table.items()
        if word >> bit & 1
    )
