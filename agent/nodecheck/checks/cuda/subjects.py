"""Which cards may be measured, and why the others are left alone. Pure but for CUDA's own list."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Facts
from nodecheck.machine import pci
from nodecheck.machine.cuda import Card
from nodecheck.model import Reason, Struct
from nodecheck.thresholds import Thresholds
from nodecheck.units import GIB, MIB, gib, percent

HOST_BUFFER_BYTES = 64 * MIB
"""Of one copy to or from a card: small beside any card's memory, large beside a call's cost."""

DEVICE_BUFFER_BYTES = (512 * MIB, 256 * MIB)
"""Of one copy on a card, which has two such: beyond four times any card's L2 (128 MiB at most), or
where less is free beyond four times that of most."""

CONTEXT_BYTES = 640 * MIB
"""What a CUDA context takes of a card's memory: 200 to 600 MB."""

UNIFIED_LEAVES_BYTES = 4 * GIB
"""What must stay available where card and host share memory: running out freezes some."""


class Subject(Struct, frozen=True, kw_only=True):
    """A card to measure. `position` is CUDA's number, `cpus` those near it (none: not known).

    `device_bytes` is None where its memory has no room for copies on the card. `busy` says that
    other programs use it.
    """

    gpu: Gpu
    address: str
    position: int
    cpus: tuple[int, ...] = ()
    device_bytes: int | None = None
    busy: bool = False


class LeftAlone(Struct, frozen=True, kw_only=True):
    """A card that is not measured. `reason` is as a gap's, `why` ends a sentence about it."""

    gpu: Gpu
    reason: Reason
    why: str


def granted(facts: Facts) -> tuple[Gpu, ...]:
    """The NVIDIA cards that this process was given."""
    return tuple(g for g in facts.gpus if g.vendor == "nvidia" and facts.grants(g))


def fit(facts: Facts, thresholds: Thresholds, *, force: bool) -> tuple[list[Gpu], list[LeftAlone]]:
    """The cards that may be measured, and those to leave alone; CUDA need not be started for it."""
    found: list[Gpu] = []
    left: list[LeftAlone] = []
    for gpu in granted(facts):
        used = None if force else in_use(gpu, thresholds)
        if why := _unfit(facts, gpu, used):
            left.append(LeftAlone(gpu=gpu, reason=why[0], why=why[1]))
        else:
            found.append(gpu)
    return found, left


def located(
    facts: Facts, gpus: Sequence[Gpu], cards: Sequence[Card], thresholds: Thresholds
) -> tuple[list[Subject], list[LeftAlone]]:
    """The same by CUDA's numbers, and those that it does not list; `cards` are what it has."""
    positions = {pci.normal_address(c.pci_address or ""): c.position for c in cards}
    found: list[Subject] = []
    left: list[LeftAlone] = []
    for gpu in gpus:
        position = positions.get(gpu.pci_address)
        if gpu.pci_address is None or position is None:
            left.append(LeftAlone(gpu=gpu, reason=Reason.ABSENT, why="CUDA does not list it"))
            continue
        found.append(
            Subject(
                gpu=gpu,
                address=gpu.pci_address,
                position=position,
                cpus=near_cpus(facts, gpu),
                device_bytes=_device_bytes(facts, gpu),
                busy=in_use(gpu, thresholds) is not None,
            )
        )
    return found, left


def in_use(gpu: Gpu, thresholds: Thresholds) -> str | None:
    """What shows that other programs use the card, in words."""
    share = gpu.utilisation_share
    if share is not None and share >= thresholds.busy_gpu_share:
        return f"it is busy ({percent(share)})"
    held = gpu.memory_used_bytes
    if gpu.processes:
        of_processes = sum(process.memory_bytes or 0 for process in gpu.processes)
        held = max(held or 0, of_processes)
    if held is not None and held > thresholds.gpu_memory_idle_bytes:
        return f"others hold {gib(held)} of its memory"
    return None


def near_cpus(facts: Facts, gpu: Gpu) -> tuple[int, ...]:
    """The usable CPUs of the card's NUMA node."""
    path = facts.pcie.path_of(gpu.pci_address)
    told = (gpu.numa_node, path.numa_node if path else None)
    number = next((n for n in told if n is not None and n >= 0), None)
    node = next((n for n in facts.numa.nodes if n.id == number), None)
    near = (node.cpus if node else None) or (path.local_cpus if path else None) or ()
    usable = facts.limits.usable_cpus or ()
    return tuple(cpu for cpu in near if cpu in usable)


def _unfit(facts: Facts, gpu: Gpu, used: str | None) -> tuple[Reason, str] | None:
    """Why a card can tell nothing, or is not ours to take."""
    if gpu.lost or gpu.error is not None:
        return Reason.FAILED, "the driver does not reach it"
    if gpu.mig:
        return Reason.UNSUPPORTED, "MIG is on: a program gets an instance of it, not the card"
    if gpu.compute_mode in ("exclusive_process", "prohibited"):
        mode = gpu.compute_mode.replace("_", " ")
        return Reason.DENIED, f"its compute mode is {mode}: one program alone, or none"
    if used is not None:
        return Reason.DENIED, f"{used}; --force measures it all the same"
    return None if _has_room(facts, gpu) else (Reason.FAILED, "too little of its memory is free")


def _has_room(facts: Facts, gpu: Gpu) -> bool:
    """Whether the small buffers fit beside a context."""
    if gpu.unified_memory:
        left = facts.memory.available_bytes
        return left is None or left >= UNIFIED_LEAVES_BYTES
    free = _free_bytes(gpu)
    return free is None or free >= CONTEXT_BYTES + 2 * HOST_BUFFER_BYTES


def _device_bytes(facts: Facts, gpu: Gpu) -> int | None:
    """The larger buffer of those that fit with half as much again to spare."""
    if gpu.unified_memory:
        return HOST_BUFFER_BYTES if _has_room(facts, gpu) else None
    free = _free_bytes(gpu)
    fitting = (
        size
        for size in DEVICE_BUFFER_BYTES
        if free is None or free >= CONTEXT_BYTES + HOST_BUFFER_BYTES + 3 * size
    )
    return next(fitting, None)


def _free_bytes(gpu: Gpu) -> int | None:
    if gpu.memory_bytes is None or gpu.memory_used_bytes is None:
        return None
    return gpu.memory_bytes - gpu.memory_used_bytes
