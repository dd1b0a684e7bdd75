"""Whole captured nodes, written by hand as they would look."""

from __future__ import annotations

import json

from tests.trees import Link, Tree

KVM64_FLAGS = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse "
    "sse2 ht syscall nx lm rep_good nopl xtopology cpuid tsc_known_freq pni cx16 x2apic hypervisor "
    "lahf_lm pti"
)


def cpuinfo(
    count: int,
    flags: str,
    brand: str,
    vendor: str = "GenuineIntel",
    family: int = 15,
    model: int = 6,
) -> str:
    """/proc/cpuinfo of one socket with `count` cores."""
    return "".join(
        f"processor\t: {n}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: {brand}\nstepping\t: 1\nphysical id\t: 0\nsiblings\t: {count}\n"
        f"core id\t\t: {n}\ncpu cores\t: {count}\nflags\t\t: {flags}\n\n"
        for n in range(count)
    )


def meminfo(total_kib: int, available_kib: int) -> str:
    """/proc/meminfo with no swap and no huge pages."""
    return (
        f"MemTotal:       {total_kib} kB\nMemFree:        {available_kib} kB\n"
        f"MemAvailable:   {available_kib} kB\nSwapTotal:      0 kB\nSwapFree:       0 kB\n"
        "HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\n"
        "Hugepagesize:       2048 kB\n"
    )


def statvfs(total_bytes: int, available_bytes: int) -> dict[str, int]:
    """A file system without a reserve, with inodes to spare."""
    return {
        "f_frsize": 4096,
        "f_blocks": total_bytes // 4096,
        "f_bfree": available_bytes // 4096,
        "f_bavail": available_bytes // 4096,
        "f_files": 10_000_000,
        "f_ffree": 9_000_000,
    }


def accelerator(address: str, port: str, device: str, gts: str = "16.0", width: int = 16) -> Tree:
    """An NVIDIA card below a root port of its own, with the links that sysfs shows."""
    place = f"devices/pci0000:00/{port}/{address}"
    files = {
        "class": "0x030200",
        "vendor": "0x10de",
        "device": device,
        "current_link_speed": f"{gts} GT/s PCIe",
        "max_link_speed": f"{gts} GT/s PCIe",
        "current_link_width": str(width),
        "max_link_width": str(width),
        "numa_node": "-1",
    }
    tree: Tree = {f"sys/{place}/{name}": f"{text}\n" for name, text in files.items()}
    tree[f"sys/bus/pci/devices/{address}"] = Link(f"../../../{place}")
    return tree


def query_gpu(count: int) -> str:
    """`nvidia-smi --query-gpu` of healthy L40 cards."""
    return (
        "index, name, memory.total [MiB], pcie.link.gen.current, pcie.link.gen.max, "
        "pcie.link.width.current, pcie.link.width.max, pstate, clocks_event_reasons.active\n"
    ) + "".join(
        f"{n}, NVIDIA L40, 46068 MiB, 4, 4, 16, 16, P0, 0x0000000000000000\n" for n in range(count)
    )


THREE_L40: Tree = {
    "proc/cpuinfo": cpuinfo(8, KVM64_FLAGS, "Common KVM processor"),
    "proc/meminfo": meminfo(149_000_000, 131_800_000),
    "proc/self/mountinfo": "22 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n",
    "statvfs.json": json.dumps({"/": statvfs(950 << 30, 57 << 30)}),
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    "sys/class/dmi/id/product_name": "Standard PC (Q35 + ICH9, 2009)\n",
    "witness.json": json.dumps({
        "ssse3": "executed", "sse4_1": "executed", "sse4_2": "executed", "popcnt": "executed",
        "movbe": "executed", "aes": "executed", "pclmulqdq": "executed", "bmi1": "executed",
        "bmi2": "executed", "adx": "executed", "sha_ni": "sigill",
    }),
    "measurements.json": json.dumps({"dram_read_gbps": {"1": 7.4, "8": 11.7}}),
    "cmd/nvidia-smi_--query-gpu.csv": query_gpu(3),
    **accelerator("0000:01:00.0", "0000:00:10.0", "0x26b5"),
    **accelerator("0000:02:00.0", "0000:00:11.0", "0x26b5"),
    **accelerator("0000:03:00.0", "0000:00:12.0", "0x26b5"),
}  # fmt: skip
"""CPU type kvm64, 8 vCPUs, 153 GB, three L40 at Gen4 x16, 57 of 950 GiB free, 11.7 GB/s."""

HEALTHY_FLAGS = (
    KVM64_FLAGS.replace(" hypervisor", "")
    + " ssse3 sse4_1 sse4_2 popcnt aes pclmulqdq xsave avx avx2 fma f16c bmi1 bmi2 abm movbe"
)

HEALTHY: Tree = {
    "proc/cpuinfo": cpuinfo(
        16, HEALTHY_FLAGS, "AMD EPYC 7313 16-Core Processor", "AuthenticAMD", 25, 1
    ),
    "proc/meminfo": meminfo(264_000_000, 250_000_000),
    "proc/self/mountinfo": "22 1 252:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n",
    "statvfs.json": json.dumps({"/": statvfs(1800 << 30, 1200 << 30)}),
    "measurements.json": json.dumps({"dram_read_gbps": {"1": 29.0, "16": 140.0}}),
    "cmd/nvidia-smi_--query-gpu.csv": query_gpu(1),
    **accelerator("0000:01:00.0", "0000:00:10.0", "0x26b5"),
}
"""A bare-metal server with one card and nothing wrong."""
