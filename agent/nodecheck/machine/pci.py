"""The PCI devices of a node: from sysfs or, where a tree has none, from what lspci printed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from nodecheck.machine import lspci
from nodecheck.machine.pci_config import Config
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Struct

Told = TypeVar("Told", bound=Struct)

SYSFS = "/sys/bus/pci/devices"
NVIDIA, AMD, INTEL = "10de", "1002", "8086"
VENDORS = {NVIDIA: "nvidia", AMD: "amd", INTEL: "intel"}
GRAPHICS_VENDORS = (NVIDIA, AMD, INTEL)

BRIDGE, VGA, CONTROLLER_3D, DISPLAY = 0x0604, 0x0300, 0x0302, 0x0380
PROCESSING, CO_PROCESSOR = 0x1200, 0x0B40
OTHER_BRIDGE = 0x0680
"""Of NVIDIA's devices the NVSwitches alone have it."""

_ACCELERATORS = (VGA, CONTROLLER_3D, DISPLAY, PROCESSING, CO_PROCESSOR)
_CLASSLESS = {
    "1d0f": frozenset(("7064", "7164", "7264", "7364")),
    "1ae0": frozenset(("0027", "0056", "005e", "0062", "0063", "006f", "0076")),
}
"""Accelerators that give no class of theirs: AWS Neuron (system peripheral, 0x0880) and Google TPU
(unassigned, 0xff00). Sources: pci.ids; the ids by which JAX counts TPUs."""

_NO_CLASS = (0x0880, 0xFF00)
_XEON_PHI = "225"
"""The Intel co-processors that compute; the others, QuickAssist, encrypt and compress."""

_INTEGRATED_AMD = frozenset((
    "1114", "13c0", "13fe", "1435", "1506", "150e", "1586", "15bf", "15c8", "15d8", "15dd", "15e7",
    "1636", "1638", "163f", "164c", "164d", "164e", "1681", "1900", "1901", "9874", "98e4",
))  # fmt: skip
"""AMD's graphics inside processors, from Carrizo on: theirs is a PCIe link like a card's. Sources:
libdrm's amdgpu.ids, amdgpu_drv.c."""

_HYPERV = "1414"
"""Hyper-V's adapter (008e) is a 3D controller in WSL and other guests, and draws on no card."""

EMULATED_PORTS = ("1b36", "15ad", "80ee")
"""Vendors of bridges that exist in no hardware: QEMU, VMware, VirtualBox."""

WIDTH_GONE = 63
"""All ones in the link status register: nothing answers at this address."""

WIDTH_LIMIT = 32
SPEED_LIMIT_GTS = 256.0

_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?")
_LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


class Details(Struct, frozen=True, kw_only=True):
    """What is read of accelerators alone.

    `bar_bytes` is the size of the largest memory window (BAR), `iommu_group` the number of the
    group, `local_cpus` are the CPUs beside the device.
    """

    bar_bytes: int | None = None
    iommu_group: int | None = None
    local_cpus: tuple[int, ...] | None = None


class PciDevice(Struct, frozen=True, kw_only=True):
    """One PCI function. Ids are four hex digits, `pci_class` is class and subclass (0x0302).

    Speeds are in GT/s and widths in lanes, None where they read Unknown or 0. `gone` says that the
    configuration space reads all ones, `asleep` that it has no power, `linkless` that its width
    reads 0, `virtual_function` that it is a share of another device. `config` and `details` are as
    lspci printed them; see pci_details.
    """

    address: str
    parent: str | None = None
    vendor: str | None = None
    device: str | None = None
    subsystem: str | None = None
    pci_class: int | None = None
    name: str | None = None
    driver: str | None = None
    numa_node: int | None = None
    current_gts: float | None = None
    current_width: int | None = None
    maximum_gts: float | None = None
    maximum_width: int | None = None
    link_files: bool = False
    gone: bool = False
    asleep: bool = False
    linkless: bool = False
    virtual_function: bool = False
    config: Config = Config()
    details: Details = Details()

    @property
    def has_link(self) -> bool:
        """Whether it has a PCIe link of its own: not so for a device on the root bus.

        One that is gone or asleep tells of none, and has one all the same.
        """
        told = self.maximum_width is not None or self.current_width is not None
        return told or self.gone or (self.asleep and not self.linkless)

    @property
    def emulated_port(self) -> bool:
        """Whether it is a bridge that a hypervisor made up."""
        return self.vendor in EMULATED_PORTS and self.pci_class == BRIDGE


class Bus(Struct, frozen=True, kw_only=True):
    """The devices that were read, by address. `source` is sysfs, lspci or None (nothing there).

    `nvswitches` is how many NVSwitches there are.
    """

    devices: dict[str, PciDevice]
    source: str | None = None
    nvswitches: int = 0

    def accelerators(self) -> tuple[PciDevice, ...]:
        """The accelerators, by address."""
        return tuple(d for _, d in sorted(self.devices.items()) if is_accelerator(d))

    def way_to_root(self, address: str) -> tuple[PciDevice, ...]:
        """The device at `address`, then each bridge above it up to the root."""
        way: list[PciDevice] = []
        here: str | None = address
        while here in self.devices and self.devices[here] not in way:
            way.append(self.devices[here])
            here = way[-1].parent
        return tuple(way)


def normal_address(text: str) -> str | None:
    """`00000000:0B:00.0`, `0000:0b:00` or `0b:00.0` as `0000:0b:00.0`, anything else as None."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, slot, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{slot.lower()}.{function or '0'}"


def is_accelerator(device: PciDevice) -> bool:
    """A 3D controller, processing accelerator or co-processor of any vendor, or a graphics card.

    A VGA or other display function (Instinct MI200, Data Center GPU Flex) counts where its vendor
    makes accelerators and, but for NVIDIA, it has a PCIe link: an integrated one and a management
    controller's have none, save those that are known by their id.
    """
    if device.virtual_function or device.pci_class is None or device.vendor == _HYPERV:
        return False
    if device.pci_class in (VGA, DISPLAY):
        return device.vendor == NVIDIA or _is_graphics_card(device)
    if device.pci_class in _NO_CLASS:
        return device.device in _CLASSLESS.get(device.vendor or "", ())
    if device.pci_class == CO_PROCESSOR and device.vendor == INTEL:
        return (device.device or "").startswith(_XEON_PHI)
    return device.pci_class in (CONTROLLER_3D, PROCESSING, CO_PROCESSOR)


def _is_graphics_card(device: PciDevice) -> bool:
    integrated = device.vendor == AMD and device.device in _INTEGRATED_AMD
    return device.vendor in GRAPHICS_VENDORS and device.has_link and not integrated


def read(reader: Reader) -> Bus:
    """The accelerators of a node and the bridges above them (from lspci: all devices)."""
    names = [
        name
        for name in reader.names(SYSFS)
        if normal_address(name) == name and real_path(reader, f"{SYSFS}/{name}") is not None
    ]
    printed = _printed(reader) if not names or not reader.host.live else {}
    switches = sum(_is_nvswitch(d.vendor, d.pci_class) for d in printed.values())
    if not names:
        source = "lspci" if printed else None
        return Bus(devices=printed, source=source, nvswitches=switches)
    found, in_sysfs = _classified(reader, names)
    _add_bridges(reader, found)
    return Bus(
        devices={a: _joined(d, printed.get(a)) for a, d in found.items()},
        source="sysfs",
        nvswitches=in_sysfs or switches,
    )


def _classified(reader: Reader, names: Iterable[str]) -> tuple[dict[str, PciDevice], int]:
    """What may be an accelerator, most of a server's devices are not, and how many NVSwitches."""
    found: dict[str, PciDevice] = {}
    switches = 0
    for address in names:
        code = _hex(reader.text(f"{SYSFS}/{address}/class", None))
        pci_class = None if code is None else code >> 8
        known = pci_class in _ACCELERATORS
        if pci_class == OTHER_BRIDGE or pci_class in _NO_CLASS:  # of these a server has dozens
            vendor = _id(reader.text(f"{SYSFS}/{address}/vendor", None))
            switches += _is_nvswitch(vendor, pci_class)
            known = pci_class in _NO_CLASS and vendor in _CLASSLESS
        if known:
            found[address] = _device(reader, address, pci_class)
    return found, switches


def _is_nvswitch(vendor: str | None, pci_class: int | None) -> bool:
    return vendor == NVIDIA and pci_class == OTHER_BRIDGE


def _joined(device: PciDevice, printed: PciDevice | None) -> PciDevice:
    """`device` with what only lspci says: of one without power that is as of one that is gone."""
    joined = completed(device, printed)
    return msgspec.structs.replace(joined, gone=joined.gone and not joined.asleep)


def _add_bridges(reader: Reader, found: dict[str, PciDevice]) -> None:
    for device in [d for d in found.values() if is_accelerator(d)]:
        above = device.parent
        while above is not None and above not in found and real_path(reader, f"{SYSFS}/{above}"):
            pci_class = _hex(reader.text(f"{SYSFS}/{above}/class", None))
            found[above] = _device(reader, above, None if pci_class is None else pci_class >> 8)
            above = found[above].parent


def _device(reader: Reader, address: str, pci_class: int | None) -> PciDevice:
    here = f"{SYSFS}/{address}"
    texts = {name: reader.text(f"{here}/{name}", None) for name in _LINK_FILES}
    width = count(texts["current_link_width"])
    numa_node = count(reader.text(f"{here}/numa_node", None))
    asleep = _asleep(reader, here, width)
    return PciDevice(
        address=address,
        parent=_parent(reader, address),
        vendor=_id(reader.text(f"{here}/vendor", None)),
        device=_id(reader.text(f"{here}/device", None)),
        subsystem=_subsystem(reader, here),
        pci_class=pci_class,
        driver=_driver(reader, here),
        numa_node=numa_node,
        current_gts=speed_gts(texts["current_link_speed"]),
        current_width=lanes(width),
        maximum_gts=speed_gts(texts["max_link_speed"]),
        maximum_width=lanes(count(texts["max_link_width"])),
        link_files=any(text is not None for text in texts.values()),
        gone=width == WIDTH_GONE and not asleep,
        asleep=asleep,
        linkless=width == 0,
        virtual_function="physfn" in reader.names(here),
    )


def _asleep(reader: Reader, here: str, width: int | None) -> bool:
    """A card without power (D3cold) reads all ones as a lost one does.

    Kernels before 5.12 do not tell the state, only that the card was suspended.
    """
    state = reader.text(f"{here}/power_state", None)
    if state is None and width == WIDTH_GONE:
        return reader.text(f"{here}/power/runtime_status", None) == "suspended"
    return state == "D3cold"


def real_path(reader: Reader, path: str) -> str | None:
    """Where a path leads; a hostile tree may hold links in a circle or with a NUL in them."""
    try:
        return reader.host.real_path(path)
    except (UnreadableError, ValueError):
        return None


def _parent(reader: Reader, address: str) -> str | None:
    """The bridge above, from the path that the device's link leads to."""
    parts = (real_path(reader, f"{SYSFS}/{address}") or "").split("/")
    above = parts[-2] if len(parts) > 1 else ""
    return above if normal_address(above) == above else None


def _driver(reader: Reader, here: str) -> str | None:
    """The bound driver's name: from its link, the link's text, or uevent."""
    name = (real_path(reader, f"{here}/driver") or "driver").rpartition("/")[2]
    if name != "driver":
        return name
    text = reader.text(f"{here}/driver", None)
    if text is not None and text.startswith("../"):
        return text.rpartition("/")[2] or None
    uevent = re.search(r"^DRIVER=(\S+)$", reader.text(f"{here}/uevent", None) or "", re.MULTILINE)
    return uevent[1] if uevent else None


def _subsystem(reader: Reader, here: str) -> str | None:
    vendor = _id(reader.text(f"{here}/subsystem_vendor", None))
    device = _id(reader.text(f"{here}/subsystem_device", None))
    return f"{vendor}:{device}" if vendor and device else None


def _hex(text: str | None) -> int | None:
    match = re.fullmatch(r"0x([0-9a-fA-F]{1,8})", text or "")
    return int(match[1], 16) if match else None


def _id(text: str | None) -> str | None:
    number = _hex(text)
    return f"{number:04x}" if number is not None and number < 0xFFFF else None


def count(text: str | None) -> int | None:
    """A small decimal number, anything else as None."""
    return int(text) if text and re.fullmatch(r"\d{1,6}", text) else None


def lanes(width: int | None) -> int | None:
    """A link width that can be; 0, 63 (nothing answers) and nonsense are None."""
    return width if width is not None and 0 < width <= WIDTH_LIMIT else None


def speed_gts(text: str | None) -> float | None:
    """`16.0 GT/s PCIe`, `8 GT/s` -> GT/s; `Unknown`, 0 and nonsense are None."""
    match = re.match(r"(\d{1,4}(?:\.\d+)?)\s*GT/s", text or "")
    value = float(match[1]) if match else 0.0
    return value if 0 < value <= SPEED_LIMIT_GTS else None


def _printed(reader: Reader) -> dict[str, PciDevice]:
    """What lspci printed: on a live node one call, of a capture every form that it holds."""
    forms = lspci.COMMANDS[:1] if reader.host.live else lspci.COMMANDS
    devices: dict[str, PciDevice] = {}
    behind: dict[str, str] = {}
    for form in forms:
        output = reader.command(form, None)
        for block in lspci.parse(output.text) if output is not None else ():
            device = _from_block(block)
            devices[device.address] = completed(devices.get(device.address, device), device)
            if block.secondary_bus is not None:
                behind[f"{device.address[:-8]}:{block.secondary_bus}"] = device.address
    return {a: _below(d, behind.get(a[:-5])) for a, d in devices.items()}


def _below(device: PciDevice, bridge: str | None) -> PciDevice:
    return msgspec.structs.replace(device, parent=bridge) if bridge != device.address else device


def completed(first: Told, other: Told | None) -> Told:
    """`first` with what only the other source says of it."""
    if other is None:
        return first
    changes: dict[str, object] = {}
    for name in first.__struct_fields__:
        mine, theirs = getattr(first, name), getattr(other, name)
        if isinstance(mine, Struct):
            changes[name] = completed(mine, theirs)
        elif theirs is not None and (mine is None or (name in _MARKS and not mine)):
            changes[name] = theirs
    return msgspec.structs.replace(first, **changes)


_MARKS = ("link_files", "gone", "asleep", "virtual_function")
"""Members that say what was seen: False is not known."""


def _from_block(block: lspci.Block) -> PciDevice:
    return PciDevice(
        address=normal_address(block.address) or block.address,
        vendor=block.vendor,
        device=block.device,
        subsystem=block.subsystem,
        pci_class=block.pci_class,
        name=block.name,
        driver=block.driver,
        numa_node=block.numa_node,
        current_gts=speed_gts(block.current_speed),
        current_width=lanes(block.current_width),
        maximum_gts=speed_gts(block.maximum_speed),
        maximum_width=lanes(block.maximum_width),
        link_files=block.has_link,
        gone=block.gone or block.current_width == WIDTH_GONE,
        config=Config(
            target_gts=speed_gts(block.target_speed),
            equalised=block.equalised,
            acs=block.acs,
            ats=block.ats,
            bar_maximum_bytes=block.bar_maximum_bytes,
        ),
        details=Details(bar_bytes=block.bar_bytes, iommu_group=block.iommu_group),
    )
