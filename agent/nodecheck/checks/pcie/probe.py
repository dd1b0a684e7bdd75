"""Reads the links from each accelerator to its root."""

from __future__ import annotations

from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.machine import pci
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason


def probe(reader: Reader) -> PcieFacts:
    """The way of every accelerator that PCI shows, from sysfs or lspci."""
    bus = pci.read(reader)
    if bus.source is None:
        if not reader.host.live:
            reader.gap("*", Reason.ABSENT, f"{pci.SYSFS}: no PCI devices, and no lspci output")
        return PcieFacts()
    paths = tuple(_path(bus, device) for device in bus.accelerators())
    for path in paths:
        _note_unknown(reader, path)
    return PcieFacts(paths=paths, source=bus.source)


def _path(bus: pci.Bus, device: pci.PciDevice) -> Path:
    hops = tuple(_hop(hop) for hop in bus.way_to_root(device.address))
    return Path(accelerator=device.address, hops=hops, numa_node=device.numa_node)


def _hop(device: pci.PciDevice) -> Hop:
    return Hop(
        address=device.address,
        vendor=device.vendor,
        device=device.device,
        pci_class=f"0x{device.pci_class:04x}" if device.pci_class is not None else None,
        current_gts=device.current_gts,
        current_width=device.current_width,
        maximum_gts=device.maximum_gts,
        maximum_width=device.maximum_width,
        emulated=device.emulated_port,
        gone=device.gone,
        link_files=device.link_files,
        aer=device.aer,
    )


def _note_unknown(reader: Reader, path: Path) -> None:
    """The accelerator's own link; a bridge that tells nothing only leaves an end open."""
    own = path.hops[0]
    if own.current_width is None or own.current_gts is None:
        reason = (
            Reason.FAILED if own.gone else Reason.UNSUPPORTED if own.link_files else Reason.ABSENT
        )
        detail = f"{path.accelerator}: link speed or width is not told"
        reader.gap("paths.hops", reason, detail)
