"""Facts of whole nodes, as a report would hold them."""

from __future__ import annotations

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.disk.facts import DiskFacts, Filesystem
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Measurement
from nodecheck.policy import Policy
from nodecheck.units import GIB, MIB

SSE2 = ("lm", "cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse", "sse2", "pni", "cx16")
AVX2 = (*SSE2, "ssse3", "sse4_1", "sse4_2", "popcnt", "lahf_lm", "xsave", "avx", "avx2", "fma",
        "f16c", "bmi1", "bmi2", "abm", "movbe")  # fmt: skip


def dram(gigabytes: float, threads: int, *flags: str) -> Measurement:
    """A read measurement, GB/s."""
    return Measurement(
        name="dram_read",
        kernel="sse2",
        threads=threads,
        median_bytes_per_second=gigabytes * 1e9,
        passes=20,
        flags=flags,
    )


def l40(index: int) -> Gpu:
    """One healthy L40 at Gen4 x16."""
    return Gpu(
        index=index,
        pci_address=f"0000:0{index + 1}:00.0",
        vendor="nvidia",
        name="NVIDIA L40",
        granted=True,
        memory_bytes=46068 * MIB,
        vram_bytes_per_second=864.096e9,
        performance_state=0,
        clocks_event_reasons=(),
        link_generation=4,
        link_generation_max=4,
        link_width=16,
        link_width_max=16,
    )


def link(address: str, generation_gts: float = 16.0, width: int = 16) -> Path:
    """A path of one hop that runs at its maximum."""
    hop = Hop(
        address=address,
        current_gts=generation_gts,
        maximum_gts=generation_gts,
        current_width=width,
        maximum_width=width,
        link_files=True,
    )
    return Path(accelerator=address, hops=(hop,))


def three_l40(flags: tuple[str, ...] = SSE2, *, read: float | None = 11.7) -> Seen:
    """The node that this project starts from: 8 vCPUs, 153 GB, three L40, a nearly full disk."""
    cards = tuple(l40(index) for index in range(3))
    return Seen(
        facts=Facts(
            cpu=CpuFacts(
                arch="x86_64",
                flags=flags,
                usable_flags=flags,
                x86_64_level=1 if flags == SSE2 else 3,
                logical_cpus=8,
                physical_cores=8,
            ),
            virt=VirtFacts(guest=True, hypervisor="kvm"),
            memory=MemoryFacts(total_bytes=153 * 10**9, available_bytes=135 * 10**9),
            disk=DiskFacts(filesystems=(root(57 * GIB, 950 * GIB),)),
            pcie=PcieFacts(paths=tuple(link(card.pci_address or "") for card in cards)),
            gpus=cards,
        ),
        policy=Policy(),
        measurements=() if read is None else (dram(7.4, 1), dram(read, 8)),
    )


def root(available_bytes: int, total_bytes: int) -> Filesystem:
    """A root file system with that much room."""
    return Filesystem(
        mount="/",
        fstype="ext4",
        device="/dev/vda1",
        device_number="252:1",
        persistent=True,
        total_bytes=total_bytes,
        available_bytes=available_bytes,
        used_share=1 - available_bytes / total_bytes,
    )
