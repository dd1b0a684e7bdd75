"""Whose guest this is, by every trace that a hypervisor leaves."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodecheck.machine.host import CapturedHost, CpuidLeaves
from nodecheck.machine.reader import Reader
from nodecheck.machine.virtualization import Virtualization, detect
from tests.trees import Tree, plant

Plant = Callable[[Tree], CapturedHost]
GUEST = "processor : 0\nflags : fpu lm hypervisor\n"
BARE = "processor : 0\nflags : fpu lm\n"
DMI = "sys/class/dmi/id"


def detected(
    host: CapturedHost, cpuinfo: str | None = None, leaves: CpuidLeaves | None = None
) -> Virtualization:
    return detect(Reader(host, "virt"), cpuinfo, leaves)


def signature(text: str, base: int = 0x40000000) -> CpuidLeaves:
    b, c, d = struct.unpack("<3I", text.encode().ljust(12, b"\0"))
    return {"1.0": (0, 0, 1 << 31, 0), f"{base:x}.0": (0, b, c, d)}


@pytest.mark.parametrize(
    ("vendor", "product", "hypervisor", "platform"),
    [
        ("QEMU", "Standard PC (i440FX + PIIX, 1996)", "qemu", None),
        ("VMware, Inc.", "VMware Virtual Platform", "vmware", "vmware"),
        ("Microsoft Corporation", "Virtual Machine", "microsoft", "hyperv"),
        ("innotek GmbH", "VirtualBox", "oracle", "virtualbox"),
        ("Xen", "HVM domU", "xen", "xen"),
        ("Amazon EC2", "t3a.small", "amazon", "ec2"),
        ("Google", "Google Compute Engine", "google", "gce"),
        ("Parallels International GmbH.", "Parallels Virtual Platform", "parallels", "parallels"),
        ("Nutanix", "AHV", "kvm", "nutanix"),
        ("OpenStack Foundation", "OpenStack Nova", "kvm", "openstack"),
        ("Fedora Project", "OpenStack Nova", "kvm", "openstack"),
        ("KubeVirt", "None", "kvm", "kubevirt"),
        ("oVirt", "RHEL", "kvm", "ovirt"),
        ("Red Hat", "RHEV Hypervisor", "kvm", "ovirt"),
        ("Alibaba Cloud", "Alibaba Cloud ECS", "kvm", "alibaba"),
        ("Apple Inc.", "Apple Virtualization Generic Platform", "apple", None),
        ("BHYVE", "BHYVE", "bhyve", None),
    ],
)
def test_by_dmi(
    node: Plant, vendor: str, product: str, hypervisor: str, platform: str | None
) -> None:
    host = node({f"{DMI}/sys_vendor": f"{vendor}\n", f"{DMI}/product_name": f"{product}\n"})
    seen = detected(host)
    assert (seen.guest, seen.hypervisor, seen.platform) == (True, hypervisor, platform)


@pytest.mark.parametrize(
    ("vendor", "product"),
    [
        ("Dell Inc.", "PowerEdge R740"),
        ("Amazon EC2", "m5.metal"),
        ("Amazon EC2", "m7i.metal-24xl"),
        ("Microsoft Corporation", "Surface Pro 7"),
        ("Google", "Kled"),
        ("Red Hat", "KVMless"),
        ("", ""),
    ],
)
def test_real_machines(node: Plant, vendor: str, product: str) -> None:
    host = node({f"{DMI}/sys_vendor": f"{vendor}\n", f"{DMI}/product_name": f"{product}\n"})
    seen = detected(host, BARE)
    assert (seen.guest, seen.hypervisor) == (False, None)


def test_dmi_at_its_other_place(node: Plant) -> None:
    host = node({"sys/devices/virtual/dmi/id/sys_vendor": "QEMU\n"})
    assert detected(host).hypervisor == "qemu"


@pytest.mark.parametrize(
    ("text", "name", "emulated"),
    [
        ("KVMKVMKVM", "kvm", False),
        ("TCGTCGTCGTCG", "qemu", True),
        ("VMwareVMware", "vmware", False),
        ("Microsoft Hv", "microsoft", False),
        ("XenVMMXenVMM", "xen", False),
        ("bhyve bhyve ", "bhyve", False),
        (" lrpepyh  vr", "parallels", False),
        ("unheard of", "vm-other", None),
    ],
)
def test_by_cpuid(node: Plant, text: str, name: str, emulated: bool | None) -> None:
    seen = detected(node({"proc/version": ""}), None, signature(text))
    assert (seen.guest, seen.hypervisor, seen.emulated) == (True, name, emulated)


def test_without_the_hypervisor_bit_the_leaf_means_nothing(node: Plant) -> None:
    leaves = {**signature("KVMKVMKVM"), "1.0": (0, 0, 0, 0)}
    assert detected(node({"proc/version": ""}), BARE, leaves).guest is False


def test_kvm_beside_the_interface_of_hyperv(node: Plant) -> None:
    leaves = {**signature("Microsoft Hv"), **signature("KVMKVMKVM", 0x40000100)}
    assert detected(node({"proc/version": ""}), GUEST, leaves).hypervisor == "kvm"


def test_cpuid_outranks_the_board_of_qemu(node: Plant) -> None:
    host = node({f"{DMI}/sys_vendor": "QEMU\n"})
    assert detected(host, GUEST, signature("KVMKVMKVM")).hypervisor == "kvm"


def test_amazon_outranks_cpuid(node: Plant) -> None:
    host = node({f"{DMI}/sys_vendor": "Amazon EC2\n", f"{DMI}/product_name": "m5.large\n"})
    assert detected(host, GUEST, signature("KVMKVMKVM")).hypervisor == "amazon"


@pytest.mark.parametrize("flags", ["hypervisor", "hypervisor tsc_known_freq"])
def test_kvm_in_qemu_by_its_clock(node: Plant, flags: str) -> None:
    tree: Tree = {f"{DMI}/sys_vendor": "QEMU\n"}
    if "tsc_known_freq" not in flags:
        folder = "sys/devices/system/clocksource/clocksource0"
        tree[f"{folder}/available_clocksource"] = "tsc kvm-clock acpi_pm\n"
    seen = detected(node(tree), f"flags : {flags}\n")
    assert (seen.hypervisor, seen.emulated) == ("kvm", False)


def test_qemu_without_a_sign_of_kvm_may_be_either(node: Plant) -> None:
    seen = detected(node({f"{DMI}/sys_vendor": "QEMU\n"}), GUEST)
    assert (seen.hypervisor, seen.emulated) == ("qemu", None)


def test_the_flag_alone(node: Plant) -> None:
    assert detected(node({"proc/version": ""}), GUEST).hypervisor == "vm-other"


@pytest.mark.parametrize(("kind", "guest"), [("xen\n", True), ("", False), ("\n", False)])
def test_an_empty_hypervisor_type_is_nothing(node: Plant, kind: str, guest: bool) -> None:
    assert detected(node({"sys/hypervisor/type": kind}), BARE).guest is guest


def test_an_empty_hypervisor_directory_is_nothing(node: Plant) -> None:
    assert detected(node({"sys/hypervisor/other": ""}), BARE).guest is False


def test_the_control_domain_of_xen_is_no_guest(node: Plant) -> None:
    tree: Tree = {"sys/hypervisor/type": "xen\n", "proc/xen/capabilities": "control_d\n"}
    assert detected(node(tree), BARE).guest is False


def test_a_xen_guest_without_sysfs(node: Plant) -> None:
    assert detected(node({"proc/xen/capabilities": ""}), BARE).hypervisor == "xen"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("0010\t12341111\t0", "qemu"),
        ("0018\t1b36000c\t0", "qemu"),
        ("0010\t80eebeef\t12", "oracle"),
        ("0078\t15ad0405\t10", "vmware"),
        ("0010\t1af41041\t0", None),
        ("0010\t10de26b5\t0", None),
        ("0010\tzzzz\t0", None),
        ("", None),
    ],
)
def test_by_the_pci_list(node: Plant, line: str, name: str | None) -> None:
    seen = detected(node({"proc/bus/pci/devices": f"0000\t80861237\t0\n{line}\n"}), BARE)
    assert seen.hypervisor == name


def sysfs_device(vendor: str, pci_class: str) -> Tree:
    folder = "sys/bus/pci/devices/0000:00:01.0"
    return {f"{folder}/vendor": vendor, f"{folder}/device": "0x000c", f"{folder}/class": pci_class}


def test_by_sysfs(node: Plant) -> None:
    assert detected(node(sysfs_device("0x1b36", "0x060400")), BARE).hypervisor == "qemu"


@pytest.mark.parametrize(
    ("vendor", "pci_class"),
    [("0x1af4", "0x010000"), ("0x1b36", "0x010802"), ("0x10de", "0x030200"), ("Unknown", "")],
)
def test_cards_that_prove_nothing(node: Plant, vendor: str, pci_class: str) -> None:
    assert detected(node(sysfs_device(vendor, pci_class)), BARE).guest is False


def test_an_arm_guest_by_its_device_tree(node: Plant) -> None:
    host = node({"proc/device-tree/hypervisor/compatible": "linux,kvm\0"})
    assert detected(host).hypervisor == "kvm"


@pytest.mark.parametrize(
    ("member", "value", "platform"),
    [
        ("product_version", "pc-i440fx-9.0+pve0", "proxmox"),
        ("bios_vendor", "Proxmox distribution of EDK II", "proxmox"),
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "azure"),
        ("chassis_asset_tag", "OracleCloud.com", "oci"),
        ("product_family", "KubeVirt", "kubevirt"),
        ("bios_version", "4.11.amazon", "ec2"),
    ],
)
def test_platforms_by_other_members(node: Plant, member: str, value: str, platform: str) -> None:
    host = node({f"{DMI}/sys_vendor": "QEMU\n", f"{DMI}/{member}": f"{value}\n"})
    assert detected(host, GUEST).platform == platform


def test_wsl(node: Plant) -> None:
    host = node({"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"})
    assert detected(host, GUEST, signature("Microsoft Hv")).platform == "wsl"


def test_firecracker(node: Plant) -> None:
    host = node({"proc/cmdline": "console=ttyS0 reboot=k panic=1 pci=off\n"})
    assert detected(host, GUEST, signature("KVMKVMKVM")).platform == "firecracker"


def test_nothing_to_look_at(node: Plant) -> None:
    seen = detected(node({"proc/version": ""}))
    assert (seen.guest, seen.traces) == (None, ())


PATHS = (
    f"{DMI}/sys_vendor",
    f"{DMI}/product_name",
    "sys/hypervisor/type",
    "proc/bus/pci/devices",
    "sys/bus/pci/devices/0000:00:01.0/vendor",
    "proc/device-tree/hypervisor/compatible",
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(PATHS), st.binary(max_size=40)), st.text(max_size=60))
def test_never_raises(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], cpuinfo: str
) -> None:
    host = plant({"proc/version": "", **files}, tmp_path_factory.mktemp("tree"))
    assert isinstance(detected(host, cpuinfo), Virtualization)
