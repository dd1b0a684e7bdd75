"""Nodes with cards, and rates as such cards copy."""

from __future__ import annotations

from typing import Any

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Transfer
from nodecheck.policy import Policy
from nodecheck.units import GB, GIB, MIB

TO, FROM = "host_to_device", "device_to_host"


def address(number: int) -> str:
    """The PCI address of the card with that number."""
    return f"0000:{0x17 + 0x10 * number:02x}:00.0"


def card(number: int = 0, name: str = "NVIDIA L40", vram: float = 864.1, **more: Any) -> Gpu:
    """An idle card that is ours."""
    known: dict[str, Any] = {
        "index": number,
        "pci_address": address(number),
        "vendor": "nvidia",
        "name": name,
        "seen_by": ("pci", "nvml"),
        "granted": True,
        "memory_bytes": 48 * GIB,
        "memory_used_bytes": 0,
        "vram_bytes_per_second": vram * GB,
        "vram_rate_source": "2 x 9001 MHz x 384 bit / 8",
        "utilisation_share": 0.0,
        "link_generation": 1,
        "link_generation_max": 4,
        "link_width": 16,
        "compute_mode": "default",
        "mig": False,
        "pcie_replays": 3,
        "processes": (),
    }
    return Gpu(**{**known, **more})


def way(
    number: int, *above: str, gts: float = 16.0, width: int = 16, emulated: bool = False
) -> Path:
    """A card below its port and what is named above it."""
    here = address(number)
    names = (here, *(above or (f"0000:{0x10 * (number + 1):02x}:01.0",)))
    return Path(
        accelerator=here,
        hops=tuple(
            Hop(
                address=name,
                current_gts=gts,
                current_width=width,
                maximum_gts=gts,
                maximum_width=width,
                link_files=True,
                emulated=emulated and name != here,
            )
            for name in names
        ),
    )


def copied(
    number: int,
    name: str,
    rate: float,
    *flags: str,
    cards: int = 1,
    link: tuple[float | None, int | None] = (16.0, 16),
    **more: Any,
) -> Transfer:
    """A rate of a card in GB/s, whose samples lie 2 % around it."""
    on_link = name not in ("device_copy", "device_read", "peer_to_peer")
    known: dict[str, Any] = {
        "name": name,
        "card": address(number),
        "cards": cards,
        "median_bytes_per_second": rate * GB,
        "p10_bytes_per_second": 0.98 * rate * GB,
        "p90_bytes_per_second": 1.01 * rate * GB,
        "passes": 12,
        "buffer_bytes": (64 if on_link else 512) * MIB,
        "link_gts": link[0] if on_link else None,
        "link_width": link[1] if on_link else None,
        "intact": True,
        "flags": flags,
    }
    return Transfer(**{**known, **more})


def pinned(number: int, to: float = 25.1, back: float = 26.2, **more: Any) -> tuple[Transfer, ...]:
    """Both directions through pinned memory."""
    return copied(number, TO, to, **more), copied(number, FROM, back, **more)


def whole(number: int, **more: Any) -> tuple[Transfer, ...]:
    """All that is measured of a healthy L40 alone."""
    return (
        *pinned(number, **more),
        copied(number, "device_copy", 742),
        copied(number, f"{TO}_pageable", 9.1, **more),
        copied(number, f"{FROM}_pageable", 8.0, **more),
        copied(number, "device_read", 790),
    )


def node(
    cards: tuple[Gpu, ...] = (card(),),
    transfers: tuple[Transfer, ...] = (),
    paths: tuple[Path, ...] | None = None,
    cuda: CudaFacts | None = None,
    driver: GpuFacts | None = None,
    **facts: Any,
) -> Seen:
    """A node whose driver answers, and whose cards have ways of their own."""
    ways = paths if paths is not None else tuple(way(gpu.index or 0) for gpu in cards)
    devices = tuple(gpu.pci_address for gpu in cards if gpu.pci_address)
    return Seen(
        facts=Facts(
            gpu=driver or GpuFacts(state="ok", source="nvml", driver_version="580.65.06"),
            gpus=cards,
            pcie=PcieFacts(paths=ways, source="sysfs"),
            cuda=cuda or CudaFacts(state="ok", version="13.0", devices=devices),
            **{"virt": VirtFacts(guest=False), **facts},
        ),
        policy=Policy(),
        transfers=transfers,
        live=True,
    )


def failed(error: int | None, message: str = "CUDA_ERROR", **more: Any) -> CudaFacts:
    """CUDA that does not start."""
    return CudaFacts(state="failed", error=error, call="cuInit", message=message, **more)
