"""How findings call a card, whose it is, and how its node is started anew. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Remedy

NVIDIA, AMD, INTEL = "nvidia", "amd", "intel"
_MAKERS = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel"}
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
    return _MAKERS.get(gpu.vendor or "", "")


def label(gpu: Gpu) -> str:
    """`GPU 1 (NVIDIA L40, 0000:02:00.0)`, with what of it is known."""
    about = [text for text in (gpu.name or maker_of(gpu), gpu.pci_address) if text]
    number = "GPU" if gpu.index is None else f"GPU {gpu.index}"
    return f"{number} ({', '.join(about)})" if about else number


def labels(gpus: Iterable[Gpu]) -> str:
    """The cards that a finding speaks of."""
    return ", ".join(label(gpu) for gpu in gpus)


def selector(gpus: Iterable[Gpu]) -> str:
    """What stands behind `nvidia-smi -i` for these cards."""
    names = [gpu.pci_address or ("" if gpu.index is None else str(gpu.index)) for gpu in gpus]
    return ",".join(name for name in names if name) or "<index>"


def is_ours(gpu: Gpu, seen: Seen) -> bool:
    """Whether the card was given to this process: not another container's, job's or guest's."""
    absent = gpu.device_file is False and seen.facts.virt.container is not None
    return gpu.granted is not False and not absent


def ours(seen: Seen) -> list[Gpu]:
    """The cards that this process was given."""
    return [gpu for gpu in seen.facts.gpus if is_ours(gpu, seen)]


def from_driver(gpu: Gpu) -> str:
    """Where the driver's figures of a card were read."""
    return "NVML" if "nvml" in gpu.seen_by else "nvidia-smi"


def evidence(
    gpu: Gpu, value: str, expected: str | None = None, basis: str | None = None
) -> Evidence:
    """A figure that the driver gave for a card."""
    return Evidence(
        value=f"{label(gpu)}: {value}", source=from_driver(gpu), expected=expected, basis=basis
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


def reset(gpus: Iterable[Gpu], text: str, cost: str = "Work on the card ends; seconds") -> Remedy:
    """Reset cards after their work has been moved away."""
    return Remedy(
        text=text,
        action=Action.RESET_GPU,
        commands=(f"sudo nvidia-smi --gpu-reset -i {selector(gpus)}",),
        cost=cost,
    )
