"""What it means that the node is a guest or a container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity

_UNRECOGNISED = "hypervisor not recognised"

_NAMES = {
    "amazon": "Amazon EC2",
    "azure": "Azure",
    "bhyve": "bhyve",
    "docker": "Docker",
    "ec2": "Amazon EC2",
    "firecracker": "Firecracker",
    "gce": "Google Compute Engine",
    "google": "Google Compute Engine",
    "hyperv": "Hyper-V",
    "kubevirt": "KubeVirt",
    "kvm": "KVM",
    "libvirt": "libvirt",
    "lxc": "LXC",
    "microsoft": "Hyper-V",
    "nutanix": "Nutanix",
    "openstack": "OpenStack",
    "oracle": "VirtualBox",
    "ovirt": "oVirt",
    "parallels": "Parallels",
    "podman": "Podman",
    "proxmox": "Proxmox",
    "qemu": "QEMU",
    "virtualbox": "VirtualBox",
    "vm-other": _UNRECOGNISED,
    "vmware": "VMware",
    "wsl": "WSL2",
    "xen": "Xen",
}
"""Hypervisors, platforms and container engines as their makers write them."""

_QUOTED = ("DMI", "CPUID 0x", "/sys/hypervisor/type", "/proc/device-tree", "/run/systemd/container")
"""Sources whose values are names, and would read like a part of the sentence."""

_NO_REMEDY = Remedy(text="Nothing to change", action=Action.NONE)


def _judge_guest(seen: Seen) -> Iterator[Finding]:
    virt = seen.facts.virt
    if not virt.guest:
        return
    names = (_NAMES.get(name or "", name) for name in (virt.hypervisor, virt.platform))
    told = ", ".join(dict.fromkeys(name for name in names if name)) or _UNRECOGNISED
    emulation = " by full emulation" if virt.emulated else ""
    yield Finding(
        id="virt.guest",
        severity=Severity.INFO,
        subject="node",
        summary=f"This is a virtual machine ({told}){emulation}",
        evidence=_evidence(virt.guest_evidence, "no trace of a hypervisor on bare metal"),
        impact=(
            "CPU type, topology, cache sizes and PCIe ports are what the hypervisor tells; "
            "neighbours share DRAM bandwidth unseen, even at 0 % steal"
        ),
        remedy=_NO_REMEDY,
        owner=Owner.HYPERVISOR,
    )


def _judge_container(seen: Seen) -> Iterator[Finding]:
    virt = seen.facts.virt
    if virt.container is None:
        return
    lxcfs = any("lxcfs" in item for item in virt.container_evidence)
    memory = (
        "/proc/meminfo is the container's already (lxcfs): its limit counts once"
        if lxcfs
        else "/proc/meminfo and the CPU count are the node's; the limits are the cgroup's"
    )
    yield Finding(
        id="virt.container",
        severity=Severity.INFO,
        subject="node",
        summary=f"This process runs in a container{_kind(virt.container)}",
        evidence=_evidence(virt.container_evidence, "no trace of a container on the node itself"),
        impact=f"{memory}. CPU flags are those of the node or its virtual machine",
        remedy=_NO_REMEDY,
        owner=Owner.OPERATOR,
    )


def _kind(container: str) -> str:
    """The engine's name in brackets, nothing where only its traces were seen."""
    return "" if container == "container" else f" ({_NAMES.get(container, container)})"


def _evidence(items: Iterable[str], expected: str) -> tuple[Evidence, ...]:
    """Facts in the form `source: value` as evidence."""
    pairs = [item.partition(": ") for item in items]
    return tuple(
        Evidence(
            value=f'"{value}"' if source.startswith(_QUOTED) and value else value or source,
            source=source,
            expected=expected,
            basis="systemd-detect-virt",
        )
        for source, _, value in pairs
    )


RULES: tuple[Rule, ...] = (
    Rule("virt.guest", "The node is a virtual machine", _judge_guest),
    Rule("virt.container", "nodecheck runs inside a container", _judge_container),
)
