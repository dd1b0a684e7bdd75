"""One entry a physical accelerator: PCI, NVML and nvidia-smi tell of the same cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from nodecheck.checks.gpu import other_products, products
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import AMD, FOREIGN_DRIVERS, INTEL, NVIDIA, maker_of
from nodecheck.machine.pci import VENDORS, PciDevice
from nodecheck.units import GB


def from_pci(device: PciDevice) -> Gpu:
    """What PCI alone tells of an accelerator."""
    ids = f"{device.vendor}:{device.device}" if device.vendor and device.device else None
    return Gpu(
        pci_address=device.address,
        vendor=VENDORS.get(device.vendor or "", device.vendor),
        name=device.name,
        pci_device_id=ids,
        subsystem_id=device.subsystem,
        seen_by=("pci",),
        granted=False if device.driver in FOREIGN_DRIVERS else None,
        driver=device.driver,
        numa_node=device.numa_node,
    )


def together(sources: Sequence[Sequence[Gpu]], on_pci: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The cards of all sources; where two hold a member, the earlier source counts.

    A card without an address is placed by its index, where a source names as many cards as there
    are: the driver numbers its cards by PCI address. Two cards of one source are two cards.
    """
    cards: list[Gpu] = []
    for source in (*sources, on_pci):
        earlier = list(range(len(cards)))
        for gpu in _placed(source, cards, on_pci):
            at = next((n for n in earlier if _same(cards[n], gpu)), None)
            if at is None:
                cards.append(gpu)
            else:
                earlier.remove(at)
                cards[at] = _joined(cards[at], gpu)
    return tuple(sorted(map(finished, cards), key=_order))


def _order(gpu: Gpu) -> tuple[bool, int, str]:
    return (gpu.index is None, gpu.index or 0, gpu.pci_address or "")


def _same(card: Gpu, gpu: Gpu) -> bool:
    if card.pci_address is not None and gpu.pci_address is not None:
        return card.pci_address == gpu.pci_address
    makers = {card.vendor, gpu.vendor} - {None}
    return card.index is not None and card.index == gpu.index and len(makers) < 2


def _placed(source: Sequence[Gpu], cards: Sequence[Gpu], on_pci: Sequence[Gpu]) -> Iterable[Gpu]:
    """The source's cards, those without an address placed where that can be said."""
    nameless = [gpu for gpu in source if gpu.pci_address is None]
    known = [c.pci_address for c in cards if c.pci_address and c.vendor == NVIDIA]
    bus = [g.pci_address for g in on_pci if g.vendor == NVIDIA and g.granted is not False]
    addresses = sorted(address for address in known or bus if address)
    if not nameless or len(source) != len(addresses):
        return source
    taken = {gpu.pci_address for gpu in source}
    placed: list[Gpu] = []
    for position, gpu in enumerate(source):
        number = gpu.index if gpu.index is not None else position
        free = number < len(addresses) and addresses[number] not in taken
        if gpu.pci_address is None and free:
            taken.add(addresses[number])
            gpu = msgspec.structs.replace(gpu, pci_address=addresses[number])  # noqa: PLW2901
        placed.append(gpu)
    return placed


def _is_open(name: str, value: object) -> bool:
    """Whether another source may fill it in; 0 is a value, and so are no NVLinks at all."""
    return value is None or value is False or (name == "mig_instances" and not value)


def _joined(card: Gpu, gpu: Gpu) -> Gpu:
    """`card` with what only `gpu` holds; a fault that either shows is there."""
    values = {
        name: getattr(gpu, name)
        for name in card.__struct_fields__
        if _is_open(name, getattr(card, name)) and getattr(gpu, name) is not None
    }
    # A card that the driver opened is ours, whatever PCI says of it.
    values["granted"] = card.granted if card.granted is not None else gpu.granted
    values["seen_by"] = tuple(dict.fromkeys((*card.seen_by, *gpu.seen_by)))
    return msgspec.structs.replace(card, **values)


def finished(gpu: Gpu) -> Gpu:
    """`gpu` with what its product is known to have, and its memory's rate."""
    product = products.find(gpu.pci_device_id, gpu.name, gpu.subsystem_id)
    product = product or other_products.find(gpu.pci_device_id, gpu.name)
    rate, source = vram_rate(gpu, product)
    unified = _is_unified(gpu, product)
    return msgspec.structs.replace(
        gpu,
        name=gpu.name or _name(gpu, product),
        unified_memory=unified,
        chip_to_chip=gpu.chip_to_chip or unified or bool(product and product.chip_to_chip),
        product_lanes=product.lanes if product else None,
        vram_bytes_per_second=rate,
        vram_rate_source=source,
    )


def _is_unified(gpu: Gpu, product: products.Product | None) -> bool:
    """Of a product that is known the table counts: a driver may fail to tell of its memory."""
    if product is None or (product.bytes_per_second is None and not product.unified_memory):
        return gpu.unified_memory
    return product.unified_memory


def _name(gpu: Gpu, product: products.Product | None) -> str | None:
    """The product that an id stands for, else maker and id; None where there is no id."""
    if gpu.pci_device_id is None:
        return None
    known = product.one_name if product else None
    device = known or f"device {gpu.pci_device_id.partition(':')[2]}"
    return f"{maker_of(gpu) or gpu.pci_device_id.partition(':')[0]} {device}"


def vram_rate(gpu: Gpu, product: products.Product | None) -> tuple[float | None, str | None]:
    """Peak rate of the card's memory in bytes a second, and where it comes from.

    2 x maximum memory clock x bus width / 8, or the product table where that is smaller: the clock
    may hold a user's offset or be the data rate itself, the width be that of another variant. The
    clocks of AMD and Intel are the controller's: of them the table counts, or their firmware.
    """
    known = product.bytes_per_second if product else None
    mhz, bits = gpu.maximum_memory_clock_mhz, gpu.memory_bus_bits
    if gpu.vendor in (AMD, INTEL):
        if known is None:
            return gpu.vram_bytes_per_second, gpu.vram_rate_source
    elif mhz and bits:
        rate = products.formula(mhz, bits)
        if known is None or rate < known * 1.001:
            return rate, f"2 x {mhz} MHz x {bits} bit / 8"
    if known is None:
        return None, None
    which = f"PCI id {gpu.pci_device_id}" if gpu.pci_device_id else f"name {gpu.name}"
    return known, f"product table, {which}: {known / GB:.0f} GB/s"
