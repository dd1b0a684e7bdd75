"""Judges whether the cards are there and the driver answers: the cause, not what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu import xid
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import (
    NVIDIA,
    card_key,
    is_ours,
    label,
    labels,
    ours,
    power_cycle,
    selector,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count

NO_DEVICES = "No devices were found"
_INSTALL = {
    "text": "Load the NVIDIA driver, or install the one that fits this kernel and card.",
    "commands": ("modprobe nvidia", "dmesg | grep -iE 'nvidia|nouveau|NVRM'", "mokutil --sb-state"),
}


def lost_cards(seen: Seen) -> dict[str, list[Evidence]]:
    """Cards that no longer answer on the bus: their key (or `?`) -> what shows it."""
    found: dict[str, list[Evidence]] = {}
    foreign = {card_key(gpu.pci_address) for gpu in seen.facts.gpus if not is_ours(gpu, seen)}

    def add(key: str | None, value: str, source: str) -> None:
        if key is None and found:  # a line without an address tells of a card that others name
            key = next(iter(found))
        if key is None or key not in foreign:
            found.setdefault(key or "?", []).append(
                Evidence(value=value, source=source, expected="the card answers")
            )

    for gpu in seen.facts.gpus:
        if gpu.lost:
            add(card_key(gpu.pci_address), f"{label(gpu)}: GPU is lost", seen.facts.gpu.source or "driver")
    for name in seen.facts.gpu.lost:
        if card_key(name) not in found:
            add(card_key(name), f"{name}: no device handle", seen.facts.gpu.source or "nvidia-smi")
    log = seen.facts.kernel_log
    for event in log.xids:
        if event.code == xid.FALLEN_OFF and not event.recovered:
            add(card_key(event.pci_address), f"Xid 79: {event.text}"[:200], log.source or "kernel log")
    for address in log.gpus_lost:
        if card_key(address) is None or card_key(address) not in found:
            add(card_key(address), f"{address}: fallen off the bus", log.source or "kernel log")
    for path in seen.facts.pcie.paths:
        if path.hops and path.hops[0].gone:
            value = f"{path.accelerator}: configuration space reads all ones (link width 63)"
            add(card_key(path.accelerator), value, seen.facts.pcie.source or "sysfs")
    return found


def judge_lost(seen: Seen) -> Iterator[Finding]:
    """Cards that fell off the bus."""
    found = lost_cards(seen)
    if not found:
        return
    known = {card_key(gpu.pci_address): label(gpu) for gpu in seen.facts.gpus}
    names = [known.get(key, key if key != "?" else "a GPU") for key in found]
    yield Finding(
        id="gpu.lost",
        severity=Severity.CRITICAL,
        subject=", ".join(names),
        summary=f"{count(len(found), 'GPU')} fell off the bus",
        evidence=tuple(piece for pieces in found.values() for piece in pieces),
        impact=f"{count(len(found), 'GPU')} of this node cannot be used, and engines that hold one hang "
        "or fail; the driver may block other programs until a restart",
        remedy=power_cycle(
            seen,
            "Drain and restart the node. Before it serves again check the card's power cables, seating, "
            "riser and temperature: a card falls off again where these are the cause.",
            "all work on the node ends",
        ),
        owner=Owner.HARDWARE,
    )


def judge_driver_missing(seen: Seen) -> Iterator[Finding]:
    """NVIDIA cards on PCI and no driver that answers."""
    facts = seen.facts.gpu
    cards = [gpu for gpu in ours(seen) if gpu.vendor == NVIDIA and "pci" in gpu.seen_by]
    if facts.state != "missing" or not cards or lost_cards(seen):
        return
    bound = sorted({gpu.driver for gpu in cards if gpu.driver})
    evidence = [
        Evidence(
            value=facts.message or "no driver",
            source=facts.source or "nvidia-smi",
            expected="an answer of the driver",
            basis=f"{count(len(cards), 'NVIDIA card')} on PCI",
        )
    ]
    evidence += [Evidence(value=f"bound to {name}", source="sysfs driver link") for name in bound]
    yield Finding(
        id="gpu.driver_missing",
        severity=Severity.CRITICAL,
        subject=labels(cards),
        summary=f"{count(len(cards), 'NVIDIA card')} on PCI, but the driver is not there",
        evidence=tuple(evidence),
        impact=f"{count(len(cards), 'card')} idle: an engine runs on the CPU or does not start",
        remedy=Remedy(
            text=f"{_INSTALL['text']} Secure Boot refuses unsigned modules; nouveau must not hold the card.",
            action=Action.RELOAD_DRIVER,
            commands=tuple(_INSTALL["commands"]),
            cost="a reboot where another driver holds the card",
        ),
        owner=Owner.OPERATOR,
    )


def judge_not_granted(seen: Seen) -> Iterator[Finding]:
    """Cards that PCI shows here and that belong to another container, job or guest."""
    cards = [gpu for gpu in seen.facts.gpus if not is_ours(gpu, seen)]
    if not cards:
        return
    yield Finding(
        id="gpu.not_granted",
        severity=Severity.INFO,
        subject=labels(cards),
        summary=f"{count(len(cards), 'accelerator')} on PCI not given to this process",
        evidence=tuple(_refusal(gpu) for gpu in cards),
        impact=f"none: {count(len(cards), 'card')} of another container, job or guest",
        remedy=Remedy(text="None, unless the card was meant for this one.", action=Action.NONE),
        owner=Owner.OPERATOR,
    )


def _refusal(gpu: Gpu) -> Evidence:
    if gpu.device_file is False:
        return Evidence(value=f"{label(gpu)}: no device file", source="/dev")
    if gpu.device_file:
        return Evidence(value=f"{label(gpu)}: opening it is refused (EPERM)", source="/dev")
    return Evidence(value=f"{label(gpu)}: bound to {gpu.driver}", source="PCI driver link")


def judge_device_denied(seen: Seen) -> Iterator[Finding]:
    """Cards whose files this user may not open, where there is no other card."""
    denied = seen.facts.gpu.denied_device
    if denied is None or any(gpu.granted for gpu in seen.facts.gpus):
        return
    group = "video" if "nvidia" in denied else "render"
    yield Finding(
        id="gpu.device_denied",
        severity=Severity.CRITICAL,
        subject=denied,
        summary=f"this user may not open {denied}, and there is no other accelerator",
        evidence=(
            Evidence(
                value="Permission denied",
                source=denied,
                expected="read and write for this user",
                basis="file permissions; root is not refused",
            ),
        ),
        impact="engines fall back to the CPU in silence",
        remedy=Remedy(
            text="Add the user to the group that owns the device file and start a new session.",
            action=Action.CHANGE_SETTING,
            commands=(f"stat -c '%A %G' {denied}", f"usermod -aG {group} <user>"),
            cost="a new login session",
        ),
        owner=Owner.OPERATOR,
    )


def judge_unresponsive(seen: Seen) -> Iterator[Finding]:
    """A driver that does not answer; why is not claimed."""
    facts = seen.facts.gpu
    cards = [gpu for gpu in ours(seen) if gpu.vendor == NVIDIA]
    if facts.state != "unresponsive" or not (cards or facts.driver_version) or lost_cards(seen):
        return
    yield Finding(
        id="gpu.unresponsive",
        severity=Severity.CRITICAL,
        subject=labels(cards) or "NVIDIA driver",
        summary="the NVIDIA driver does not answer",
        evidence=(
            Evidence(
                value=facts.message or "no answer",
                source=facts.source or "NVML",
                expected="an answer within the deadline",
                basis="a healthy driver answers in milliseconds, after a cold start in seconds",
            ),
        ),
        impact="an engine that opens the GPU is likely to hang too; nothing else of "
        f"{count(len(cards), 'card')} could be checked",
        remedy=Remedy(
            text="Drain the node and read the driver's log. A reset may help; if a process hangs in the "
            "kernel only a reboot ends it. The cause is not known from here.",
            action=Action.REBOOT,
            commands=("dmesg | grep -E 'NVRM|Xid'", f"nvidia-smi --gpu-reset -i {selector(cards)}"),
            cost="all work on the node ends",
        ),
        owner=Owner.OPERATOR,
    )


def judge_driver_mismatch(seen: Seen) -> Iterator[Finding]:
    """A library that was updated under a loaded module."""
    facts = seen.facts.gpu
    if facts.state != "mismatch":
        return
    yield Finding(
        id="gpu.driver_mismatch",
        severity=Severity.CRITICAL,
        subject="NVIDIA driver",
        summary="NVIDIA library and kernel module are of different versions",
        evidence=(
            Evidence(
                value=facts.message or "Driver/library version mismatch",
                source=facts.source or "nvidia-smi",
                expected=f"module {facts.driver_version or '?'} = library {facts.library_version or '?'}",
                basis="the library was updated and the old module is still loaded",
            ),
        ),
        impact="no program can open any GPU until they agree; those that run go on",
        remedy=_mismatch_remedy(seen),
        owner=Owner.OPERATOR,
    )


def _mismatch_remedy(seen: Seen) -> Remedy:
    if seen.facts.virt.container is not None:
        return Remedy(
            text="Restart the container after the host has loaded the driver that its library belongs "
            "to; the libraries are mounted at its start.",
            action=Action.RESTART_CONTAINER,
            cost="work in the container ends",
        )
    return Remedy(
        text="Stop what uses the GPUs and load the new module, or reboot. Hold the driver packages back "
        "from unattended upgrades.",
        action=Action.RELOAD_DRIVER,
        commands=(
            "fuser -v /dev/nvidia*",
            "modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia && modprobe nvidia",
            "apt-mark hold 'nvidia-*' 'libnvidia-*'",
        ),
        cost="work on the GPUs ends; a reboot where the module cannot be unloaded",
    )


def _container_lost(seen: Seen) -> bool:
    facts = seen.facts.gpu
    unknown = facts.state == "failed" and "Unknown Error" in (facts.message or "")
    return facts.state == "lost_devices" or (unknown and seen.facts.virt.container is not None)


def judge_container_lost_devices(seen: Seen) -> Iterator[Finding]:
    """A running container from which the device cgroup took its GPUs."""
    facts = seen.facts.gpu
    if not _container_lost(seen) or lost_cards(seen):
        return
    yield Finding(
        id="gpu.container_lost_devices",
        severity=Severity.CRITICAL,
        subject=f"container ({seen.facts.virt.container or 'kind not known'})",
        summary="the container has lost access to its GPUs",
        evidence=(
            Evidence(
                value=facts.message or "Failed to initialize NVML: Unknown Error",
                source=facts.source or "nvidia-smi",
                expected="an answer of the driver",
                basis="inside a container this error follows a reload of the host's service manager",
            ),
        ),
        impact="no GPU in this container until it is started anew; the cards themselves are fine",
        remedy=Remedy(
            text="Restart the container. To keep it from coming back give the devices by CDI or by name "
            "rather than through the runtime's hook.",
            action=Action.RESTART_CONTAINER,
            commands=(
                "docker restart <container>",
                "docker run --device nvidia.com/gpu=all ...",
            ),
            cost="work in the container ends",
        ),
        owner=Owner.OPERATOR,
    )


def judge_nvml_failed(seen: Seen) -> Iterator[Finding]:
    """Any other refusal of the driver, as a whole or for a card."""
    facts = seen.facts.gpu
    cards = [gpu for gpu in ours(seen) if gpu.vendor == NVIDIA]
    refused = [gpu for gpu in cards if gpu.error is not None and not gpu.lost]
    evidence = [
        Evidence(value=f"{label(gpu)}: {gpu.error}", source=facts.source or "nvml") for gpu in refused
    ]
    if _failed(seen, cards):
        evidence.insert(
            0,
            Evidence(
                value=facts.message or "failed",
                source=facts.source or "nvidia-smi",
                expected="an answer of the driver",
            ),
        )
    if not evidence or lost_cards(seen):
        return
    yield Finding(
        id="gpu.nvml_failed",
        severity=Severity.CRITICAL,
        subject=labels(refused or cards) or "NVIDIA driver",
        summary="the NVIDIA driver refuses to work",
        evidence=tuple(evidence),
        impact=f"{count(len(refused or cards), 'card')} not usable as it is"
        if cards
        else "no GPU can be used as it is",
        remedy=Remedy(
            text="Read the driver's log for the cause; then reset the card or reload the driver. "
            "Insufficient External Power means power cables, an infoROM error the vendor.",
            action=Action.RELOAD_DRIVER,
            commands=("dmesg | grep -E 'NVRM|Xid'", "nvidia-smi -q"),
            cost="work on the GPUs ends",
        ),
        owner=Owner.OPERATOR,
    )


def _failed(seen: Seen, cards: list[Gpu]) -> bool:
    facts = seen.facts.gpu
    if facts.state != "failed" or facts.denied_device is not None or _container_lost(seen):
        return False
    message = facts.message or ""
    return bool(cards) or ("NVML" in message and NO_DEVICES not in message)
