"""Reads the links from each accelerator to its root."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.pcie import aer
from nodecheck.checks.pcie.facts import Errors, Hop, Path, PcieFacts
from nodecheck.machine import pci, pci_details
from nodecheck.machine.pci_config import Config
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason


def probe(reader: Reader) -> PcieFacts:
    """The way of every accelerator that PCI shows, from sysfs or lspci."""
    bus = pci.read(reader)
    if bus.source is None:
        if not reader.host.live:
            reader.gap("*", Reason.ABSENT, f"{pci.SYSFS}: no PCI devices, and no lspci output")
        return PcieFacts()
    ways = [bus.way_to_root(device.address) for device in bus.accelerators()]
    devices = {device.address: device for way in ways for device in way}
    errors = aer.first(reader, devices)
    configs = {a: pci_details.registers(reader, device) for a, device in devices.items()}
    attached = [_path(reader, way, configs) for way in ways]
    behind, told_by = _iommu(reader, attached)
    rises, seconds = aer.rises(reader, errors)
    paths = tuple(_with_errors(path, errors.errors, rises) for path in attached)
    for path in paths:
        _note_unknown(reader, path)
    if paths and not errors.errors:
        reader.gap("paths.hops.aer", Reason.ABSENT, "the kernel counts no errors of these devices")
    return PcieFacts(
        paths=paths,
        source=bus.source,
        window_seconds=seconds,
        iommu=behind,
        iommu_source=told_by,
    )


def _path(reader: Reader, way: tuple[pci.PciDevice, ...], configs: dict[str, Config]) -> Path:
    device = way[0]
    details, config = pci_details.details(reader, device), configs[device.address]
    return Path(
        accelerator=device.address,
        hops=tuple(_hop(hop, configs[hop.address]) for hop in way),
        numa_node=device.numa_node,
        local_cpus=details.local_cpus,
        ats=config.ats,
        iommu_group=details.iommu_group,
        bar_bytes=details.bar_bytes,
        bar_maximum_bytes=config.bar_maximum_bytes,
    )


def _hop(device: pci.PciDevice, config: Config) -> Hop:
    return Hop(
        address=device.address,
        vendor=device.vendor,
        device=device.device,
        pci_class=f"0x{device.pci_class:04x}" if device.pci_class is not None else None,
        current_gts=device.current_gts,
        current_width=device.current_width,
        maximum_gts=device.maximum_gts or config.maximum_gts,
        maximum_width=device.maximum_width or pci.lanes(config.maximum_width),
        emulated=device.emulated_port,
        gone=device.gone,
        asleep=device.asleep,
        link_files=device.link_files,
        target_gts=config.target_gts,
        equalised=config.equalised,
        acs_redirect=config.acs_redirect,
    )


def _with_errors(path: Path, errors: dict[str, Errors], rises: dict[str, Errors]) -> Path:
    hops = (
        replace(hop, aer=errors.get(hop.address), aer_rise=rises.get(hop.address))
        for hop in path.hops
    )
    return replace(path, hops=tuple(hops))


def _iommu(reader: Reader, paths: list[Path]) -> tuple[bool | None, str | None]:
    grouped = next((path for path in paths if path.iommu_group is not None), None)
    if grouped is None:
        return pci_details.iommu(reader)
    return True, f"{grouped.accelerator} is in IOMMU group {grouped.iommu_group}"


def _note_unknown(reader: Reader, path: Path) -> None:
    """The accelerator's own link; a bridge that tells nothing only leaves an end open."""
    own = path.hops[0]
    if own.current_width is None or own.current_gts is None:
        reason = (
            Reason.FAILED if own.gone else Reason.UNSUPPORTED if own.link_files else Reason.ABSENT
        )
        why = ": the card sleeps without power" if own.asleep else ""
        detail = f"{path.accelerator}: link speed or width is not told{why}"
        reader.gap("paths.hops", reason, detail)
