"""Which silicon a family, model and stepping stand for, and which instruction sets it surely has.

Agrees with 447 published CPUID dumps but for parts with something fused off. A newer processor than
the table's is not identified, which never means that it lacks anything.
"""

from __future__ import annotations

import re

from nodecheck.model import Struct

V1: frozenset[str] = frozenset()
V2 = V1 | {"ssse3", "sse4_1", "sse4_2", "popcnt", "cx16"}
AVX = V2 | {"avx"}
AVX_F16C = AVX | {"f16c"}
AVX_BMI2 = AVX_F16C | {"bmi2"}
AVX_FMA = AVX_F16C | {"fma"}
AVX2_NO_FMA = AVX_BMI2 | {"avx2"}
V3 = AVX2_NO_FMA | {"fma"}
PHI = V3 | {"avx512f", "avx512cd"}
V4 = PHI | {"avx512bw", "avx512dq", "avx512vl"}
VNNI = V4 | {"avx512_vnni"}
BF16 = VNNI | {"avx512_bf16"}
AMX = BF16 | {"avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"}


class Silicon(Struct, frozen=True):
    """A processor generation and those instruction sets of the table's that all its parts have."""

    name: str
    features: frozenset[str]

    @property
    def reach(self) -> str:
        """The most that it can offer, in an operator's words."""
        for feature, words in _REACH:
            if feature in self.features:
                return words
        return "SSE4 without AVX" if "sse4_2" in self.features else "no AVX"


_REACH = (
    ("amx_tile", "AVX-512 and AMX (x86-64-v4)"),
    ("avx512vl", "AVX-512 (x86-64-v4)"),
    ("avx2", "AVX2 (x86-64-v3)"),
    ("avx", "AVX but not AVX2"),
)


class _Row(Struct, frozen=True):
    """Models and steppings are inclusive ranges, separated by blanks.

    `pentium_cut`: the Pentium and Celeron parts have AVX, AVX2, FMA, F16C and BMI fused off.
    """

    family: int
    models: str
    name: str
    features: frozenset[str]
    steppings: str = "0-15"
    pentium_cut: bool = False


_ROWS: dict[str, tuple[_Row, ...]] = {
    "GenuineIntel": (
        _Row(15, "3-6", "NetBurst (Prescott..Tulsa)", V1),
        _Row(6, "15 22", "Core 2 (Merom/Conroe)", V1),
        _Row(6, "23 29", "Core 2 (Penryn/Dunnington)", V1),
        _Row(6, "26 30-31 46", "Nehalem", V2),
        _Row(6, "37 44 47", "Westmere", V2),
        _Row(6, "42 45", "Sandy Bridge", AVX, pentium_cut=True),
        _Row(6, "58 62", "Ivy Bridge", AVX_F16C, pentium_cut=True),
        _Row(6, "60 63 69-70", "Haswell", V3, pentium_cut=True),
        _Row(6, "61 71 79 86", "Broadwell", V3, pentium_cut=True),
        _Row(6, "78 94", "Skylake (client)", V3, pentium_cut=True),
        _Row(6, "85", "Skylake-X / Skylake-SP", V4, steppings="0-4"),
        _Row(6, "85", "Cascade Lake", VNNI, steppings="5-7"),
        _Row(6, "85", "Cooper Lake", BF16, steppings="10-11"),
        _Row(6, "142 158", "Kaby/Coffee/Whiskey/Amber/Comet Lake (client)", V3, pentium_cut=True),
        _Row(6, "165-166", "Comet Lake", V3, pentium_cut=True),
        _Row(6, "102", "Cannon Lake", V4),
        _Row(6, "125-126", "Ice Lake (client)", VNNI),
        _Row(6, "157", "Ice Lake (NNP-I)", VNNI),
        _Row(6, "106 108", "Ice Lake (server)", VNNI),
        _Row(6, "140-141", "Tiger Lake", VNNI),
        _Row(6, "167", "Rocket Lake", VNNI),
        _Row(6, "151 154", "Alder Lake", V3),
        _Row(6, "190", "Alder Lake-N / Twin Lake (Gracemont)", V3),
        _Row(6, "183 186 191", "Raptor Lake", V3),
        _Row(6, "215", "Bartlett Lake", V3),
        _Row(6, "170 172", "Meteor Lake", V3),
        _Row(6, "181 197-198", "Arrow Lake", V3),
        _Row(6, "189", "Lunar Lake", V3),
        _Row(6, "204", "Panther Lake", V3),
        _Row(6, "213", "Wildcat Lake", V3),
        _Row(6, "143", "Sapphire Rapids", AMX),
        _Row(6, "207", "Emerald Rapids", AMX),
        _Row(6, "173-174", "Granite Rapids", AMX),
        _Row(6, "175", "Sierra Forest", V3),
        _Row(6, "182", "Grand Ridge", V3),
        _Row(6, "221", "Clearwater Forest", V3),
        _Row(6, "87", "Xeon Phi Knights Landing", PHI),
        _Row(6, "133", "Xeon Phi Knights Mill", PHI),
        _Row(6, "28 38-39 53-54", "Atom Bonnell/Saltwell", V1),
        _Row(6, "55 74 77 90 93", "Atom Silvermont", V2),
        _Row(6, "76 117", "Atom Airmont", V2),
        _Row(6, "92 95", "Atom Goldmont", V2),
        _Row(6, "122", "Atom Goldmont Plus", V2),
        _Row(6, "134 150 156", "Atom Tremont (Snow Ridge/Elkhart/Jasper Lake)", V2),
        _Row(6, "138", "Lakefield", V2),
    ),
    "AuthenticAMD": (
        _Row(15, "4-127", "K8", V1),
        _Row(16, "2-10", "K10 (Barcelona..Thuban/Magny-Cours)", V1),
        _Row(17, "3", "K8/K10 hybrid (Griffin)", V1),
        _Row(18, "1", "Llano", V1),
        _Row(20, "0-2", "Bobcat", V1),
        _Row(21, "0-1", "Bulldozer", AVX),
        _Row(21, "2 16-31", "Piledriver", AVX_FMA),
        _Row(21, "48-63", "Steamroller", AVX_FMA),
        _Row(21, "96-127", "Excavator", V3),
        _Row(22, "0-63", "Jaguar/Puma", AVX_F16C),
        _Row(23, "0-7 16-23 32", "Zen", V3),
        _Row(23, "8-15 24-31", "Zen+", V3),
        _Row(23, "48-127 132-135 144-175", "Zen 2", V3),
        _Row(25, "0-15", "Zen 3 (Milan, Chagall)", V3),
        _Row(25, "32-47 80-95", "Zen 3", V3),
        _Row(25, "64-79", "Zen 3+ (Rembrandt)", V3),
        _Row(25, "16-31", "Zen 4 (Genoa, Storm Peak)", BF16),
        _Row(25, "96-127", "Zen 4 (Raphael, Phoenix, Hawk Point)", BF16),
        _Row(25, "160-175", "Zen 4c (Bergamo, Siena)", BF16),
        _Row(26, "0-31", "Zen 5 / 5c (Turin, Shimada Peak)", BF16),
        _Row(26, "32-79 96-127", "Zen 5 (client)", BF16),
    ),
    "HygonGenuine": (
        _Row(24, "0", "Hygon Dhyana (Zen based)", V3),
        _Row(24, "1-16", "Hygon Dhyana later models", V3),
    ),
    "CentaurHauls": (
        _Row(6, "15", "VIA Isaiah", V1, steppings="0-7"),
        _Row(6, "15", "VIA Nano 3000/QuadCore", V1, steppings="8-13"),
        _Row(6, "15", "VIA Isaiah II / Zhaoxin ZX-C", AVX2_NO_FMA, steppings="14-15"),
        _Row(6, "25", "Zhaoxin ZX-C+", AVX2_NO_FMA),
        _Row(6, "71", "Centaur CNS", V4),
        _Row(7, "59", "Zhaoxin KX-6000 (Lujiazui)", AVX_BMI2),
        _Row(7, "91", "Zhaoxin KH-40000 (Yongfeng)", V3),
        _Row(7, "107", "Zhaoxin KX-7000 (Shijidadao)", V3),
    ),
    "Shanghai": (
        _Row(6, "25", "Zhaoxin ZX-C+", AVX2_NO_FMA),
        _Row(7, "59", "Zhaoxin KX-6000 (Lujiazui)", AVX_BMI2),
        _Row(7, "91", "Zhaoxin KH-40000 (Yongfeng)", V3),
        _Row(7, "107", "Zhaoxin KX-7000 (Shijidadao)", V3),
    ),
}

_VIRTUAL_MODELS = ((15, 6), (15, 107))
"""kvm64 and qemu64, whatever silicon is below; hypervisors build other types upon them."""

_GENERIC = re.compile(r"Common (32-bit )?KVM processor|QEMU (Virtual|TCG) CPU", re.IGNORECASE)

_QEMU_MODELS = re.compile(
    r"AMD EPYC(-\w+)? Processor( \(with IBPB\))?"
    r"|AMD Opteron (240|22xx|23xx|62xx|63xx) .*(class CPU|Class Opteron).*"
    r"|AMD Phenom\(tm\) 9550 Quad-Core Processor"
    r"|Genuine Intel\(R\) CPU +T2600 +@ 2\.16GHz"
    r"|Hygon Dhyana Processor"
    r"|Intel (Atom|Core|Xeon|Xeon Phi) Processor \(.+\)"
    r"|Intel Celeron_4x0 \(.+\)"
    r"|Intel Core 2 Duo P9xxx \(.+\)"
    r"|Intel Core i7 9xx \(.+\)"
    r"|Intel Xeon E3-12xx v2 \(.+\)"
    r"|Intel Xeon E312xx \(.+\)"
    r"|Intel\(R\) Atom\(TM\) CPU N270 +@ 1\.60GHz"
    r"|Intel\(R\) Core\(TM\)2 Duo CPU +T7700 +@ 2\.40GHz"
    r"|Westmere E56xx/L56xx/X56xx \(.+\)"
)
"""Model names of QEMU's CPU types; some are those of real parts, so they count in a guest only."""

_EMULATED = re.compile(r"Virtual CPU|VirtualApple")
"""Brands of x86 emulators on Arm."""


def is_generic(brand: str | None, *, guest: bool) -> bool:
    """Whether a brand is a hypervisor's CPU type and says nothing of the silicon below."""
    if brand is None:
        return False
    return bool(_GENERIC.match(brand)) or (guest and bool(_QEMU_MODELS.fullmatch(brand)))


def is_emulated(brand: str | None) -> bool:
    """Whether a brand is that of an x86 emulator on Arm."""
    return bool(_EMULATED.search(brand or ""))


def identify(
    vendor: str | None,
    family: int | None,
    model: int | None,
    stepping: int | None,
    brand: str | None,
) -> Silicon | None:
    """The silicon, or None where the table cannot be sure of it."""
    if family is None or model is None or (family, model) in _VIRTUAL_MODELS:
        return None
    if is_emulated(brand):
        return None
    for row in _ROWS.get((vendor or "").strip(), ()):
        if row.family == family and _within(model, row.models) and _fits(stepping, row.steppings):
            return _part(row, brand)
    return None


def _part(row: _Row, brand: str | None) -> Silicon | None:
    if not row.pentium_cut:
        return Silicon(row.name, row.features)
    if brand is None:
        return None
    if re.search(r"Pentium|Celeron", brand, re.IGNORECASE):
        return Silicon(f"{row.name}, Pentium or Celeron", V2)
    return Silicon(row.name, row.features)


def _fits(stepping: int | None, steppings: str) -> bool:
    """Whether the row holds for this stepping; an unknown one counts as the oldest."""
    return _within(stepping or 0, steppings)


def _within(number: int, ranges: str) -> bool:
    for part in ranges.split():
        first, _, last = part.partition("-")
        if int(first) <= number <= int(last or first):
            return True
    return False
