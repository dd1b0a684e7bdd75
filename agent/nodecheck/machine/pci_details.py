"""What PCI tells of an accelerator and its bridges beyond the links: registers, windows, groups."""

from __future__ import annotations

import re

from nodecheck.machine.pci import SYSFS, Details, PciDevice, completed, count, real_path
from nodecheck.machine.pci_config import SIZE, USER_BYTES, Config, parse
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason

_BARS = 6
_MEMORY = 0x200
"""IORESOURCE_MEM."""

_LARGEST_BAR = 1 << 50
_TARGET = "paths.hops.target_gts"
_IOMMU = ("/sys/kernel/iommu_groups", "/sys/class/iommu")


def details(reader: Reader, device: PciDevice) -> Details:
    """The windows and the place of a device, by sysfs and where it is silent by lspci."""
    here = f"{SYSFS}/{device.address}"
    group = (real_path(reader, f"{here}/iommu_group") or "").rpartition("/")[2]
    seen = Details(
        bar_bytes=_largest_bar(reader.text(f"{here}/resource", None)),
        iommu_group=count(group),
        local_cpus=reader.numbers(f"{here}/local_cpulist", None) or None,
    )
    return completed(seen, device.details)


def registers(reader: Reader, device: PciDevice) -> Config:
    """The registers of a device, by sysfs and where it is silent by lspci.

    Those of a device without power or of one that is gone are not asked for: that would wake the
    one, and wait for the other.
    """
    if device.gone or device.asleep:
        return device.config
    path = f"{SYSFS}/{device.address}/config"
    # noted once: what holds for one device holds for all of them
    noted = any(gap.field == _TARGET for gap in reader.gaps)
    data = reader.binary(path, None if noted or device.config != Config() else _TARGET)
    if data is None:
        return device.config
    if len(data) <= USER_BYTES and not noted:
        detail = f"{path}: {len(data)} bytes of {SIZE}; root reads all of them"
        reader.gap(_TARGET, Reason.DENIED, detail)
    return completed(parse(data), device.config)


def _largest_bar(resource: str | None) -> int | None:
    """Of lines of first address, last address and flags; the first six are the windows."""
    sizes = []
    for line in (resource or "").splitlines()[:_BARS]:
        match = re.fullmatch(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16})", line)
        first, last, flags = (int(part, 16) for part in match.groups()) if match else (0, 0, 0)
        if flags & _MEMORY and 0 < last - first < _LARGEST_BAR:
            sizes.append(last - first + 1)
    return max(sizes, default=None)


def iommu(reader: Reader) -> tuple[bool | None, str | None]:
    """Whether devices are behind an IOMMU here, and what tells; None where the kernel does not.

    In a guest it is the guest's own.
    """
    told = [place for place in _IOMMU if reader.host.exists(place)]
    for place in told:
        if reader.names(place):
            return True, place
    return (False, ", ".join(told)) if told else (None, None)
