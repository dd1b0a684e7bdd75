"""Judges whether the NVIDIA driver answers, and with what."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.presence_rules import lost_cards
from nodecheck.checks.gpu.wording import NVIDIA, label, labels, ours, selector
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count

NO_DEVICES = "No devices were found"
_LOG_LINES = 3


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
        summary="The NVIDIA driver does not answer",
        evidence=(
            Evidence(
                value=facts.message or "no answer",
                source=facts.source or "NVML",
                expected="an answer within the deadline",
                basis="a healthy driver answers in milliseconds, after a cold start in seconds",
            ),
        ),
        impact="An engine that opens the GPU is likely to hang too; nothing else of "
        f"{count(len(cards), 'card')} could be checked",
        remedy=Remedy(
            text="Drain the node and read the driver's log. A reset may help; if a process hangs "
            "in the "
            "kernel only a reboot ends it. The cause is not known from here",
            action=Action.REBOOT,
            commands=(
                "sudo dmesg | grep -E 'NVRM|Xid'",
                f"sudo nvidia-smi --gpu-reset -i {selector(cards)}",
            ),
            cost="All work on the node ends",
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
                value=f"kernel module {facts.driver_version or 'unknown'}, library "
                f"{facts.library_version or 'unknown'} "
                f"({facts.message or 'Driver/library version mismatch'})",
                source=facts.source or "nvidia-smi",
                expected="the same version",
                basis="the library was updated and the old module is still loaded",
            ),
        ),
        impact="No program can open any GPU until they agree; those that run go on",
        remedy=_mismatch_remedy(seen),
        owner=Owner.OPERATOR,
    )


def _mismatch_remedy(seen: Seen) -> Remedy:
    if seen.facts.virt.container is not None:
        return Remedy(
            text="Restart the container after the host has loaded the driver that its library "
            "belongs "
            "to; the libraries are mounted at its start",
            action=Action.RESTART_CONTAINER,
            cost="Work in the container ends",
        )
    return Remedy(
        text="Stop what uses the GPUs and load the new module, or reboot. Hold the driver "
        "packages back "
        "from unattended upgrades",
        action=Action.RELOAD_DRIVER,
        commands=(
            "sudo fuser -v /dev/nvidia*",
            "sudo modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia && sudo modprobe nvidia",
            "sudo apt-mark hold 'nvidia-*' 'libnvidia-*'",
        ),
        cost="Work on the GPUs ends; a reboot where the module cannot be unloaded",
    )


def _container_lost(seen: Seen) -> bool:
    facts = seen.facts.gpu
    unknown = facts.state == "failed" and "Unknown Error" in (facts.message or "")
    return facts.state == "lost_devices" or (unknown and seen.facts.virt.container is not None)


def _container(seen: Seen) -> str:
    kind = seen.facts.virt.container
    return "container" if kind in (None, "container") else f"container ({kind})"


def judge_container_lost_devices(seen: Seen) -> Iterator[Finding]:
    """A running container from which the device cgroup took its GPUs."""
    facts = seen.facts.gpu
    if not _container_lost(seen) or lost_cards(seen):
        return
    yield Finding(
        id="gpu.container_lost_devices",
        severity=Severity.CRITICAL,
        subject=_container(seen),
        summary="The container has lost access to its GPUs",
        evidence=(
            Evidence(
                value=facts.message or "Failed to initialize NVML: Unknown Error",
                source=facts.source or "nvidia-smi",
                expected="an answer of the driver",
                basis="inside a container this error follows a reload of the host's service "
                "manager",
            ),
        ),
        impact="No GPU in this container until it is started anew; the cards themselves are fine",
        remedy=Remedy(
            text="Restart the container. To keep it from coming back give the devices by CDI or "
            "by name "
            "rather than through the runtime's hook",
            action=Action.RESTART_CONTAINER,
            commands=(
                "docker restart <container>",
                "docker run --device nvidia.com/gpu=all ...",
            ),
            cost="Work in the container ends",
        ),
        owner=Owner.OPERATOR,
    )


def judge_nvml_failed(seen: Seen) -> Iterator[Finding]:
    """Any other refusal of the driver, as a whole or for a card."""
    facts = seen.facts.gpu
    cards = [gpu for gpu in ours(seen) if gpu.vendor == NVIDIA]
    refused = [gpu for gpu in cards if gpu.error is not None and not gpu.lost]
    evidence = [
        Evidence(value=f"{label(gpu)}: {gpu.error}", source=facts.source or "nvml")
        for gpu in refused
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
    log = seen.facts.kernel_log
    evidence += [
        Evidence(value=line[:200], source=log.source or "kernel log")
        for line in log.driver_errors[-_LOG_LINES:]
    ]
    yield Finding(
        id="gpu.nvml_failed",
        severity=Severity.CRITICAL,
        subject=labels(refused or cards) or "NVIDIA driver",
        summary="The NVIDIA driver refuses to work",
        evidence=tuple(evidence),
        impact=f"{count(len(refused or cards), 'card')} not usable as it is"
        if cards
        else "No GPU can be used as it is",
        remedy=Remedy(
            text="Read the driver's log for the cause; then reset the card or reload the driver. "
            "Insufficient External Power means power cables, an infoROM error the vendor",
            action=Action.RELOAD_DRIVER,
            commands=("sudo dmesg | grep -E 'NVRM|Xid'", "nvidia-smi -q"),
            cost="Work on the GPUs ends",
        ),
        owner=Owner.OPERATOR,
    )


def _failed(seen: Seen, cards: list[Gpu]) -> bool:
    facts = seen.facts.gpu
    if facts.state != "failed" or facts.denied_device is not None or _container_lost(seen):
        return False
    message = facts.message or ""
    return bool(cards) or ("NVML" in message and NO_DEVICES not in message)
