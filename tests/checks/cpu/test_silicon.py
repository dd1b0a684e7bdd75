"""Which silicon surely has what."""

from __future__ import annotations

import pytest

from nodecheck.checks.cpu import isa
from nodecheck.checks.cpu.silicon import identify, is_generic


@pytest.mark.parametrize(
    ("vendor", "ids", "brand", "has", "lacks"),
    [
        ("GenuineIntel", (6, 85, 4), "Intel(R) Xeon(R) Gold 6148", "avx512vl", "avx512_vnni"),
        ("GenuineIntel", (6, 85, 7), "Intel(R) Xeon(R) Gold 6248", "avx512_vnni", "amx_tile"),
        ("GenuineIntel", (6, 143, 6), "Intel(R) Xeon(R) Platinum 8480+", "amx_tile", "nothing"),
        ("GenuineIntel", (6, 151, 2), "12th Gen Intel(R) Core(TM) i9-12900K", "avx2", "avx512f"),
        ("GenuineIntel", (6, 44, 2), "Intel(R) Xeon(R) CPU X5670", "sse4_2", "avx"),
        ("GenuineIntel", (6, 94, 3), "Intel(R) Pentium(R) CPU G4400", "sse4_2", "avx"),
        ("GenuineIntel", (6, 58, 9), "Intel(R) Celeron(R) CPU G1610", "sse4_2", "avx"),
        ("GenuineIntel", (6, 140, 1), "11th Gen Intel(R) Celeron(R) 6305", "avx2", "nothing"),
        ("GenuineIntel", (6, 156, 0), "Intel(R) Celeron(R) N5105 @ 2.00GHz", "sse4_2", "avx"),
        ("GenuineIntel", (6, 138, 1), "Intel(R) Core(TM) i5-L16G7", "sse4_2", "avx"),
        ("AuthenticAMD", (21, 1, 2), "AMD Opteron(TM) Processor 6272", "avx", "avx2"),
        ("AuthenticAMD", (21, 2, 0), "AMD Opteron(tm) Processor 6328", "fma", "avx2"),
        ("AuthenticAMD", (23, 49, 0), "AMD EPYC 7R32", "avx2", "avx512f"),
        ("AuthenticAMD", (25, 17, 1), "AMD EPYC 9654", "avx512_bf16", "amx_tile"),
        ("HygonGenuine", (24, 0, 1), "Hygon C86 3185", "avx2", "avx512f"),
        ("CentaurHauls", (7, 59, 0), "ZHAOXIN KaiXian KX-U6780A", "bmi2", "avx2"),
        ("  Shanghai  ", (7, 59, 0), "ZHAOXIN KaiXian KX-U6780A", "avx", "fma"),
        ("CentaurHauls", (6, 15, 14), "VIA Eden X4", "avx2", "fma"),
    ],
)
def test_table(vendor: str, ids: tuple[int, int, int], brand: str, has: str, lacks: str) -> None:
    silicon = identify(vendor, *ids, brand)
    assert silicon is not None
    assert has in silicon.features
    assert lacks not in silicon.features


@pytest.mark.parametrize(
    ("vendor", "family", "model", "brand"),
    [
        ("GenuineIntel", 15, 6, "Intel(R) Xeon(R) Gold 5120"),
        ("AuthenticAMD", 15, 107, "AMD EPYC"),
        ("GenuineIntel", 6, 250, "a processor of tomorrow"),
        ("GenuineIntel", 18, 1, "Nova Lake"),
        ("GenuineIntel", 6, 60, None),
        ("GenuineIntel", 6, 44, "Virtual CPU @ 2.60GHz"),
        ("GenuineIotel", 6, 60, "Intel(R) Core(TM) i5"),
        (None, 6, 85, "Intel(R) Xeon(R)"),
        ("GenuineIntel", None, None, None),
    ],
)
def test_not_sure(
    vendor: str | None, family: int | None, model: int | None, brand: str | None
) -> None:
    assert identify(vendor, family, model, 0, brand) is None


def test_an_unknown_stepping_counts_as_the_oldest() -> None:
    silicon = identify("GenuineIntel", 6, 85, None, "Intel(R) Xeon(R) Gold")
    assert silicon is not None
    assert "avx512_vnni" not in silicon.features


@pytest.mark.parametrize(
    "brand",
    ["Common KVM processor", "Common 32-bit KVM processor", "QEMU Virtual CPU version 2.5+"],
)
def test_generic_anywhere(brand: str) -> None:
    assert is_generic(brand, guest=False)


@pytest.mark.parametrize(
    "brand",
    [
        "Intel Core Processor (Haswell, no TSX)",
        "Intel Xeon Processor (Icelake)",
        "Intel Xeon E312xx (Sandy Bridge, IBRS update)",
        "Westmere E56xx/L56xx/X56xx (Nehalem-C)",
        "AMD EPYC-Rome Processor",
        "AMD EPYC Processor (with IBPB)",
        "AMD Opteron 63xx class CPU",
        "AMD Opteron 240 (Gen 1 Class Opteron)",
        "AMD Phenom(tm) 9550 Quad-Core Processor",
        "Intel(R) Core(TM)2 Duo CPU     T7700  @ 2.40GHz",
        "Intel(R) Atom(TM) CPU N270   @ 1.60GHz",
        "Genuine Intel(R) CPU           T2600  @ 2.16GHz",
        "Intel Core 2 Duo P9xxx (Penryn Class Core 2)",
        "Hygon Dhyana Processor",
    ],
)
def test_names_of_qemu_count_in_a_guest_only(brand: str) -> None:
    assert is_generic(brand, guest=True)
    assert not is_generic(brand, guest=False)


@pytest.mark.parametrize(
    "brand", ["AMD EPYC", "Intel(R) Xeon(R) CPU @ 2.20GHz", "AMD EPYC 7571", "", None]
)
def test_a_hidden_sku_is_no_generic_name(brand: str | None) -> None:
    assert not is_generic(brand, guest=True)


def test_levels() -> None:
    v2 = isa.V2
    assert isa.level(()) is None
    assert isa.level(isa.V1) == 1
    assert isa.level(v2) == 2
    assert isa.level(isa.V4) == 4
    assert isa.level(isa.V4 - {"movbe"}) == 2
    assert isa.level(isa.V4 - {"cx16"}) == 1
