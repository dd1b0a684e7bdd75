"""Judges how the cards are set up and who uses their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nodecheck.checks.gpu.commands import show_processes
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import evidence, from_driver, labels, ours
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import gib

_PROGRAMS_NAMED = 3


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
            "utilisation and remapped rows are not told",
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
            "volatile error counts begin again at 0",
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
            "the system loses, and its PCIe link says nothing",
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


class _Room(NamedTuple):
    """Memory that one program can have: a card's, or a MIG instance's."""

    gpu: Gpu
    name: str
    total: int
    used: int


def _rooms(seen: Seen) -> list[_Room]:
    rooms = []
    for gpu in ours(seen):
        if gpu.mig:
            rooms += [
                _Room(gpu, f"{gpu.label}, MIG {instance.profile or 'instance'}", total, used)
                for instance in gpu.mig_instances
                if (total := instance.memory_bytes or 0)
                and (used := instance.memory_used_bytes) is not None
            ]
        elif gpu.memory_bytes:
            rooms.append(_Room(gpu, gpu.label, gpu.memory_bytes, gpu.memory_used_bytes or 0))
    return rooms


def judge_memory_in_use(seen: Seen) -> Iterator[Finding]:
    """Memory that others hold on the cards that a named model is meant for."""
    workload, limits = seen.workload, seen.policy.thresholds
    if workload is None or not workload.named_by_user:
        return
    rooms = _rooms(seen)
    held = [room for room in rooms if room.used > limits.gpu_memory_idle_bytes]
    if not held:
        return
    total, free = _for_one_program(rooms)
    crowded_out = free < workload.weight_bytes_shipped <= total
    cards = list({id(room.gpu): room.gpu for room in held}.values())
    yield Finding(
        id="gpu.memory_in_use",
        severity=Severity.CRITICAL if crowded_out else Severity.WARNING,
        subject=labels(cards),
        summary=f"{gib(sum(room.used for room in held))} of GPU memory are in use by others",
        evidence=(
            *(
                Evidence(
                    value=f"{room.name}: {gib(room.used)} of {gib(room.total)} used",
                    source=from_driver(room.gpu),
                    expected=f"at most {gib(limits.gpu_memory_idle_bytes)}",
                    basis="gpu_memory_idle_bytes: more than an idle card's contexts",
                )
                for room in held
            ),
            *(piece for gpu in cards for piece in _holders(gpu)),
        ),
        impact=f"{gib(max(0, free))} free for {gib(workload.weight_bytes_shipped)} of weights"
        + (": the model no longer fits" if crowded_out else ""),
        remedy=Remedy(
            text="Stop what holds the memory, or choose another card",
            action=Action.RESTART_ENGINE,
            commands=show_processes(cards),
            cost="The other work ends",
        ),
        owner=Owner.USER,
    )


def _for_one_program(rooms: list[_Room]) -> tuple[int, int]:
    """Memory in all and free: of all cards together, or of the best instance where all are cut."""
    whole = [room for room in rooms if not room.gpu.mig]
    if whole:
        return sum(room.total for room in whole), sum(room.total - room.used for room in whole)
    return max(room.total for room in rooms), max(room.total - room.used for room in rooms)


def _holders(gpu: Gpu) -> Iterator[Evidence]:
    """The programs that hold most; those of other containers have no name here."""
    programs = sorted(gpu.processes or (), key=lambda each: -(each.memory_bytes or 0))
    for each in programs[:_PROGRAMS_NAMED]:
        name = (each.name or "a program of another container").rpartition("/")[2][:40]
        size = f": {gib(each.memory_bytes)}" if each.memory_bytes else ""
        yield Evidence(value=f"{name} (process {each.pid}){size}", source=from_driver(gpu))
