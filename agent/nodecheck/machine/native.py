"""The C kernels; no other module imports the extension.

Times are seconds, sizes bytes, CPUs Linux CPU numbers. Import this module only where it is used:
it raises NativeUnavailable where the extension was not built or cannot be loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence


class NativeUnavailable(ImportError):
    """The C extension cannot be loaded here."""


try:
    from nodecheck import _native
except ImportError as error:
    raise NativeUnavailable(f"the C extension cannot be loaded: {error}") from error

ffi, lib = _native.ffi, _native.lib
"""The extension's own, for this module and kernels.py."""

Registers = tuple[int, int, int, int]

_MOST_SUBLEAVES = 64
_WITNESS_OUTCOMES = {1: "executed", 2: "sigill", 3: "wrong"}

# A hypervisor may offer a second interface (KVM beside Hyper-V's) 0x100 leaves up.
_LEAF_BASES = (0, 0x40000000, 0x40000100, 0x80000000)
_CACHES_INTEL, _FEATURES, _XSAVE, _CACHES_AMD = 4, 7, 0xD, 0x8000001D
_TOPOLOGY, _TOPOLOGY_V2 = 0xB, 0x1F


def cpuid() -> dict[str, Registers] | None:
    """Every CPUID leaf by "leaf.subleaf" in hex: (eax, ebx, ecx, edx). None off x86-64."""
    if not lib.nc_cpuid(0, 0, ffi.new("uint32_t[4]")):
        return None
    return {
        f"{leaf:x}.{subleaf:x}": registers
        for base in _LEAF_BASES
        for leaf in _leaves(base)
        for subleaf, registers in _subleaves(leaf)
    }


def _registers(leaf: int, subleaf: int = 0) -> Registers:
    out = ffi.new("uint32_t[4]")
    lib.nc_cpuid(leaf, subleaf, out)
    return out[0], out[1], out[2], out[3]


def _leaves(base: int) -> range:
    """Leaves of one range; a CPU without it answers with some other leaf's values."""
    highest = _registers(base)[0]
    return range(base, highest + 1) if base <= highest <= base + 0xFF else range(0)


def _subleaves(leaf: int) -> Iterator[tuple[int, Registers]]:
    """Subleaf 0, and those after it that the leaf declares valid."""
    first = _registers(leaf)
    yield 0, first
    declared: Sequence[int] = range(1, _MOST_SUBLEAVES)
    if leaf == _FEATURES:
        declared = declared[: first[0]]
    elif leaf == _XSAVE:
        declared = _xsave_components(first)
    elif leaf not in (_CACHES_INTEL, _CACHES_AMD, _TOPOLOGY, _TOPOLOGY_V2):
        return
    for subleaf in declared if _is_valid(leaf, first) else ():
        registers = _registers(leaf, subleaf)
        if not _is_valid(leaf, registers):
            return
        yield subleaf, registers


def _is_valid(leaf: int, registers: Registers) -> bool:
    """Whether an enumeration goes on: cache type and level type are 0 past its end."""
    eax, _, ecx, _ = registers
    if leaf in (_CACHES_INTEL, _CACHES_AMD):
        return eax & 0x1F != 0
    if leaf in (_TOPOLOGY, _TOPOLOGY_V2):
        return ecx >> 8 & 0xFF != 0
    return True


def _xsave_components(first: Registers) -> list[int]:
    _, _, supervisor_low, supervisor_high = _registers(_XSAVE, 1)
    user = first[0] | first[3] << 32
    components = user | supervisor_low | supervisor_high << 32
    return [1, *(bit for bit in range(2, 63) if components >> bit & 1)]


def xgetbv() -> int | None:
    """XCR0, the register state that the OS saves; None without OSXSAVE and off x86-64."""
    out = ffi.new("uint64_t *")
    return int(out[0]) if lib.nc_xgetbv(out) else None


def hwcaps() -> tuple[int, int]:
    """AT_HWCAP and AT_HWCAP2 as the kernel gave them in the auxiliary vector."""
    out = ffi.new("unsigned long[2]")
    lib.nc_hwcaps(out)
    return out[0], out[1]


def witness() -> dict[str, str] | None:
    """Execute instructions in a child, whatever CPUID says: executed, sigill or wrong (value).

    Only "executed" proves anything. A set is left out where the child died before it. None off
    x86-64.
    """
    names = list(_witness_names())
    if not names:
        return None
    out = ffi.new("unsigned char[]", len(names))
    check(lib.nc_witness(out, len(names)), "witness")
    return {
        name: _WITNESS_OUTCOMES[out[i]]
        for i, name in enumerate(names)
        if out[i] in _WITNESS_OUTCOMES
    }


def _witness_names() -> Iterator[str]:
    index = 0
    while (name := lib.nc_witness_name(index)) != ffi.NULL:
        yield text(name)
        index += 1


def clock_gettime_seconds() -> float:
    """Cost of one clock_gettime(CLOCK_MONOTONIC) while nothing interrupts; takes a few ms."""
    return float(lib.nc_clock_gettime_seconds())


def set_mempolicy_default_errno() -> int:
    """Errno of set_mempolicy(MPOL_DEFAULT), 0 where allowed; the caller's policy stays."""
    return int(lib.nc_set_mempolicy_default_errno())


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    check(lib.nc_die_with_parent(), "prctl(PR_SET_PDEATHSIG)")


def text(c_string: object) -> str:
    """An ASCII string of the extension's."""
    return str(ffi.string(c_string), "ascii")


def check(code: int, what: str) -> None:
    """Raise OSError for an errno, nothing for 0."""
    if code:
        raise OSError(code, f"{what}: {os.strerror(code)}")
