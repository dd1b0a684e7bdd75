"""What is not known of the accelerators, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodecheck.checks.gpu.card_files import Refusals, RefusalsByCard, place_of
from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.gpu.wording import AMD, INTEL, NVIDIA, from_driver, is_told, maker_of
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason
from nodecheck.units import count, listed

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

_NVIDIAS = ("performance_state", "remap_pending", "remap_failure", "mig", "persistence")
"""Of those what no card of another maker has."""

MEMBERS_NAMED = 8
"""So many members the detail of a gap names."""

_REASONS = {
    "missing": Reason.ABSENT,
    "unresponsive": Reason.TIMEOUT,
    "mismatch": Reason.FAILED,
    "failed": Reason.FAILED,
}


def note_gaps(
    reader: Reader, facts: GpuFacts, gpus: tuple[Gpu, ...], refusals: RefusalsByCard
) -> None:
    """One gap for a driver that did not answer, or one a member that some card does not tell.

    Cards that do not tell it for another reason have a gap of their own.
    """
    if not gpus:
        _note_none(reader, facts)
        return
    ours = [gpu for gpu in gpus if gpu.granted is not False and not gpu.lost]
    silent = [gpu for gpu in ours if not is_told(gpu)]
    nvidia = [gpu for gpu in silent if gpu.vendor == NVIDIA]
    if nvidia:
        unasked = Reason.FAILED if facts.message else Reason.ABSENT
        reason = _REASONS.get(facts.state or "", unasked)
        why = facts.message or (
            "not listed by the driver" if facts.state else "nvidia-smi: not here"
        )
        reader.gap("gpus", reason, f"{count(len(nvidia), 'card')} known from PCI alone: {why}")
    others = [gpu for gpu in silent if gpu.vendor != NVIDIA]
    for gpu in others:
        if gpu.error is not None:
            reader.gap("gpus", Reason.TIMEOUT, f"{gpu.pci_address}: {gpu.error}")
    if no_reader := [gpu for gpu in others if gpu.error is None]:
        reader.gap("gpus", Reason.UNSUPPORTED, _not_asked(no_reader))
    told = [gpu for gpu in ours if gpu not in silent]
    barred = [gpu for gpu in told if gpu.is_barred]
    for gpu in barred:
        unknown = [member for member in JUDGED if getattr(gpu, member) is None]
        detail = f"{facts.source}: {gpu.error} for {_names([gpu])}"
        _note_group(reader, unknown, Reason.FAILED, detail)
    told = [gpu for gpu in told if gpu not in barred]
    for vendor in (AMD, INTEL, ""):
        _note_members(reader, facts, [g for g in told if _driver(g) == vendor], vendor, refusals)
    _note_load(reader, told)


def _driver(gpu: Gpu) -> str:
    """Whose driver tells of a card: "" for NVIDIA's, which also tells of cards without a vendor."""
    return gpu.vendor if gpu.vendor in (AMD, INTEL) else ""


def _names(gpus: Iterable[Gpu]) -> str:
    return ", ".join(map(place_of, gpus))


def _of(gpu: Gpu, refusals: RefusalsByCard) -> Refusals:
    """The card's refusals; a source without addresses called it by its number."""
    return {**refusals.get(f"GPU {gpu.index}", {}), **refusals.get(place_of(gpu), {})}


def _note_members(
    reader: Reader, facts: GpuFacts, cards: list[Gpu], vendor: str, refusals: RefusalsByCard
) -> None:
    """What a maker's cards do not tell of what is judged; `vendor` is "" for those of NVIDIA."""
    if not cards:
        return
    source = from_driver(cards[0]) if vendor else facts.source
    extra = [member for gpu in cards if vendor for member in _of(gpu, refusals)]
    members = [member for member in JUDGED if not (vendor and member in _NVIDIAS)]
    for member in dict.fromkeys((*members, *extra)):
        groups: dict[tuple[Reason, str], list[Gpu]] = {}
        for gpu in cards:
            if getattr(gpu, member) is None and not _retires(gpu, member):
                why = _of(gpu, refusals).get(member, (Reason.ABSENT, "not told"))
                groups.setdefault(why, []).append(gpu)
        for (reason, words), without in groups.items():
            reader.gap(f"gpus.{member}", reason, f"{source}: {words} for {_names(without)}"[:300])
    if not vendor:
        _note_refused(reader, facts, cards, refusals)


def _note_refused(
    reader: Reader, facts: GpuFacts, cards: list[Gpu], refusals: RefusalsByCard
) -> None:
    """What else NVIDIA's driver would have told: a gap a reason, not one a member."""
    without: dict[tuple[Reason, str, str], list[Gpu]] = {}
    for gpu in cards:
        for member, (reason, words) in _of(gpu, refusals).items():
            judged = reason is Reason.UNSUPPORTED or member in JUDGED
            if not judged and _value(gpu, member) is None:
                without.setdefault((reason, words, member), []).append(gpu)
    groups: dict[tuple[Reason, str], list[str]] = {}
    for (reason, words, member), gpus in without.items():
        detail = f"{facts.source}: {words} for {_names(gpus)}"
        groups.setdefault((reason, detail), []).append(member)
    for (reason, detail), members in groups.items():
        _note_group(reader, members, reason, detail)


def _value(gpu: Gpu, member: str) -> object:
    """A member, by dots within it."""
    value: object = gpu
    for name in member.split("."):
        value = getattr(value, name, None)
    return value


def _note_group(reader: Reader, members: Sequence[str], reason: Reason, detail: str) -> None:
    """One gap for several members, which its detail names; its field is the first."""
    words = [member.replace("_", " ").replace(".", " ") for member in members]
    named = listed(words, MEMBERS_NAMED)
    reader.gap(f"gpus.{members[0]}", reason, f"{detail[:300]}: {named}")


def _retires(gpu: Gpu, member: str) -> bool:
    """Cards before Ampere retire pages: they have no rows to remap, and nothing is missing."""
    return gpu.retired_pages is not None and member.startswith("remap_")


def _not_asked(others: list[Gpu]) -> str:
    """What stays unknown of cards whose driver has no reader here, or is not loaded."""
    makers = sorted({maker_of(gpu) or "other" for gpu in others})
    cards = count(len(others), f"{' and '.join(makers)} card")
    driverless = any(gpu.vendor in (AMD, INTEL) for gpu in others)
    why = ["amdgpu, i915 and xe tell nothing of them in sysfs"] if driverless else []
    if any(gpu.vendor not in (AMD, INTEL) for gpu in others):
        why.append("only the drivers of NVIDIA, AMD and Intel are asked")
    return f"clocks, power, temperature and ECC errors of {cards} ({', and '.join(why)})"


def _note_none(reader: Reader, facts: GpuFacts) -> None:
    """No card is known: because there is none, or because nothing could be asked."""
    if facts.state is None and not reader.host.live:
        detail = "no accelerator: no PCI devices, lspci or nvidia-smi output"
        reader.gap("*", Reason.ABSENT, detail)
    elif facts.state in _REASONS and facts.state != "missing":
        reader.gap("gpus", _REASONS[facts.state], f"{facts.source}: {facts.message}")
    elif facts.state is None and facts.message:
        reader.gap("gpus", Reason.FAILED, f"{facts.source}: {facts.message}")


def _note_load(reader: Reader, told: list[Gpu]) -> None:
    """A link's speed can be judged under load alone."""
    for gpu in told:
        slow = gpu.link_generation and gpu.link_generation < (gpu.link_generation_max or 0)
        if slow and gpu.utilisation_share is None:
            detail = f"{gpu.pci_address}: load not known; measure the link's speed under load"
            reader.gap("gpus.link_generation", Reason.ABSENT, detail)
