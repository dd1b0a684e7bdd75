"""The judged link of each accelerator: each device on the way with its upstream partner.

Between the two ports of a switch there is no link, so the hops pair up from the accelerator on.
Pure: facts in, links out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import Hop, Path
from nodecheck.checks.seen import Seen
from nodecheck.model import Struct

Number = TypeVar("Number", int, float)

GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0}
"""Transfer rate of a PCIe generation in GT/s a lane."""

GENERATIONS = {rate: generation for generation, rate in GTS.items()}

ENCODED_MBS = {1: 2000, 2: 4000, 3: 7876, 4: 15753, 5: 31507, 6: 64000}
"""Mb/s a lane after encoding, as Linux computes it."""

LOOKS_AT_MOST = 2
"""Commands that are shown where many links are affected."""

GUEST_MODES = ("pass-through", "vgpu")


class Link(Struct, frozen=True):
    """One link on the way of `accelerator` to its root, or all that the driver tells of it.

    Rates are in GT/s, widths in lanes. `device_*` are the downstream end's maxima, `port_*` the
    upstream end's (None where it is emulated or does not tell), `ceiling_*` the driver's own figure
    for device and system together, used where PCI tells of no upstream end.
    """

    accelerator: str
    place: str
    source: str
    gts: float | None = None
    width: int | None = None
    device_gts: float | None = None
    device_width: int | None = None
    port_gts: float | None = None
    port_width: int | None = None
    ceiling_gts: float | None = None
    ceiling_width: int | None = None
    gpu: Gpu | None = None

    @property
    def wanted_width(self) -> int | None:
        """What both ends could be, as far as they are known."""
        return _least(self.device_width, self.port_width, self.ceiling_width)

    @property
    def wanted_gts(self) -> float | None:
        """What both ends could run at, as far as they are known."""
        return _least(self.device_gts, self.port_gts, self.ceiling_gts)


def generation(gts: float | None) -> str:
    """16.0 as `Gen4`."""
    return f"Gen{GENERATIONS[gts]}" if gts in GENERATIONS else f"{gts} GT/s"


def encoded_bytes_per_second(gts: float | None, width: int | None) -> float | None:
    """What a link of this speed and width carries one way after encoding; None if not known."""
    number = GENERATIONS.get(gts or 0)
    if number not in ENCODED_MBS or width is None:
        return None
    return ENCODED_MBS[number] * width * 1e6 / 8


def in_guest(seen: Seen) -> bool:
    """Whether the node is a guest: the platform shows it, or a card is passed through."""
    modes = ((gpu.virtualisation or "").casefold() for gpu in seen.facts.gpus)
    return bool(seen.facts.virt.guest) or any(mode in GUEST_MODES for mode in modes)


def links(seen: Seen) -> Iterator[Link]:
    """Every link that can be judged; a chip-to-chip GPU has none."""
    by_address = {gpu.pci_address: gpu for gpu in seen.facts.gpus if gpu.pci_address}
    told = {path.accelerator for path in seen.facts.pcie.paths}
    for path in seen.facts.pcie.paths:
        gpu = by_address.get(path.accelerator)
        if gpu is None or not gpu.chip_to_chip:
            yield from _on_path(path, gpu, seen.facts.pcie.source or "sysfs")
    for number, gpu in enumerate(seen.facts.gpus):
        if gpu.pci_address in told or gpu.chip_to_chip or gpu.lost:
            continue
        yield _by_driver(
            gpu, gpu.pci_address or f"GPU {number if gpu.index is None else gpu.index}"
        )


def once(found: Iterable[Link]) -> list[Link]:
    """A switch's uplink lies on the way of several cards and is one link."""
    return list({link.place: link for link in found}.values())


def subjects(affected: Iterable[Link]) -> str:
    """The accelerators that links belong to."""
    return ", ".join(dict.fromkeys(link.accelerator for link in affected))


def look(affected: Iterable[Link], *, on_host: bool = False) -> tuple[str, ...]:
    """What shows the links: root alone may read them, and a guest's host knows other addresses."""
    fields = "grep -E 'LnkCap|LnkSta|LnkCtl2'"
    if on_host:
        return (f"sudo lspci -vvv -s <ADDRESS THERE> | {fields}  # on the host",)
    places = dict.fromkeys(link.place for link in affected if ":" in link.place)
    return tuple(f"sudo lspci -vvv -s {place} | {fields}" for place in list(places)[:LOOKS_AT_MOST])


def _on_path(path: Path, gpu: Gpu | None, source: str) -> Iterator[Link]:
    for first in range(0, len(path.hops), 2):
        device = path.hops[first]
        port = path.hops[first + 1] if first + 1 < len(path.hops) else None
        if device.emulated or device.gone:
            continue
        if first == 0 and gpu is not None and not _tells(device):
            yield _by_driver(gpu, path.accelerator)
        else:
            link = _pair(device, port, source)
            if first == 0 and gpu is not None:
                link = _with_driver(link, gpu)
            yield msgspec.structs.replace(link, accelerator=path.accelerator, gpu=gpu)


def _tells(hop: Hop) -> bool:
    return hop.current_width is not None and hop.current_gts is not None


def _pair(device: Hop, port: Hop | None, source: str) -> Link:
    real = port if port is not None and not port.emulated else None
    return Link(
        accelerator=device.address,
        place=device.address,
        source=f"{source} {device.address}" + (f" and {real.address}" if real else ""),
        gts=_least(device.current_gts, real.current_gts if real else None),
        width=_least(device.current_width, real.current_width if real else None),
        device_gts=device.maximum_gts,
        device_width=device.maximum_width,
        port_gts=real.maximum_gts if real else None,
        port_width=real.maximum_width if real else None,
    )


def _with_driver(link: Link, gpu: Gpu) -> Link:
    """The card's own link with the driver's maxima, of the width only where the port has none."""
    width = gpu.link_width_max if link.port_width is None else None
    return msgspec.structs.replace(link, ceiling_gts=_ceiling(gpu), ceiling_width=width)


def _by_driver(gpu: Gpu, name: str) -> Link:
    """The link as the driver tells it, without PCI."""
    return Link(
        accelerator=name,
        place=name,
        source="NVML" if "nvml" in gpu.seen_by else "nvidia-smi",
        gts=GTS.get(gpu.link_generation or 0),
        width=gpu.link_width,
        device_gts=GTS.get(gpu.link_generation_device_max or 0),
        device_width=_least(gpu.link_width_max, gpu.product_lanes),
        port_gts=GTS.get(gpu.link_generation_host_max or 0),
        ceiling_gts=_ceiling(gpu),
        gpu=gpu,
    )


def _ceiling(gpu: Gpu | None) -> float | None:
    return GTS.get(gpu.link_generation_max or 0) if gpu is not None else None


def _least(*values: Number | None) -> Number | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None
