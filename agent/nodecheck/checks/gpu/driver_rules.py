"""Judges whether the drivers answer, and with what."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu import memory
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.nvml_words import BAD_INFOROM, NEEDS_RESET, NO_POWER
from nodecheck.checks.gpu.presence_rules import lost_cards
from nodecheck.checks.gpu.wording import (
    AMD,
    INTEL,
    NVIDIA,
    card_key,
    labels,
    maker_of,
    ours,
    reset,
)
from nodecheck.checks.gpu.xid_rules import told_events
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, listed

NO_DEVICES = "No devices were found"
_LOG_LINES = 3
_READ_LOG = "sudo dmesg | grep -E 'NVRM|Xid'"
_READ_OTHERS_LOG = "sudo dmesg | grep -E 'amdgpu|i915|xe '"


def judge_unresponsive(seen: Seen) -> Iterator[Finding]:
    """A driver that does not answer, as a whole or for a card; why is not claimed."""
    facts, lost = seen.facts.gpu, lost_cards(seen)
    nvidia = [gpu for gpu in ours(seen) if gpu.vendor == NVIDIA]
    as_a_whole = facts.state == "unresponsive" and bool(nvidia or facts.driver_version) and not lost
    others = [
        gpu
        for gpu in ours(seen)
        if gpu.vendor in (AMD, INTEL) and gpu.error and card_key(gpu.pci_address) not in lost
    ]
    cards = [*(nvidia if as_a_whole else []), *others]
    if not as_a_whole and not others:
        return
    drivers = ["NVIDIA"] if as_a_whole else []
    drivers += sorted({gpu.driver or maker_of(gpu) for gpu in others})
    yield Finding(
        id="gpu.unresponsive",
        severity=Severity.CRITICAL,
        subject=labels(cards) or "NVIDIA driver",
        summary=f"The {listed(drivers)} driver{'s do' if len(drivers) > 1 else ' does'} not answer",
        evidence=(
            *(
                [_silence(facts.message or "no answer", facts.source or "NVML")]
                if as_a_whole
                else []
            ),
            *(_silence(f"{gpu.label}: {gpu.error}", "sysfs") for gpu in others),
        ),
        impact=f"An engine that opens the GPU is likely to hang too{_unread(cards)}",
        remedy=Remedy(
            text="Drain the node and read the driver's log. A reset may help; if a process hangs "
            "in the kernel only a reboot ends it. The cause is not known from here",
            action=Action.REBOOT,
            commands=(
                *((_READ_LOG,) if as_a_whole else ()),
                *((_READ_OTHERS_LOG,) if others else ()),
                *reset(cards or nvidia, seen, "").commands,
            ),
            cost="All work on the node ends",
        ),
        owner=Owner.OPERATOR,
    )


def _unread(cards: list[Gpu]) -> str:
    """What stays unknown; the cards that were read before the driver hung are told in full."""
    unread = [gpu for gpu in cards if "nvml" not in gpu.seen_by]
    return f"; nothing else of {count(len(unread), 'card')} could be checked" if unread else ""


def _silence(value: str, source: str) -> Evidence:
    return Evidence(
        value=value,
        source=source,
        expected="an answer within the deadline",
        basis="a healthy driver answers in milliseconds, after a cold start in seconds",
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
                value=f"kernel module {facts.module_version or facts.driver_version or 'unknown'}, "
                f"library {facts.library_version or 'unknown'} "
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
            "belongs to; the libraries are mounted at its start",
            action=Action.RESTART_CONTAINER,
            cost="Work in the container ends",
        )
    return Remedy(
        text="Stop what uses the GPUs and load the new module, or reboot. Hold the driver "
        "packages back from unattended upgrades",
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
            "by name rather than through the runtime's hook",
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
    cards = [gpu for gpu in ours(seen) if gpu.vendor == NVIDIA]
    as_a_whole = _failed(seen, cards)
    refused = [gpu for gpu in cards if gpu.error and not gpu.lost]
    refused = _not_told(refused, seen)
    unlisted = [gpu for gpu in cards if gpu not in refused and _is_unlisted(gpu, seen)]
    if not (as_a_whole or refused or unlisted) or lost_cards(seen):
        return
    named = [*refused, *unlisted] or cards
    summary, impact = _refusal_words(as_a_whole, named)
    yield Finding(
        id="gpu.nvml_failed",
        severity=Severity.CRITICAL,
        subject=labels(named) or "NVIDIA driver",
        summary=summary,
        evidence=(
            *([_whole(seen)] if as_a_whole else []),
            *(Evidence(value=f"{g.label}: {g.error}", source=_source(seen)) for g in refused),
            *(_unlisted(gpu, seen) for gpu in unlisted),
            *_driver_log(seen),
        ),
        impact=impact,
        remedy=_refusal_remedy(seen, refused, only=not as_a_whole and not unlisted),
        owner=Owner.OPERATOR,
    )


def _refusal_words(as_a_whole: bool, named: list[Gpu]) -> tuple[str, str]:
    """Summary and impact; a card that works beside its corrupted infoROM is not called dead."""
    cards = count(len(named), "card")
    if as_a_whole:
        cannot = f"{cards} not usable as it is" if named else "No GPU can be used as it is"
        return "The NVIDIA driver refuses to work", cannot
    if all(gpu.error == BAD_INFOROM and gpu.memory_bytes for gpu in named):
        return (
            f"The configuration memory (infoROM) of {cards} is corrupted",
            f"Settings, serial number and error counts that {cards} keeps there may be lost",
        )
    return f"The NVIDIA driver does not run {cards}", f"{cards} not usable as it is"


def _source(seen: Seen) -> str:
    return seen.facts.gpu.source or "nvml"


def _whole(seen: Seen) -> Evidence:
    facts = seen.facts.gpu
    return Evidence(
        value=facts.message or "failed",
        source=facts.source or "nvidia-smi",
        expected="an answer of the driver",
    )


def _unlisted(gpu: Gpu, seen: Seen) -> Evidence:
    return Evidence(
        value=f"{gpu.label}: on PCI, not listed by the driver",
        source=_source(seen),
        expected="all cards that are given to this process",
    )


def _driver_log(seen: Seen) -> Iterator[Evidence]:
    log = seen.facts.kernel_log
    for line in log.driver_errors[-_LOG_LINES:]:
        yield Evidence(value=line[:200], source=log.source or "kernel log")


def _not_told(refused: list[Gpu], seen: Seen) -> list[Gpu]:
    """Of these cards those of which no other finding tells why they are to be reset."""
    if not any(gpu.error == NEEDS_RESET for gpu in refused):
        return refused
    grave = (t for t in told_events(seen) if t.meaning.severity is Severity.CRITICAL)
    told = memory.failed_keys(seen) | memory.pending_keys(seen)
    told = (told | {card_key(each.address) for each in grave}) - {None}
    return [g for g in refused if g.error != NEEDS_RESET or card_key(g.pci_address) not in told]


def _refusal_remedy(seen: Seen, refused: list[Gpu], *, only: bool) -> Remedy:
    """By what the driver says of all the cards; `only` where nothing else is wrong."""
    said = {gpu.error for gpu in refused} if only else set()
    if said == {NEEDS_RESET}:
        return reset(refused, seen, "Drain the card and reset it, as the driver asks")
    if said == {NO_POWER}:
        return Remedy(
            text="Connect the card's power cables, each to a lead of its own",
            action=Action.RESEAT,
            commands=(_READ_LOG,),
            cost="The node is off for work on cables",
        )
    if said == {BAD_INFOROM}:
        return Remedy(
            text="Ask the vendor: the card's configuration memory is damaged. Whether it can be "
            "written anew or the card is replaced their diagnostics tell",
            action=Action.INSPECT_HARDWARE,
            commands=("sudo nvidia-bug-report.sh",),
            cost="The card is out of service",
        )
    return Remedy(
        text="Read the driver's log for the cause; then reset the card or reload the driver. "
        "Insufficient External Power means power cables, an infoROM error the vendor",
        action=Action.RELOAD_DRIVER,
        commands=(_READ_LOG, "nvidia-smi -q"),
        cost="Work on the GPUs ends",
    )


def _is_unlisted(gpu: Gpu, seen: Seen) -> bool:
    """Whether a driver that answers leaves out a card that is its own or that it could not start.

    A card without a driver may be kept for a guest: then only the driver's log tells of a fault.
    """
    listed = bool(set(gpu.seen_by) & {"nvml", "nvidia-smi"})
    if seen.facts.gpu.state != "ok" or listed or gpu.lost or _lists_nameless(seen):
        return False
    if gpu.driver is None:
        key = card_key(gpu.pci_address)
        return any(card_key(line) == key for line in seen.facts.kernel_log.driver_errors)
    return gpu.driver == "nvidia" and bool(gpu.granted)


def _lists_nameless(seen: Seen) -> bool:
    """Whether the driver lists a card whose address it does not tell: it may be any."""
    cards = (gpu for gpu in ours(seen) if gpu.vendor == NVIDIA)
    return any(gpu.pci_address is None for gpu in cards)


def _failed(seen: Seen, cards: list[Gpu]) -> bool:
    facts = seen.facts.gpu
    if facts.state != "failed" or facts.denied_device is not None or _container_lost(seen):
        return False
    message = facts.message or ""
    return bool(cards) or ("NVML" in message and NO_DEVICES not in message)
