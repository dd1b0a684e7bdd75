"""The judged link of each accelerator: each device on the way with its upstream partner.

Pure: facts in, links out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import Hop, Path, ends_of, while_copying
from nodecheck.checks.seen import Seen
from nodecheck.links import GTS, generation
from nodecheck.model import Struct

Number = TypeVar("Number", int, float)

LOOKS_AT_MOST = 2
"""Commands that are shown where many links are affected."""

GUEST_MODES = ("pass-through", "vgpu")

AMD, NVIDIA = "amd", "nvidia"
_PCI_AMD = "1002"


class Link(Struct, frozen=True):
    """One link on the way of `accelerator` to its root, or all that the driver tells of it.

    Rates are in GT/s, widths in lanes. `device_*` are the downstream end's maxima, `port_*` the
    upstream end's (None where it is emulated or does not tell), `ceiling_*` the driver's own figure
    for device and system together, used where PCI tells of no upstream end. `target_gts` is the
    fastest that the upstream end, `port`, lets the link train to. `depth` is 0 for the card's own
    link and grows towards the root; `model` are the card's ids or its name, `maker` is amd where
    the downstream end is a part of such a card. `copying` says that speed and width are the least
    that it had while the card copied. `sharers` are all accelerators whose way it lies on, where
    they were put together.
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
    port: str | None = None
    target_gts: float | None = None
    equalised: bool | None = None
    depth: int = 0
    model: str | None = None
    copying: bool = False
    maker: str | None = None
    sharers: tuple[str, ...] = ()

    @property
    def capped(self) -> bool:
        """Whether it is slow because its upstream end is set to let it run no faster."""
        if self.gts is None or self.target_gts is None or self.wanted_gts is None:
            return False
        return self.gts <= self.target_gts < self.wanted_gts

    @property
    def wanted_width(self) -> int | None:
        """What both ends could be, as far as they are known."""
        return _least(self.device_width, self.port_width, self.ceiling_width)

    @property
    def wanted_gts(self) -> float | None:
        """What both ends could run at, as far as they are known."""
        return _least(self.device_gts, self.port_gts, self.ceiling_gts)


def in_guest(seen: Seen) -> bool:
    """Whether the node is a guest: the platform shows it, or a card is passed through."""
    modes = ((gpu.virtualisation or "").casefold() for gpu in seen.facts.gpus)
    return bool(seen.facts.virt.guest) or any(mode in GUEST_MODES for mode in modes)


def judged(seen: Seen) -> Iterator[tuple[Path, Gpu | None]]:
    """The ways whose links are ours to judge, with their cards; a chip-to-chip GPU has no link."""
    by_address = {gpu.pci_address: gpu for gpu in seen.facts.gpus if gpu.pci_address}
    for path in seen.facts.pcie.paths:
        gpu = by_address.get(path.accelerator)
        if gpu is None or not (gpu.chip_to_chip or _is_others(gpu, seen)):
            yield path, gpu


def _is_others(gpu: Gpu, seen: Seen) -> bool:
    """Whether the card is another container's or job's.

    On the host itself the link of a card that a guest holds is the host's all the same.
    """
    inside = seen.facts.virt.container is not None or gpu.device_file is True
    return inside and not seen.facts.grants(gpu)


def links(seen: Seen) -> Iterator[Link]:
    """Every link that can be judged."""
    told = {path.accelerator for path in seen.facts.pcie.paths}
    for path, gpu in judged(seen):
        for link in _on_path(path, gpu, seen.facts.pcie.source or "sysfs"):
            yield _as_copied(link, seen)
    for number, gpu in enumerate(seen.facts.gpus):
        if gpu.pci_address in told or gpu.chip_to_chip or gpu.lost or _is_others(gpu, seen):
            continue
        name = gpu.pci_address or f"GPU {number if gpu.index is None else gpu.index}"
        yield _as_copied(_by_driver(gpu, name), seen)


def _as_copied(link: Link, seen: Seen) -> Link:
    """A card's own link at the least that it ran at while the card copied, where that was seen."""
    ran = while_copying(seen.transfers, link.accelerator)
    if link.place != link.accelerator or not ran:
        return link
    each = "; ".join(f"{generation(gts)} x{width}" for gts, width in ran)
    return msgspec.structs.replace(
        link,
        gts=min(gts for gts, _ in ran),
        width=min(width for _, width in ran),
        copying=True,
        source=f"{link.source}, while copying" + (f" ({each})" if len(ran) > 1 else ""),
    )


def utilisation(link: Link) -> float:
    """The share of time in which the link's card is busy, 0 where that is not known."""
    return (link.gpu.utilisation_share or 0.0) if link.gpu is not None else 0.0


def once(found: Iterable[Link], rank: Callable[[Link], float] = utilisation) -> list[Link]:
    """A switch's uplink lies on the way of several cards and is one link.

    It is judged with the card that ranks highest, by default the busiest, and names all of them.
    """
    places: dict[str, list[Link]] = {}
    for link in found:
        places.setdefault(link.place, []).append(link)
    return [
        msgspec.structs.replace(max(alike, key=rank), sharers=_accelerators(alike))
        for alike in places.values()
    ]


def _accelerators(alike: Sequence[Link]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link.accelerator for link in alike))


def alike(link: Link, all_links: Iterable[Link]) -> list[Link]:
    """The links of cards of the same model, as far from their cards; the link itself is one."""
    if link.model is None:
        return []
    return [other for other in all_links if (other.model, other.depth) == (link.model, link.depth)]


def subjects(affected: Iterable[Link]) -> str:
    """The accelerators that links belong to."""
    names = (name for link in affected for name in link.sharers or (link.accelerator,))
    return ", ".join(dict.fromkeys(names))


def look(affected: Iterable[Link], *, on_host: bool = False) -> tuple[str, ...]:
    """What shows the links: root alone may read them, and a guest's host knows other addresses."""
    fields = "grep -E 'LnkCap|LnkSta|LnkCtl2'"
    if on_host:
        return (f"sudo lspci -vvv -s <ADDRESS THERE> | {fields}  # on the host",)
    places = dict.fromkeys(link.place for link in affected if ":" in link.place)
    return tuple(f"sudo lspci -vvv -s {place} | {fields}" for place in list(places)[:LOOKS_AT_MOST])


def _on_path(path: Path, gpu: Gpu | None, source: str) -> Iterator[Link]:
    for first in range(0, len(path.hops), 2):
        own, (device, *rest) = path.hops[0], ends_of(path.hops, first)
        port = rest[0] if rest else None
        if device.emulated or device.gone:
            continue
        if first == 0 and gpu is not None and not _tells(device):
            yield _by_driver(gpu, path.accelerator)
        else:
            link = _pair(device, port, source)
            if first == 0 and gpu is not None:
                link = _with_driver(link, gpu)
            ids = f"{own.vendor}:{own.device}" if own.vendor and own.device else None
            yield msgspec.structs.replace(
                link,
                accelerator=path.accelerator,
                gpu=gpu,
                depth=first,
                model=_model(gpu) or ids,
                maker=AMD if own.vendor == device.vendor == _PCI_AMD else None,
            )


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
        port=real.address if real else None,
        target_gts=real.target_gts if real else None,
        equalised=device.equalised,
    )


def _with_driver(link: Link, gpu: Gpu) -> Link:
    """The card's own link with the driver's maxima, of the width only where the port has none.

    NVIDIA's driver tells the speed too, and tells it beside the load: one of the two moments in
    which it was read may be before the card woke.
    """
    now = GTS.get(gpu.link_generation or 0) if gpu.vendor == NVIDIA else None
    faster = now is not None and now > (link.gts or 0.0)
    return msgspec.structs.replace(
        link,
        gts=now if faster else link.gts,
        source=f"{link.source}, {_driver_source(gpu)}" if faster else link.source,
        device_width=_least(link.device_width, gpu.product_lanes),
        ceiling_gts=_ceiling(gpu),
        ceiling_width=gpu.link_width_max if link.port_width is None else None,
    )


def _by_driver(gpu: Gpu, name: str) -> Link:
    """The link as the driver tells it, without PCI."""
    return Link(
        accelerator=name,
        place=name,
        source=_driver_source(gpu),
        gts=GTS.get(gpu.link_generation or 0),
        width=gpu.link_width,
        device_gts=GTS.get(gpu.link_generation_device_max or 0),
        device_width=_least(gpu.link_width_max, gpu.product_lanes),
        port_gts=GTS.get(gpu.link_generation_host_max or 0),
        ceiling_gts=_ceiling(gpu),
        gpu=gpu,
        model=_model(gpu),
        maker=AMD if gpu.vendor == AMD else None,
    )


def _model(gpu: Gpu | None) -> str | None:
    return (gpu.pci_device_id or gpu.name) if gpu is not None else None


def _driver_source(gpu: Gpu) -> str:
    """Where the driver tells of a link; AMD's and Intel's tell in sysfs, as PCI does."""
    if gpu.vendor in (AMD, "intel"):
        return "amd-smi" if "amd-smi" in gpu.seen_by else "sysfs"
    return "NVML" if "nvml" in gpu.seen_by else "nvidia-smi"


def _ceiling(gpu: Gpu | None) -> float | None:
    return GTS.get(gpu.link_generation_max or 0) if gpu is not None else None


def _least(*values: Number | None) -> Number | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None
