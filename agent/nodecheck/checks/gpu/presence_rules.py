"""Judges whether the cards are there and ours: the cause, not what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu import xid
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import (
    FOREIGN_DRIVERS,
    NVIDIA,
    card_key,
    foreign_keys,
    from_driver,
    is_ours,
    is_told,
    labels,
    ours,
    power_cycle,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count


class _Losses:
    """Cards that no longer answer, by their key (`?` for one that nothing names)."""

    def __init__(self, seen: Seen) -> None:
        self.found: dict[str, list[Evidence]] = {}
        self._foreign = foreign_keys(seen)

    def add(self, address: str | None, value: str, source: str) -> None:
        """Note one sign; a line without an address tells of a card that others name."""
        key = card_key(address)
        if key is None:
            key = next(iter(self.found), "?")
        if key not in self._foreign:
            piece = Evidence(value=value[:200], source=source, expected="the card answers")
            self.found.setdefault(key, []).append(piece)

    def knows(self, address: str | None) -> bool:
        """Whether there is a sign of this card's loss already."""
        return card_key(address) in self.found


def lost_cards(seen: Seen) -> dict[str, list[Evidence]]:
    """Cards that no longer answer on the bus: their key (or `?`) -> what shows it."""
    losses = _Losses(seen)
    _add_by_driver(losses, seen)
    _add_by_log(losses, seen)
    for path in seen.facts.pcie.paths:
        if path.hops and path.hops[0].gone:
            value = f"{path.accelerator}: all ones in its configuration space (link width 63)"
            losses.add(path.accelerator, value, seen.facts.pcie.source or "sysfs")
    return losses.found


def _add_by_driver(losses: _Losses, seen: Seen) -> None:
    driver = seen.facts.gpu
    for gpu in seen.facts.gpus:
        if gpu.lost:
            losses.add(gpu.pci_address, f"{gpu.label}: GPU is lost", driver.source or "driver")
    for address in driver.lost:
        if not losses.knows(address):
            losses.add(address, f"{address}: no device handle", driver.source or "nvidia-smi")


def _add_by_log(losses: _Losses, seen: Seen) -> None:
    log = seen.facts.kernel_log
    for event in log.xids:
        if event.code == xid.FALLEN_OFF and not event.recovered:
            losses.add(event.pci_address, f"Xid 79: {event.text}", log.source or "kernel log")
    for address in log.gpus_lost:
        if not losses.knows(address):
            losses.add(address, f"{address}: fallen off the bus", log.source or "kernel log")


def judge_lost(seen: Seen) -> Iterator[Finding]:
    """Cards that fell off the bus."""
    found = lost_cards(seen)
    if not found:
        return
    known = {card_key(gpu.pci_address): gpu.label for gpu in seen.facts.gpus}
    names = [known.get(key, key if key != "?" else "a GPU") for key in found]
    yield Finding(
        id="gpu.lost",
        severity=Severity.CRITICAL,
        subject=", ".join(names),
        summary=f"{count(len(found), 'GPU')} fell off the bus",
        evidence=tuple(piece for pieces in found.values() for piece in pieces),
        impact=f"{count(len(found), 'GPU')} of this node cannot be used, and engines that hold "
        "one hang or fail; the driver may block other programs until a restart",
        remedy=power_cycle(
            seen,
            "Drain and restart the node. Before it serves again check the card's power cables, "
            "seating, riser and temperature: a card falls off again where these are the cause",
            "All work on the node ends",
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
            text="Load the NVIDIA driver, or install the one that fits this kernel and card. "
            "Secure Boot refuses unsigned modules; nouveau must not hold the card",
            action=Action.RELOAD_DRIVER,
            commands=(
                "sudo modprobe nvidia",
                "sudo dmesg | grep -iE 'nvidia|nouveau|NVRM'",
                "mokutil --sb-state",
            ),
            cost="A reboot where another driver holds the card",
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
        summary=f"{count(len(cards), 'accelerator')} on PCI "
        f"{'is' if len(cards) == 1 else 'are'} not given to this process",
        evidence=tuple(_refusal(gpu) for gpu in cards),
        impact=f"None: {count(len(cards), 'card')} of another container, job or guest"
        + (", or left out by a setting" if any(map(_is_excluded, cards)) else ""),
        remedy=Remedy(text="None, unless the card was meant for this one", action=Action.NONE),
        owner=Owner.OPERATOR,
    )


def _refusal(gpu: Gpu) -> Evidence:
    if gpu.device_file is False:
        return Evidence(value=f"{gpu.label}: no device file", source="/dev")
    if gpu.device_file:
        return Evidence(value=f"{gpu.label}: opening it is refused (EPERM)", source="/dev")
    if _is_excluded(gpu):
        return Evidence(
            value=f"{gpu.label}: GPU Excluded: Yes",
            source="/proc/driver/nvidia/gpus",
            basis="the driver's parameter NVreg_ExcludedGpus names it",
        )
    if gpu.driver in FOREIGN_DRIVERS:
        return Evidence(value=f"{gpu.label}: bound to {gpu.driver}", source="PCI driver link")
    return Evidence(value=f"{gpu.label}: its driver refuses to open it", source=from_driver(gpu))


def _is_excluded(gpu: Gpu) -> bool:
    """Whether NVIDIA's driver was told to leave the card alone: it holds it and lists it not."""
    told = gpu.driver == "nvidia" and not is_told(gpu)
    return told and gpu.granted is False and gpu.device_file is None


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
        summary=f"This user may not open {denied}, and there is no other accelerator",
        evidence=(
            Evidence(
                value="Permission denied",
                source=denied,
                expected="read and write for this user",
                basis="file permissions; root is not refused",
            ),
        ),
        impact="Engines fall back to the CPU in silence",
        remedy=Remedy(
            text="Add the user to the group that owns the device file and start a new session",
            action=Action.CHANGE_SETTING,
            commands=(f"stat -c '%A %G' {denied}", f"sudo usermod -aG {group} <user>"),
            cost="A new login session",
        ),
        owner=Owner.OPERATOR,
    )
