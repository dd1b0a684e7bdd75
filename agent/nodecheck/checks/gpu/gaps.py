"""What is not known of the accelerators, and why."""

from __future__ import annotations

from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.gpu.wording import NVIDIA, maker_of
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from nodecheck.units import count

JUDGED = (
    "memory_bytes",
    "vram_bytes_per_second",
    "performance_state",
    "utilisation_share",
    "clocks_event_reasons",
    "power_limit_watts",
    "ecc_volatile_uncorrectable",
    "remap_pending",
    "remap_failure",
    "mig",
    "persistence",
)
"""The members that rules judge; a card without one of them cannot be called well in it."""

_REASONS = {
    "missing": Reason.ABSENT,
    "unresponsive": Reason.TIMEOUT,
    "mismatch": Reason.FAILED,
    "failed": Reason.FAILED,
}


Refusals = dict[str, tuple[Reason, str]]
"""A member of Gpu -> why the driver does not tell it, and the driver's words."""


def note_gaps(reader: Reader, facts: GpuFacts, gpus: tuple[Gpu, ...], refusals: Refusals) -> None:
    """One gap for a driver that did not answer, or one a member that some card does not tell."""
    if not gpus:
        _note_none(reader, facts)
        return
    ours = [gpu for gpu in gpus if gpu.granted is not False and not gpu.lost]
    silent = [gpu for gpu in ours if not set(gpu.seen_by) & {"nvml", "nvidia-smi"}]
    nvidia = [gpu for gpu in silent if gpu.vendor == NVIDIA]
    if nvidia:
        reason = _REASONS.get(facts.state or "", Reason.ABSENT)
        why = facts.message or (
            "not listed by the driver" if facts.state else "nvidia-smi: not here"
        )
        reader.gap("gpus", reason, f"{count(len(nvidia), 'card')} known from PCI alone: {why}")
    others = [gpu for gpu in silent if gpu.vendor != NVIDIA]
    if others:
        reader.gap("gpus", Reason.UNSUPPORTED, _not_asked(others))
    told = [gpu for gpu in ours if gpu not in silent]
    for member in JUDGED:
        without = [gpu for gpu in told if getattr(gpu, member) is None]
        if without:
            reason, words = refusals.get(member, (Reason.ABSENT, "not told"))
            whose = ", ".join(gpu.pci_address or f"GPU {gpu.index}" for gpu in without)
            reader.gap(f"gpus.{member}", reason, f"{facts.source}: {words} for {whose}"[:300])
    _note_load(reader, told)


def _not_asked(others: list[Gpu]) -> str:
    """What stays unknown of cards whose driver has no reader here."""
    makers = sorted({maker_of(gpu) or "other" for gpu in others})
    cards = count(len(others), f"{' and '.join(makers)} card")
    return f"clocks, power, temperature and ECC errors of {cards} (only NVIDIA's driver is asked)"


def _note_none(reader: Reader, facts: GpuFacts) -> None:
    """No card is known: because there is none, or because nothing could be asked."""
    if facts.state is None and not reader.host.live:
        detail = "no accelerator: no PCI devices, lspci or nvidia-smi output"
        reader.gap("*", Reason.ABSENT, detail)
    elif facts.state in _REASONS and facts.state != "missing":
        reader.gap("gpus", _REASONS[facts.state], f"{facts.source}: {facts.message}")


def _note_load(reader: Reader, told: list[Gpu]) -> None:
    """A link's speed can be judged under load alone."""
    for gpu in told:
        slow = gpu.link_generation and gpu.link_generation < (gpu.link_generation_max or 0)
        if slow and gpu.utilisation_share is None:
            detail = f"{gpu.pci_address}: load not known; measure the link's speed under load"
            reader.gap("gpus.link_generation", Reason.ABSENT, detail)
