"""CPUID by the names of /proc/cpuinfo."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.cpu import cpuid, isa
from nodecheck.checks.cpu.cpuid import Leaves

ZEN = 0x00A10F11  # family 25 model 17 stepping 1


def leaf_1(*bits: int, edx: int = 0, eax: int = ZEN) -> Leaves:
    """Leaf 1 with bits of ecx set."""
    return {"1.0": (eax, 0, sum(1 << bit for bit in bits), edx)}


def brand(text: str) -> Leaves:
    """The three leaves of a brand string, padded with NULs."""
    raw = text.encode().ljust(48, b"\0")
    words = struct.unpack("<12I", raw)
    return {f"8000000{2 + n}.0": words[4 * n : 4 * n + 4] for n in range(3)}


def vendor(text: str) -> Leaves:
    b, d, c = struct.unpack("<3I", text.encode())
    return {"0.0": (16, b, c, d)}


def test_names_are_those_of_cpuinfo() -> None:
    leaves = {**leaf_1(9, 12, 28), "7.0": (0, 1 << 5 | 1 << 8, 0, 0)}
    assert cpuid.shown(leaves) == {"ssse3", "fma", "avx", "avx2", "bmi2"}


def test_every_compared_set_can_be_seen() -> None:
    assert isa.COMPARED <= cpuid.COVERED


def test_avx_without_osxsave_is_not_usable() -> None:
    leaves = leaf_1(19, 26, 28)
    assert cpuid.usable(leaves, None) == {"sse4_1", "xsave"}


def test_xcr0_decides_what_is_enabled() -> None:
    leaves = {**leaf_1(27, 28), "7.0": (0, 1 << 5 | 1 << 16, 0, 1 << 24)}
    assert cpuid.usable(leaves, 0x3) == set()
    assert cpuid.usable(leaves, 0x7) == {"avx", "avx2"}
    assert cpuid.usable(leaves, 0xE7) == {"avx", "avx2", "avx512f"}
    assert cpuid.usable(leaves, 0x600E7) == {"avx", "avx2", "avx512f", "amx_tile"}


def test_identity_of_an_extended_family() -> None:
    who = cpuid.identity({**vendor("AuthenticAMD"), **leaf_1(), **brand("AMD EPYC 9654")})
    assert who is not None
    assert (who.vendor, who.brand) == ("AuthenticAMD", "AMD EPYC 9654")
    assert (who.family, who.model, who.stepping) == (25, 17, 1)


def test_identity_of_kvm64_and_of_family_6() -> None:
    kvm64 = cpuid.identity({**vendor("GenuineIntel"), **leaf_1(eax=0xF61)})
    assert kvm64 is not None
    assert (kvm64.family, kvm64.model, kvm64.stepping, kvm64.brand) == (15, 6, 1, None)
    cascade = cpuid.identity({**vendor("GenuineIntel"), **leaf_1(eax=0x50657)})
    assert cascade is not None
    assert (cascade.family, cascade.model, cascade.stepping) == (6, 85, 7)


def test_no_leaves_no_identity() -> None:
    assert cpuid.identity({}) is None


def test_llc_of_zen_counts_every_complex() -> None:
    # 16 ways, 64-byte lines, 32768 sets, shared by 8 logical CPUs
    leaves = {"8000001d.3": (0x3 | 3 << 5 | 7 << 14, 15 << 22 | 63, 32767, 0)}
    assert cpuid.llc_bytes(leaves, 8) == 32 << 20
    assert cpuid.llc_bytes(leaves, 32) == 128 << 20
    assert cpuid.llc_bytes(leaves, None) == 32 << 20
    assert cpuid.llc_bytes({}, 8) is None


registers = st.tuples(*[st.integers(0, 2**32 - 1)] * 4)
names = st.sampled_from(["0.0", "1.0", "7.0", "7.1", "4.0", "8000001d.1", "80000002.0", "zz", "."])


@given(st.dictionaries(names, registers))
def test_any_leaves_are_read(leaves: Leaves) -> None:
    assert cpuid.usable(leaves, None) <= cpuid.shown(leaves)
    cpuid.identity(leaves)
    cpuid.llc_bytes(leaves, 8)
