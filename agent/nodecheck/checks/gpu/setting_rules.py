"""Judges how the cards are set up and who uses their memory."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import evidence, from_driver, labels, ours, selector
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import gib


def judge_mig(seen: Seen) -> Iterator[Finding]:
    """Cards that are cut into instances."""
    cards = [gpu for gpu in ours(seen) if gpu.mig]
    if cards:
        yield Finding(
            id="gpu.mig",
            severity=Severity.INFO,
            subject=labels(cards),
            summary="MIG (multi-instance GPU) is on: the card is cut into instances",
            evidence=tuple(evidence(gpu, "MIG mode enabled") for gpu in cards),
            impact="A program gets one instance's memory and bandwidth, not the card's; "
            "utilisation and "
            "remapped rows are not told",
            remedy=Remedy(
                text="None, unless the whole card is wanted",
                action=Action.NONE,
                commands=("nvidia-smi mig -lgi",),
            ),
            owner=Owner.OPERATOR,
        )


def judge_persistence(seen: Seen) -> Iterator[Finding]:
    """Cards that the driver puts to sleep between programs."""
    cards = [gpu for gpu in ours(seen) if gpu.persistence is False]
    if cards:
        yield Finding(
            id="gpu.persistence_off",
            severity=Severity.INFO,
            subject=labels(cards),
            summary="Persistence mode, which keeps the driver loaded between programs, is off",
            evidence=tuple(evidence(gpu, "persistence mode disabled", "enabled") for gpu in cards),
            impact="The first program after a pause waits for the driver to start the card, and "
            "volatile "
            "error counts begin again at 0",
            remedy=Remedy(
                text="Run nvidia-persistenced, or turn the mode on",
                action=Action.CHANGE_SETTING,
                commands=(
                    "sudo systemctl enable --now nvidia-persistenced",
                    "sudo nvidia-smi -pm 1",
                ),
                cost="A few watts an idle card",
            ),
            owner=Owner.OPERATOR,
        )


def judge_unified_memory(seen: Seen) -> Iterator[Finding]:
    """Cards without memory of their own."""
    cards = [gpu for gpu in ours(seen) if gpu.unified_memory and not gpu.mig]
    if cards:
        yield Finding(
            id="gpu.unified_memory",
            severity=Severity.INFO,
            subject=labels(cards),
            summary="The GPU has no memory of its own and uses the system's",
            evidence=tuple(_memory_evidence(gpu) for gpu in cards),
            impact="A model has to fit into the system's available memory; what the GPU takes "
            "the system "
            "loses, and its PCIe link says nothing",
            remedy=Remedy(text="None", action=Action.NONE),
            owner=Owner.USER,
        )


def _memory_evidence(gpu: Gpu) -> Evidence:
    told = bool(set(gpu.seen_by) & {"nvml", "nvidia-smi"})
    if told and gpu.memory_bytes is None:
        return evidence(gpu, "memory size not supported")
    return Evidence(
        value=labels([gpu]),
        source=f"PCI id {gpu.pci_device_id}",
        basis="product with shared memory",
    )


def _used(gpu: Gpu) -> int:
    return gpu.memory_used_bytes or 0


def judge_memory_in_use(seen: Seen) -> Iterator[Finding]:
    """Memory that others hold on the cards that a named model is meant for."""
    workload, limits = seen.workload, seen.policy.thresholds
    if workload is None or not workload.named_by_user:
        return
    cards = [gpu for gpu in ours(seen) if gpu.memory_bytes and not gpu.mig]
    held = [gpu for gpu in cards if _used(gpu) > limits.gpu_memory_idle_bytes]
    if not held:
        return
    total = sum(gpu.memory_bytes or 0 for gpu in cards)
    free = total - sum(map(_used, cards))
    crowded_out = free < workload.weight_bytes_shipped <= total
    yield Finding(
        id="gpu.memory_in_use",
        severity=Severity.CRITICAL if crowded_out else Severity.WARNING,
        subject=labels(held),
        summary=f"{gib(sum(map(_used, held)))} of GPU memory are in use by others",
        evidence=tuple(
            Evidence(
                value=f"{labels([gpu])}: {gib(_used(gpu))} of {gib(gpu.memory_bytes or 0)} used",
                source=from_driver(gpu),
                expected=f"at most {gib(limits.gpu_memory_idle_bytes)}",
                basis="gpu_memory_idle_bytes: more than an idle card's contexts",
            )
            for gpu in held
        ),
        impact=f"{gib(max(0, free))} free for {gib(workload.weight_bytes_shipped)} of weights"
        + (": the model no longer fits" if crowded_out else ""),
        remedy=Remedy(
            text="Stop what holds the memory, or choose another card",
            action=Action.RESTART_ENGINE,
            commands=(f"nvidia-smi -i {selector(held)} -q -d PIDS",),
            cost="The other work ends",
        ),
        owner=Owner.USER,
    )
