"""What to change where vector instructions are missing, in the words of each platform."""

from __future__ import annotations

from nodecheck.checks.cpu.libraries import NUMPY
from nodecheck.checks.cpu.masking import Cause, Diagnosis
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Action, Remedy, Struct

_COLD = "One cold stop and start (a reboot inside the guest keeps the old CPU type)"
_MIGRATION = "live migration only between hosts with the same CPU"
_WINDOWS = "Windows guests may be slower with it: x86-64-v3 there, if the host has AVX2"


class _Words(Struct, frozen=True):
    """What an operator of one platform does."""

    text: str
    commands: tuple[str, ...] = ()
    cost: str = f"{_COLD}; {_MIGRATION}"


_PROXMOX = (
    "qm set <VMID> --cpu host  # Proxmox, on its host",
    "qm shutdown <VMID> && qm start <VMID>  # Proxmox, on its host",
)
_LIBVIRT = (
    "virt-xml <VM> --edit --cpu host-passthrough  # libvirt, on its host",
    "virsh shutdown <VM> && virsh start <VM>  # libvirt, on its host",
)
_OPENSTACK = (
    "openstack flavor set <FLAVOR> --property trait:HW_CPU_X86_AVX2=required  # OpenStack",
    "openstack server stop <SERVER> && openstack server start <SERVER>  # OpenStack",
)

_WORDS = {
    "proxmox": _Words(
        "Set the VM's CPU type to host, or to the newest named type that all hosts of the cluster "
        "share, then stop and start the VM",
        _PROXMOX,
        f"{_COLD}; {_MIGRATION}; {_WINDOWS}",
    ),
    "libvirt": _Words(
        "Use the CPU mode host-passthrough (host-model where the VM must migrate), then stop and "
        "start the VM",
        _LIBVIRT,
        f"{_COLD}; {_MIGRATION}; {_WINDOWS}",
    ),
    "vmware": _Words(
        "Raise or disable EVC (Enhanced vMotion Compatibility, which levels the CPUs of a cluster) "
        "on the cluster, or on the VM (vSphere 6.7, hardware version 14 or newer): the baseline "
        "Haswell gives AVX2, Skylake AVX-512, Sandy Bridge only AVX. Upgrade an old virtual "
        "hardware version too. Then power the VM off and on; do not use CPU masks",
        (),
        "One power cycle of every VM that is to get it (a reboot or suspend keeps the old CPU); "
        "vMotion only to hosts that have the new baseline",
    ),
    "hyperv": _Words(
        "Switch processor compatibility off for the VM; it is meant for migrations only. On Azure, "
        "where that cannot be set, take another VM size",
        (
            "Stop-VM <VM>  # PowerShell, on the Hyper-V host",
            "Set-VMProcessor -VMName <VM> -CompatibilityForMigrationEnabled $false  # the same",
            "Start-VM <VM>  # the same",
        ),
    ),
    "azure": _Words("Take another VM size: the series decides the CPU", (), "A resize restarts it"),
    "wsl": _Words(
        "WSL2 shows the flags of Windows' own hypervisor: look whether Windows itself runs in a "
        "virtual machine, and raise the CPU type there",
    ),
    "xen": _Words(
        "The pool levels its CPUs to what all hosts share: move the VM to a pool of equal, newer "
        "hosts, then shut it down and start it",
        ("xe vm-shutdown vm=<VM>  # on the pool", "xe vm-start vm=<VM>  # on the pool"),
    ),
    "openstack": _Words(
        "Operator: set cpu_mode = host-passthrough (or a newer cpu_models list) in [libvirt] of "
        "nova.conf. User: take a flavor that asks for the trait. A soft reboot does not change it",
        _OPENSTACK,
        f"{_COLD}; {_MIGRATION} (host aggregates)",
    ),
    "kubevirt": _Words(
        "Set spec.template.spec.domain.cpu.model to host-passthrough, or raise cpuModel in the "
        "KubeVirt resource, then restart the VM",
        (
            "virtctl restart <VM>  # KubeVirt, on the cluster",
            "kubectl get vmi <VM> -o yaml  # KubeVirt, on the cluster",
        ),
        f"{_COLD}; the VM is tied to nodes with the same CPU",
    ),
    "ovirt": _Words(
        "Raise the CPU type of the cluster, or tick Pass-Through Host CPU for the VM, then shut "
        "it down and start it",
        cost=f"{_COLD}; a VM with pass-through cannot migrate",
    ),
    "nutanix": _Words(
        "AHV shows the lowest CPU of the cluster: pass the host's CPU through while the VM is off",
        ("acli vm.update <VM> cpu_passthrough=true  # Nutanix, on a controller VM",),
        f"{_COLD}; no live migration",
    ),
    "cloudstack": _Words(
        "Set guest.cpu.mode=host-passthrough in the agent.properties of the hosts, restart the "
        "agent, then stop and start the VM",
    ),
    "virtualbox": _Words(
        "While Hyper-V is active on a Windows host, guests of VirtualBox before 7.2 get no AVX: "
        "take the newest 7.2.x, or turn Hyper-V off on the host, then power the VM off and on",
        cost=f"{_COLD}; without Hyper-V, WSL2 and the like do not run",
    ),
    "firecracker": _Words(
        "The CPU template of the microVM hides them (T2 is the lowest common Intel CPU): ask for "
        "an instance or a template without that mask",
        cost="A new microVM",
    ),
    "gce": _Words(
        'Set a newer minimum CPU platform ("Intel Ice Lake", ...) while the instance is stopped, '
        "or take another machine series",
        (
            "gcloud compute instances stop <NAME>",
            "gcloud compute instances set-min-cpu-platform <NAME> --min-cpu-platform=<PLATFORM>",
            "gcloud compute instances start <NAME>",
        ),
        "One stop and start; limits zones and machine series",
    ),
    "ec2": _Words(
        "Take another instance type: the family decides the CPU", (), "One stop and start"
    ),
}

_ANY_QEMU = _Words(
    "Give the VM the CPU type host (or the newest type that all hosts of the cluster share), then "
    "stop and start it. Each command names the platform that it is for",
    (*_PROXMOX, *_LIBVIRT, *_OPENSTACK),
    f"{_COLD}; {_MIGRATION}; {_WINDOWS}",
)
_ANY_CLOUD = _Words(
    "Nothing can be switched inside: take another instance type, or ask the provider for one that "
    "shows the host's CPU",
    cost="A resize or a new instance",
)
_UNKNOWN = _Words(
    "Have whoever runs the hypervisor give this guest the host's CPU type, then stop and start it",
)
_EMULATED = _Words(
    "This is full emulation (TCG), which no CPU type makes fast: run with hardware virtualization "
    "and the host's CPU",
    ("qemu-system-x86_64 -accel kvm -cpu host ...",),
    "One cold stop and start; the host must offer /dev/kvm",
)

_CLOUDS = frozenset(
    (
        "alibaba",
        "tencent",
        "oci",
        "digitalocean",
        "hetzner",
        "vultr",
        "scaleway",
        "linode",
        "upcloud",
        "exoscale",
    )
)

_BY_HYPERVISOR = {
    "vmware": "vmware",
    "microsoft": "hyperv",
    "xen": "xen",
    "oracle": "virtualbox",
    "amazon": "ec2",
    "google": "gce",
}


def unmask(virt: VirtFacts, hypervisor: str | None, gives: str) -> Remedy:
    """What shows the guest the silicon's instructions; `gives` says what these are."""
    words = _words(virt, virt.hypervisor or hypervisor)
    where = ". The change is the virtual machine's, not this container's" if virt.container else ""
    return Remedy(
        text=f"{words.text}. {gives}{where}",
        action=Action.RECONFIGURE_VM,
        commands=words.commands,
        cost=words.cost,
    )


def _words(virt: VirtFacts, hypervisor: str | None) -> _Words:
    if virt.emulated:
        return _EMULATED
    platform = virt.platform or _BY_HYPERVISOR.get(hypervisor or "")
    if platform in _CLOUDS:
        return _ANY_CLOUD
    if platform in _WORDS:
        return _WORDS[platform]
    # a hidden hypervisor and a generic type are QEMU's as well
    return _ANY_QEMU if hypervisor in {None, "kvm", "qemu", "bochs", "vm-other"} else _UNKNOWN


def without_vectors(found: Diagnosis, *, guest: bool, on_arm: bool) -> Remedy:
    """What helps where no hypervisor hides anything; `on_arm` is x86 emulated on Arm."""
    if found.cause is Cause.XSAVE_OFF and not found.switches:
        return _show_xsave(guest=guest)
    if found.cause is not Cause.SILICON:
        return _switch_back(found)
    builds = "AVX2" if found.has_avx else "AVX"
    native = "Run a native Arm build instead of emulated x86. " if on_arm else ""
    return Remedy(
        text=(
            f"{native}Use builds without {builds} (llama.cpp with all CPU variants picks its own), "
            "keep all weights on the GPUs, or move to newer hardware; no VM setting can help"
        ),
        action=Action.REPLACE,
        commands=("pip install 'numpy<2.4'",) if NUMPY.needs - found.flags else (),
        cost="Other hardware, or the slower path",
    )


def _show_xsave(*, guest: bool) -> Remedy:
    if guest:
        return Remedy(
            text=(
                "Ask whoever runs the hypervisor to show XSAVE to this guest, then stop and start "
                "it; look for noxsave on the command line too"
            ),
            action=Action.RECONFIGURE_VM,
            commands=("grep -o noxsave /proc/cmdline", "grep -ow -m1 xsave /proc/cpuinfo"),
            cost=_COLD,
        )
    return Remedy(
        text="Remove noxsave from the kernel's command line, or the like in the firmware; reboot",
        action=Action.REBOOT,
        commands=("grep -o noxsave /proc/cmdline", "grep -ow -m1 xsave /proc/cpuinfo"),
        cost="One reboot",
    )


def _switch_back(found: Diagnosis) -> Remedy:
    options = [item.value for item in found.switches if item.source == "/proc/cmdline"]
    if options:
        text = f"Remove {' '.join(options)} from the kernel's command line, then reboot"
    elif any("AVX disabled" in item.value for item in found.switches):
        text = (
            "Update the CPU microcode and drop gather_data_sampling=force, then reboot; until then "
            "programs that look at CPUID alone die with SIGILL"
        )
    else:
        text = (
            "Look for clearcpuid= or noxsave on the command line, for a microcode mitigation and "
            "for an AVX switch in the firmware; then reboot"
        )
    return Remedy(
        text=text,
        action=Action.REBOOT,
        commands=(
            "cat /proc/cmdline",
            "cat /sys/devices/system/cpu/vulnerabilities/gather_data_sampling",
        ),
        cost="One reboot",
    )
