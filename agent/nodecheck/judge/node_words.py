"""A node in a few words: what was read of it, no more."""

from __future__ import annotations

from nodecheck.report import Report
from nodecheck.units import GIB, gib

HYPERVISORS = {
    "kvm": "KVM",
    "qemu": "QEMU",
    "amazon": "Amazon EC2",
    "google": "Google Cloud",
    "microsoft": "Hyper-V",
    "oracle": "VirtualBox",
    "vmware": "VMware",
    "xen": "Xen",
    "vm-other": "",
}


def node_words(report: Report) -> tuple[str, ...]:
    """Name, guest, CPUs, RAM, GPUs."""
    cpu, memory = report.facts.cpu, report.facts.memory
    name = report.host.name if report.host.name not in (None, "(none)", "localhost") else None
    cpus = (
        f"{cpu.logical_cpus} {'vCPU' if report.facts.virt.guest else 'CPUs'}"
        if cpu.logical_cpus
        else None
    )
    ram = f"{gib(memory.total_bytes)} RAM" if memory.total_bytes else None
    return tuple(part for part in (name, _guest(report), cpus, ram, *_gpus(report)) if part)


def _guest(report: Report) -> str | None:
    virt = report.facts.virt
    if not virt.guest:
        return "bare metal" if virt.guest is False and report.host.source == "live" else None
    kind = HYPERVISORS.get(virt.hypervisor or "", virt.hypervisor or "")
    machine = f" ({virt.machine_type})" if virt.machine_type else ""
    return f"{kind} guest{machine}".strip()


def _gpus(report: Report) -> list[str]:
    kinds: dict[str, int] = {}
    for gpu in report.facts.gpus:
        size = f" {round(gpu.memory_bytes / GIB):.0f} GiB" if gpu.memory_bytes else ""
        label = (gpu.name or gpu.vendor or "GPU") + size
        kinds[label] = kinds.get(label, 0) + 1
    return [f"{number}x {label}" for label, number in kinds.items()]
