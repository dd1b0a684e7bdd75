"""The least read bandwidth that a healthy platform shows, by its silicon.

A floor is about half of what was measured on the weakest credible part of a generation, because the
neighbours on a host take their share. It accuses a platform, it does not predict one.
"""

from __future__ import annotations

import re

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.model import Struct
from nodecheck.units import GB

UNKNOWN_PER_CORE = 4.0 * GB
UNKNOWN_CAP = 24.0 * GB
CLIENT_CAP = 10.0 * GB
"""Maybe one memory channel."""

SOCKET_SHARE = 0.35
"""Of what the channels of one socket could do in the weakest part of a row (channels x MT/s x 8 B).

Many cores together are held by the channels: with half of them filled, or with neighbours on the
host, no socket is to be accused of what its cores alone could read.
"""

CHIPLET_CAP = 20.0 * GB
CHIPLET_CORES = 8
"""So many cores of a Zen server may lie on one die, whose link to memory is shared."""


class Silicon(Struct, frozen=True):
    """Bytes a second: `per_core` of each core, never more than `cap` (None: no cap).

    `chiplet` caps a few cores only: those that can lie on one die.
    """

    name: str
    per_core: float
    cap: float | None = None
    chiplet: bool = False

    def floor(self, cores: int) -> float:
        """The least that `cores` physical cores together should read, in bytes a second."""
        rate = self.per_core * cores
        if self.chiplet and cores <= CHIPLET_CORES:
            return min(rate, CHIPLET_CAP)
        return rate if self.cap is None else min(rate, self.cap)


UNKNOWN = Silicon("unknown or masked silicon", UNKNOWN_PER_CORE, UNKNOWN_CAP)
_CLIENT = Silicon("a client part since 2015", 10.0 * GB, CLIENT_CAP)
_OLD_SERVER = Silicon("a Sandy or Ivy Bridge server", 4.0 * GB, SOCKET_SHARE * 59.7 * GB)
_OLD_CLIENT = Silicon("a client part before 2015", 4.0 * GB, CLIENT_CAP)
_HASWELL = Silicon("a Haswell or Broadwell server", 8.0 * GB, SOCKET_SHARE * 68.3 * GB)
_SKYLAKE = Silicon("a Xeon of Skylake to Granite Rapids", 6.0 * GB, SOCKET_SHARE * 128 * GB)
_NAPLES = Silicon(
    "an EPYC of the first generation", 8.0 * GB, SOCKET_SHARE * 170.6 * GB, chiplet=True
)
_ZEN = Silicon("an EPYC of Zen 2 to Zen 5", 12.0 * GB, SOCKET_SHARE * 204.8 * GB, chiplet=True)

_INTEL: dict[int, Silicon] = {
    **dict.fromkeys((0x2D, 0x3E), _OLD_SERVER),
    **dict.fromkeys((0x2A, 0x3A, 0x3C, 0x45, 0x46, 0x3D, 0x47), _OLD_CLIENT),
    **dict.fromkeys((0x3F, 0x4F, 0x56), _HASWELL),
    **dict.fromkeys((0x55, 0x6A, 0x6C, 0x8F, 0xCF, 0xAD, 0xAE), _SKYLAKE),
    **dict.fromkeys((0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6, 0x7D, 0x7E, 0x8C, 0x8D, 0xA7), _CLIENT),
    **dict.fromkeys((0x97, 0x9A, 0xBE, 0xB7, 0xBA, 0xBF, 0xD7, 0xAA, 0xAC, 0xC5, 0xC6), _CLIENT),
    **dict.fromkeys((0xB5, 0xBD, 0xCC, 0xD5), _CLIENT),
}
"""Model of family 6."""

_AMD_SERVERS: dict[int, dict[range, Silicon]] = {
    0x17: {range(0x01, 0x02): _NAPLES, range(0x31, 0x32): _ZEN},
    0x19: {range(0x10): _ZEN, range(0x10, 0x20): _ZEN, range(0xA0, 0xB0): _ZEN},
    0x1A: {range(0x20): _ZEN},
}

_ARM: dict[tuple[str, str], Silicon] = {
    ("0x41", "0xd0c"): Silicon("Neoverse N1", 10.0 * GB, SOCKET_SHARE * 204.8 * GB),
    ("0x41", "0xd40"): Silicon("Neoverse V1", 15.0 * GB, SOCKET_SHARE * 307.2 * GB),
    ("0x41", "0xd4f"): Silicon("Neoverse V2", 15.0 * GB, SOCKET_SHARE * 512 * GB),
}

_VIRTUAL_IDS = {(15, 6), (15, 107)}
"""Family and model of kvm64 and qemu64."""

_VIRTUAL_NAMES = re.compile(
    r"Common (32-bit )?KVM processor|QEMU (Virtual|TCG) CPU|Virtual CPU @"
    r"|Intel Core Processor \(|Intel Xeon Processor \(|Intel Xeon E312xx|Intel Xeon E3-12xx v2 \("
    r"|Westmere E56xx|Intel Core i7 9xx \(Nehalem|Intel Celeron_4x0|AMD Opteron (22|23|62|63)xx"
    r"|AMD EPYC(-\w+)? Processor$|AMD Phenom\(tm\) 9550 Quad-Core Processor$"
)
"""Names of a hypervisor's models: their family and model are its choice as well."""

_HAS_AVX2 = {_HASWELL, _SKYLAKE, _NAPLES, _ZEN}


def silicon(cpu: CpuFacts) -> Silicon:
    """The processor's row; UNKNOWN for a virtual name, a hidden instruction set, a new model."""
    if cpu.arch == "aarch64":
        rows = {_ARM.get((cpu.implementer or "", part), UNKNOWN) for part in cpu.parts}
        return rows.pop() if len(rows) == 1 else UNKNOWN
    if (cpu.family, cpu.model) in _VIRTUAL_IDS or _VIRTUAL_NAMES.search(cpu.brand or ""):
        return UNKNOWN
    row = _x86(cpu)
    flags = cpu.usable_flags if cpu.usable_flags is not None else cpu.flags
    masked = row in _HAS_AVX2 and flags is not None and "avx2" not in flags
    return UNKNOWN if masked else row


def _x86(cpu: CpuFacts) -> Silicon:
    if cpu.family is None or cpu.model is None:
        return UNKNOWN
    if cpu.vendor == "GenuineIntel":
        return _INTEL.get(cpu.model, UNKNOWN) if cpu.family == 6 else UNKNOWN
    if cpu.vendor != "AuthenticAMD" or cpu.family not in _AMD_SERVERS:
        return UNKNOWN
    rows = _AMD_SERVERS[cpu.family].items()
    row = next((found for models, found in rows if cpu.model in models), _CLIENT)
    # Naples and the first Ryzen share an id, so do Rome and Threadripper
    return _CLIENT if row is _NAPLES and "EPYC" not in (cpu.brand or "").upper() else row
