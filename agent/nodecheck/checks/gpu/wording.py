"""How findings call a card, whose it is, and how its node is started anew. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodecheck.checks.gpu.facts import MAKERS, Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Remedy

NVIDIA, AMD, INTEL = "nvidia", "amd", "intel"
FOREIGN_DRIVERS = ("vfio-pci", "pci-stub", "xen-pciback")
"""Drivers that keep a card for a guest."""

AMPERE = 8
"""Major number of the compute capability from which cards with NVLink are reset one by one."""

_SOURCES = {"nvml": "NVML", "nvidia-smi": "nvidia-smi", "sysfs": "sysfs", "amd-smi": "amd-smi"}
"""How a driver's own sources are called, the one that counts first."""

_ADDRESS = re.compile(r"\b(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?\b")

_RESTART = {
    "proxmox": ("qm stop <VMID> && qm start <VMID>  # Proxmox, on its host",),
    "libvirt": ("virsh destroy <domain> && virsh start <domain>  # libvirt, on its host",),
    "hyperv": ("Stop-VM <name>; Start-VM <name>  # PowerShell, on the Hyper-V host",),
    "vmware": ("govc vm.power -off <name> && govc vm.power -on <name>  # VMware",),
    "ec2": (
        "aws ec2 stop-instances --instance-ids <id>",
        "aws ec2 start-instances --instance-ids <id>",
    ),
    "gce": ("gcloud compute instances stop <name>", "gcloud compute instances start <name>"),
    "azure": ("az vm deallocate -g <group> -n <name>", "az vm start -g <group> -n <name>"),
    "openstack": ("openstack server stop <id> && openstack server start <id>  # OpenStack",),
    "kubevirt": ("virtctl stop <name> && virtctl start <name>  # KubeVirt, on the cluster",),
}


def card_key(address: str | None) -> str | None:
    """An address without its function and in one spelling, to compare what two sources name."""
    match = _ADDRESS.search((address or "").lower())
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}" if match else None


def maker_of(gpu: Gpu) -> str:
    """The maker's name, "" for one without a row."""
    return MAKERS.get(gpu.vendor or "", "")


def labels(gpus: Iterable[Gpu]) -> str:
    """The cards that a finding speaks of."""
    return ", ".join(gpu.label for gpu in gpus)


def selector(gpus: Iterable[Gpu]) -> str:
    """What stands behind `nvidia-smi -i` for these cards."""
    names = [gpu.pci_address or ("" if gpu.index is None else str(gpu.index)) for gpu in gpus]
    return ",".join(name for name in names if name) or "<index>"


def is_ours(gpu: Gpu, seen: Seen) -> bool:
    """Whether the card was given to this process: not another container's, job's or guest's."""
    return seen.facts.grants(gpu)


def ours(seen: Seen) -> list[Gpu]:
    """The cards that this process was given."""
    return [gpu for gpu in seen.facts.gpus if is_ours(gpu, seen)]


def foreign_keys(seen: Seen) -> set[str | None]:
    """The cards that this process was not given, by their key: their faults are others'."""
    return {card_key(gpu.pci_address) for gpu in seen.facts.gpus if not is_ours(gpu, seen)} - {None}


def nvidias(gpus: Iterable[Gpu]) -> list[Gpu]:
    """Cards of NVIDIA, or of a vendor that no source names: then its driver told of them."""
    return [gpu for gpu in gpus if gpu.vendor in (NVIDIA, None)]


def from_driver(gpu: Gpu) -> str:
    """Where the driver's figures of a card were read."""
    return next((name for source, name in _SOURCES.items() if source in gpu.seen_by), "nvidia-smi")


def is_told(gpu: Gpu) -> bool:
    """Whether the card's driver said anything of it: PCI and /proc know cards without it."""
    return not _SOURCES.keys().isdisjoint(gpu.seen_by)


def evidence(
    gpu: Gpu, value: str, expected: str | None = None, basis: str | None = None
) -> Evidence:
    """A figure that the driver gave for a card."""
    return Evidence(
        value=f"{gpu.label}: {value}", source=from_driver(gpu), expected=expected, basis=basis
    )


def power_cycle(seen: Seen, text: str, cost: str) -> Remedy:
    """Start the node anew, a guest as a whole: a reboot inside leaves the card powered."""
    virt = seen.facts.virt
    if not virt.guest:
        return Remedy(text=text, action=Action.REBOOT, commands=("sudo reboot",), cost=cost)
    return Remedy(
        text=f"{text}. In a guest: stop and start the whole virtual machine; power, seating and "
        "temperature are the host's to check",
        action=Action.COLD_RESTART,
        commands=_RESTART.get(virt.platform or "", ()),
        cost=cost,
    )


def reset(
    gpus: Iterable[Gpu], seen: Seen, text: str, cost: str = "Work on the card ends; seconds"
) -> Remedy:
    """Reset cards after their work has been moved away, and what that takes on this node."""
    cards = list(gpus)
    virt = seen.facts.virt
    restart = _RESTART.get(virt.platform or "", ()) if virt.guest else ()
    return Remedy(
        text=". ".join((text, *_reset_notes(cards, seen))),
        action=Action.RESET_GPU,
        commands=(*_reset_commands(cards, seen), *restart),
        cost=cost,
    )


def _reset_notes(cards: list[Gpu], seen: Seen) -> Iterable[str]:
    """What else has to be done, by the manual of nvidia-smi (--gpu-reset)."""
    daemon = ", nvidia-persistenced" if nvidias(cards) else ""
    yield f"First stop what uses it: programs, monitoring, a display{daemon}"
    if _together(cards, seen):
        yield "All cards that NVLink connects are reset in one command"
    elif seen.facts.gpu.nvswitches and any(_generation(gpu) == AMPERE for gpu in cards):
        yield "The fabric manager has to run for it"
    if any(gpu.mig for gpu in cards):
        yield "The work of all MIG instances on it ends"
    if seen.facts.virt.container is not None:
        yield "It is done on the host, not in the container"
    if seen.facts.virt.guest:
        yield "Where the guest may not reset it, stop and start the whole virtual machine"


def _together(cards: list[Gpu], seen: Seen) -> bool:
    """Before Ampere, or without a fabric manager on a system with switches, peers go along."""
    linked = [gpu for gpu in cards if any(link.active for link in gpu.nvlinks or ())]
    old = any((number := _generation(gpu)) is not None and number < AMPERE for gpu in linked)
    facts = seen.facts.gpu
    return old or bool(linked and facts.nvswitches and facts.fabric_manager is False)


def _generation(gpu: Gpu) -> int | None:
    """The major number of the compute capability."""
    major = (gpu.compute_capability or "").partition(".")[0]
    return int(major) if major.isascii() and major.isdigit() else None


def _reset_commands(cards: list[Gpu], seen: Seen) -> Iterable[str]:
    nvidia = nvidias(cards)
    if nvidia and _together(nvidia, seen):
        nvidia = [g for g in ours(seen) if any(link.active for link in g.nvlinks or ())]
    if nvidia:
        yield f"sudo nvidia-smi --gpu-reset -i {selector(nvidia)}"
    for gpu in cards:
        if gpu.vendor == AMD:
            yield f"sudo amd-smi reset --gpureset --gpu {selector([gpu])}"
        elif gpu.vendor == INTEL:
            yield f"echo 1 | sudo tee /sys/bus/pci/devices/{selector([gpu])}/reset"
