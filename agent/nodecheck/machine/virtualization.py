"""Whether this node is a guest, by every trace that a hypervisor leaves, and whose words to use."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from nodecheck.machine.host import CpuidLeaves
from nodecheck.machine.reader import Reader
from nodecheck.model import Struct

_DMI_MEMBERS = (
    "sys_vendor",
    "product_name",
    "product_version",
    "product_family",
    "bios_vendor",
    "bios_version",
    "board_vendor",
    "chassis_vendor",
    "chassis_asset_tag",
)
_DMI_FOLDERS = ("/sys/class/dmi/id", "/sys/devices/virtual/dmi/id")

_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"

_SIGNATURES = {
    "KVMKVMKVM": "kvm",
    "Linux KVM Hv": "kvm",
    "TCGTCGTCGTCG": "qemu",
    "VMwareVMware": "vmware",
    "Microsoft Hv": "microsoft",
    "XenVMMXenVMM": "xen",
    "VBoxVBoxVBox": "oracle",
    "bhyve bhyve": "bhyve",
    "QNXQVMBSQG": "qnx",
    "ACRNACRNACRN": "acrn",
    "SRESRESRESRE": "sre",
    "Apple VZ": "apple",
    "lrpepyh  vr": "parallels",
}
"""CPUID leaf 0x40000000, without blanks around it -> name as systemd-detect-virt prints it."""

_DMI_NAMES = (
    ("product_name", r"KVM\b", "kvm"),
    ("product_name", r"OpenStack|RHEV Hypervisor|oVirt|AHV|CloudStack", "kvm"),
    ("product_name", r"VirtualBox", "oracle"),
    ("product_name", r"Google Compute Engine", "google"),
    ("product_name", r"Apple Virtualization", "apple"),
    ("product_name", r"HVM domU", "xen"),
    ("product_name", r"Alibaba Cloud ECS|Droplet", "kvm"),
    ("sys_vendor", r"Amazon EC2", "amazon"),
    ("sys_vendor", r"innotek GmbH", "oracle"),
    ("sys_vendor", r"VMware|VMW", "vmware"),
    ("sys_vendor", r"Xen", "xen"),
    ("sys_vendor", r"Parallels", "parallels"),
    ("sys_vendor", r"BHYVE", "bhyve"),
    ("sys_vendor", r"KubeVirt|Nutanix|oVirt|OpenStack", "kvm"),
    ("sys_vendor", r"QEMU", "qemu"),
    ("sys_vendor", r"Bochs", "bochs"),
    ("bios_vendor", r"Amazon EC2", "amazon"),
    ("bios_vendor", r"Parallels", "parallels"),
    ("bios_vendor", r"BHYVE", "bhyve"),
    ("bios_vendor", r"Bochs", "bochs"),
    ("board_vendor", r"QEMU", "qemu"),
    ("chassis_vendor", r"QEMU", "qemu"),
)
"""What a DMI member begins with -> name; the first that fits is taken."""

_PCI_VENDORS = {
    0x1234: "qemu",
    0x1B36: "qemu",
    0x80EE: "oracle",
    0x15AD: "vmware",
    0x5853: "xen",
}
_PCI_CLASSES = (0x03, 0x05, 0x06, 0x08, 0xFF)
"""Displays, memory, bridges, host services: what an emulated board is made of."""

_CLOCKSOURCES = {"kvm-clock": "kvm", "hyperv_clocksource": "microsoft", "xen": "xen"}

_PLATFORMS = (
    ("chassis_asset_tag", re.escape(_AZURE_ASSET_TAG), "azure"),
    ("chassis_asset_tag", r"OracleCloud", "oci"),
    ("product_version", r".*\+pve", "proxmox"),
    ("bios_vendor", r"Proxmox", "proxmox"),
    ("bios_version", r".*amazon", "ec2"),
    ("sys_vendor", r"Amazon EC2", "ec2"),
    ("bios_vendor", r"Amazon EC2", "ec2"),
    ("sys_vendor", r"Alibaba", "alibaba"),
    ("sys_vendor", r"Tencent", "tencent"),
    ("sys_vendor", r"DigitalOcean", "digitalocean"),
    ("sys_vendor", r"Hetzner", "hetzner"),
    ("sys_vendor", r"Vultr", "vultr"),
    ("sys_vendor", r"Scaleway", "scaleway"),
    ("sys_vendor", r"Akamai|Linode", "linode"),
    ("sys_vendor", r"UpCloud", "upcloud"),
    ("sys_vendor", r"Exoscale", "exoscale"),
    ("product_name", r"Google Compute Engine", "gce"),
    ("product_name", r".*CloudStack", "cloudstack"),
    ("sys_vendor", r"Nutanix", "nutanix"),
    ("sys_vendor", r"KubeVirt", "kubevirt"),
    ("product_family", r"KubeVirt", "kubevirt"),
    ("product_name", r"OpenShift Virtualization", "kubevirt"),
    ("sys_vendor", r"oVirt", "ovirt"),
    ("product_name", r"RHEV Hypervisor|oVirt", "ovirt"),
    ("sys_vendor", r"OpenStack|RDO", "openstack"),
    ("product_name", r"OpenStack", "openstack"),
)
"""What a DMI member begins with -> whose words a remedy uses."""

_PLATFORM_OF_HYPERVISOR = {
    "vmware": "vmware",
    "microsoft": "hyperv",
    "xen": "xen",
    "oracle": "virtualbox",
    "parallels": "parallels",
    "amazon": "ec2",
    "google": "gce",
}


class Trace(Struct, frozen=True):
    """One thing that gives a hypervisor away: where it was read, what it says, whose it is."""

    source: str
    value: str
    hypervisor: str | None


class Virtualization(Struct, frozen=True):
    """`guest` is None where nothing could be looked at; `dmi` holds what could be read.

    `emulated` is true for full emulation (TCG), false where hardware virtualization is known.
    """

    guest: bool | None
    hypervisor: str | None
    platform: str | None
    machine_type: str | None
    emulated: bool | None
    traces: tuple[Trace, ...]
    dmi: dict[str, str]


def detect(reader: Reader, cpuinfo: str | None, leaves: CpuidLeaves | None) -> Virtualization:
    """Look for a hypervisor. `cpuinfo` and `leaves` are what the caller has of them."""
    dmi = _read_dmi(reader)
    flags = _first_flags(cpuinfo)
    if _is_xen_control_domain(reader):
        return Virtualization(False, None, None, None, None, (), dmi)
    traces = (
        *_dmi_traces(dmi),
        *_xen_traces(reader),
        *_cpuid_traces(leaves or {}),
        *_firmware_traces(reader),
        *_flag_traces(flags),
    ) or tuple(_pci_traces(reader))
    looked = bool(dmi or flags or leaves or reader.names("/sys/bus/pci/devices"))
    name = _name(traces, _by_clock(reader, flags))
    return Virtualization(
        guest=bool(traces) if traces or looked else None,
        hypervisor=name,
        platform=_platform(reader, dmi, name) if traces else None,
        machine_type=_machine_type(dmi),
        emulated=_emulated(traces, name),
        traces=traces,
        dmi=dmi,
    )


def _read_dmi(reader: Reader) -> dict[str, str]:
    for folder in _DMI_FOLDERS:
        read = {name: reader.text(f"{folder}/{name}", None) for name in _DMI_MEMBERS}
        if known := {name: text for name, text in read.items() if text}:
            return known
    return {}


def _first_flags(cpuinfo: str | None) -> frozenset[str]:
    match = re.search(r"^flags\s*:(.*)$", cpuinfo or "", re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def _is_xen_control_domain(reader: Reader) -> bool:
    return "control_d" in (reader.text("/proc/xen/capabilities", None) or "")


def _dmi_traces(dmi: dict[str, str]) -> Iterator[Trace]:
    # EC2 says Amazon on bare metal too; only the product tells
    if ".metal" in dmi.get("product_name", ""):
        return
    if _is_hyperv(dmi):
        yield Trace("DMI sys_vendor", dmi["sys_vendor"], "microsoft")
    for member, pattern, name in _DMI_NAMES:
        if re.match(pattern, dmi.get(member, "")):
            yield Trace(f"DMI {member}", dmi[member], name)
            return


def _is_hyperv(dmi: dict[str, str]) -> bool:
    return dmi.get("sys_vendor", "").startswith("Microsoft") and (
        "Virtual Machine" in dmi.get("product_name", "")
    )


def _xen_traces(reader: Reader) -> Iterator[Trace]:
    # an empty file, and a directory without it, are nothing
    if kind := reader.text("/sys/hypervisor/type", None):
        yield Trace("/sys/hypervisor/type", kind, kind if kind == "xen" else None)
    elif "capabilities" in reader.names("/proc/xen"):
        yield Trace("/proc/xen", "no control domain", "xen")


def _cpuid_traces(leaves: CpuidLeaves) -> Iterator[Trace]:
    if not leaves.get("1.0", (0, 0, 0, 0))[2] >> 31 & 1:
        return
    # KVM beside Hyper-V's interface answers 0x100 leaves up
    for base in (0x40000100, 0x40000000):
        _, *registers = leaves.get(f"{base:x}.0", (0, 0, 0, 0))
        raw = struct.pack("<3I", *(value & 0xFFFFFFFF for value in registers))
        text = raw.decode("latin-1").strip("\0 ")
        if name := _SIGNATURES.get(text):
            yield Trace(f"CPUID 0x{base:x}", text, name)
            return
    yield Trace("CPUID 1", "hypervisor bit", None)


def _firmware_traces(reader: Reader) -> Iterator[Trace]:
    text = reader.text("/proc/device-tree/hypervisor/compatible", None) or ""
    for word, name in (("linux,kvm", "kvm"), ("xen", "xen"), ("vmware", "vmware")):
        if word in text:
            yield Trace("/proc/device-tree/hypervisor/compatible", word, name)
            return
    if reader.names("/sys/firmware/qemu_fw_cfg"):
        yield Trace("/sys/firmware/qemu_fw_cfg", "present", "qemu")


def _pci_traces(reader: Reader) -> Iterator[Trace]:
    for source, vendor, device, pci_class in (*_sysfs_devices(reader), *_proc_devices(reader)):
        name = _PCI_VENDORS.get(vendor)
        if name and (pci_class is None or pci_class in _PCI_CLASSES):
            yield Trace(source, f"{vendor:04x}:{device:04x} ({name})", name)
            return


def _sysfs_devices(reader: Reader) -> Iterator[tuple[str, int, int, int | None]]:
    for address in reader.names("/sys/bus/pci/devices"):
        folder = f"/sys/bus/pci/devices/{address}"
        vendor = _hex(reader.text(f"{folder}/vendor", None))
        if vendor in _PCI_VENDORS:
            device = _hex(reader.text(f"{folder}/device", None)) or 0
            pci_class = _hex(reader.text(f"{folder}/class", None))
            yield folder, vendor, device, None if pci_class is None else pci_class >> 16


def _proc_devices(reader: Reader) -> Iterator[tuple[str, int, int, int | None]]:
    path = "/proc/bus/pci/devices"
    for line in (reader.text(path, None) or "").splitlines():
        ids = line.split()[1:2]
        if ids and re.fullmatch(r"[0-9a-fA-F]{8}", ids[0]):
            yield path, int(ids[0][:4], 16), int(ids[0][4:], 16), None


def _hex(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None


def _flag_traces(flags: frozenset[str]) -> Iterator[Trace]:
    if "hypervisor" in flags:
        yield Trace("/proc/cpuinfo", "flag hypervisor", None)


def _by_clock(reader: Reader, flags: frozenset[str]) -> str | None:
    """The hypervisor whose clock the kernel knows; in QEMU only KVM tells the TSC's rate."""
    folder = "/sys/devices/system/clocksource/clocksource0"
    clocks = reader.text(f"{folder}/available_clocksource", None) or ""
    for clock, name in _CLOCKSOURCES.items():
        if clock in clocks:
            return name
    return "kvm" if {"hypervisor", "tsc_known_freq"} <= flags else None


def _name(traces: tuple[Trace, ...], clock: str | None) -> str | None:
    """The name of the hypervisor by systemd's precedence.

    DMI first for Oracle, Xen, Amazon, Parallels and Google, then Xen's files, CPUID, the rest.
    """
    if not traces:
        return None
    found = {trace.source.split()[0]: trace.hypervisor for trace in traces if trace.hypervisor}
    first = found.get("DMI")
    if first in {"oracle", "xen", "amazon", "parallels", "google"}:
        return first
    if "/sys/hypervisor/type" in found or "/proc/xen" in found:
        return "xen"
    if named := found.get("CPUID"):
        return named
    if first in {None, "qemu"} and clock:
        return clock
    return first or next(iter(found.values()), "vm-other")


def _emulated(traces: tuple[Trace, ...], name: str | None) -> bool | None:
    """CPUID's signature tells; QEMU's DMI alone may be either."""
    by_cpuid = next((t.hypervisor for t in traces if t.source.startswith("CPUID")), None)
    if by_cpuid == "qemu":
        return True
    return None if name in {None, "qemu", "bochs", "vm-other"} else False


def _platform(reader: Reader, dmi: dict[str, str], name: str | None) -> str | None:
    for member, pattern, platform in _PLATFORMS:
        if re.match(pattern, dmi.get(member, "")):
            return platform
    if "microsoft" in (reader.text("/proc/sys/kernel/osrelease", None) or "").lower():
        return "wsl"
    if not dmi and _is_firecracker(reader):
        return "firecracker"
    return _PLATFORM_OF_HYPERVISOR.get(name or "")


def _is_firecracker(reader: Reader) -> bool:
    """By the boot options that it sets; it has neither DMI nor, by default, PCI."""
    options = (reader.text("/proc/cmdline", None) or "").split()
    return {"reboot=k", "panic=1"} <= set(options) and (
        "pci=off" in options or any("firecracker" in option for option in options)
    )


def _machine_type(dmi: dict[str, str]) -> str | None:
    """QEMU's board: `Standard PC (Q35 + ICH9, 2009)` is Q35."""
    match = re.match(r"Standard PC \((\w+)", dmi.get("product_name", ""))
    return match[1] if match else None
