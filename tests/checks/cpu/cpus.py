"""Processors as /proc/cpuinfo and sysfs show them."""

from __future__ import annotations

from tests.trees import Tree

V1 = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse "
    "sse2 ht syscall nx lm rep_good nopl cpuid pni cx16"
)
V2 = f"{V1} lahf_lm popcnt ssse3 sse4_1 sse4_2"
V2_AES = f"{V2} aes pclmulqdq"
AVX = f"{V2_AES} xsave avx"
V3 = f"{AVX} avx2 bmi1 bmi2 f16c fma abm movbe adx rdseed"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
XSAVE_OFF = f"{V2_AES} f16c bmi1 bmi2 abm movbe adx rdseed"
"""What a kernel keeps of AVX-512 silicon when XSAVE is off."""

SYSFS = "sys/devices/system/cpu"


def cpuinfo(
    flags: str,
    brand: str | None = "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz",
    *,
    vendor: str = "GenuineIntel",
    ids: tuple[int, int, int] = (6, 85, 7),
    count: int = 4,
    siblings: int | None = None,
    cores: int | None = None,
    packages: bool = False,
) -> str:
    """Blocks of one package, or of a package each; `ids` are family, model and stepping."""
    name = "" if brand is None else f"model name\t: {brand}\n"
    return "\n".join(
        f"processor\t: {n}\nvendor_id\t: {vendor}\ncpu family\t: {ids[0]}\nmodel\t\t: {ids[1]}\n"
        f"{name}stepping\t: {ids[2]}\ncpu MHz\t\t: 800.000\nphysical id\t: {n if packages else 0}\n"
        f"siblings\t: {siblings or count}\ncore id\t\t: {n}\ncpu cores\t: {cores or count}\n"
        f"flags\t\t: {flags}\nbugs\t\t:\n"
        for n in range(count)
    )


def arm(features: str, parts: tuple[str, ...] = ("0xd0c",) * 4) -> str:
    """Blocks of one CPU a part."""
    return "\n".join(
        f"processor\t: {n}\nBogoMIPS\t: 50.00\nFeatures\t: {features}\nCPU implementer\t: 0x41\n"
        f"CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part}\nCPU revision\t: 1\n"
        for n, part in enumerate(parts)
    )


def dmi(vendor: str, product: str, **members: str) -> Tree:
    """DMI as sysfs shows it."""
    given = {"sys_vendor": vendor, "product_name": product, **members}
    return {f"sys/class/dmi/id/{name}": f"{text}\n" for name, text in given.items()}


QEMU = dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)", bios_vendor="SeaBIOS")
KVM64: Tree = {
    "proc/cpuinfo": cpuinfo(
        f"{V1} hypervisor tsc_known_freq", "Common KVM processor", ids=(15, 6, 1)
    ),
    **QEMU,
}
XEON: Tree = {"proc/cpuinfo": cpuinfo(V4)}


def cpufreq(
    count: int, *, current: int, maximum: int, governor: str = "performance", driver: str = "x"
) -> Tree:
    """cpufreq of every CPU, kHz."""
    tree: Tree = {}
    for n in range(count):
        folder = f"{SYSFS}/cpu{n}/cpufreq"
        tree[f"{folder}/scaling_cur_freq"] = f"{current}\n"
        tree[f"{folder}/cpuinfo_max_freq"] = f"{maximum}\n"
        tree[f"{folder}/scaling_governor"] = f"{governor}\n"
        tree[f"{folder}/scaling_driver"] = f"{driver}\n"
    return tree


def stat(*, user: int, idle: int, steal: int) -> str:
    """The first lines of /proc/stat."""
    return f"cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 {user} 0 0 {idle} 0 0 0 {steal} 0 0\n"


def topology(places: list[tuple[int, int]]) -> Tree:
    """The (package, core) of each CPU."""
    tree: Tree = {f"{SYSFS}/online": f"0-{len(places) - 1}\n"}
    for n, (package, core) in enumerate(places):
        tree[f"{SYSFS}/cpu{n}/topology/physical_package_id"] = f"{package}\n"
        tree[f"{SYSFS}/cpu{n}/topology/core_id"] = f"{core}\n"
    return tree
