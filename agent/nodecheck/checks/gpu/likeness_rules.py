"""Judges cards of one model against one another: what is split over them runs at the slowest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import NVIDIA, evidence, labels, ours
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gib, listed, percent

_SIZE_NOISE = 0.01
"""Cards of one model differ by some MiB: firmware and rows that were remapped."""

_CARDS_TOLD, _DIFFERENCES_TOLD = 3, 2
"""In the summary; the evidence has them all."""

Value = str | float | bool | None


class _Trait(NamedTuple):
    """Something that cards of one model share."""

    name: str
    read: Callable[[Gpu], Value]
    write: Callable[[object], str]


def _watts(value: object) -> str:
    return f"{value:.0f} W" if isinstance(value, (int, float)) else str(value)


def _megahertz(value: object) -> str:
    return f"{value} MHz"


def _switch(value: object) -> str:
    return "on" if value else "off"


def _size(value: object) -> str:
    return gib(value) if isinstance(value, (int, float)) else str(value)


_TRAITS = (
    _Trait("power limit", lambda gpu: gpu.power_limit_watts, _watts),
    _Trait("maximum SM clock", lambda gpu: gpu.maximum_sm_clock_mhz, _megahertz),
    _Trait("maximum memory clock", lambda gpu: gpu.maximum_memory_clock_mhz, _megahertz),
    _Trait("ECC", lambda gpu: gpu.ecc_enabled, _switch),
    _Trait("memory", lambda gpu: gpu.memory_bytes, _size),
    _Trait("VBIOS", lambda gpu: gpu.vbios_version, str),
    _Trait("compute mode", lambda gpu: gpu.compute_mode, str),
)

_QUERY = (
    "nvidia-smi --query-gpu=index,vbios_version,power.limit,clocks.max.sm,ecc.mode.current,"
    "compute_mode --format=csv"
)
_TRAITS_OF_SPEED = ("power limit", "maximum SM clock", "maximum memory clock")


def judge_likeness(seen: Seen) -> Iterator[Finding]:
    """Cards of one model and board that are not set up alike."""
    found = [
        (trait, odd, usual)
        for alike in _groups(seen)
        for trait in _TRAITS
        if (odd := _odd(trait, alike, seen)) and (usual := _usual(trait, alike, odd)) is not None
    ]
    if not found:
        return
    cards = [gpu for gpu in ours(seen) if any(gpu in odd for _, odd, _ in found)]
    yield Finding(
        id="gpu.cards_differ",
        severity=Severity.INFO,
        subject=labels(cards),
        summary=_summary(cards, found),
        evidence=tuple(
            evidence(
                gpu,
                f"{trait.name} {trait.write(trait.read(gpu))}",
                trait.write(usual),
                "the other cards of this model",
            )
            for trait, odd, usual in found
            for gpu in odd
        ),
        impact=_impact(found),
        remedy=Remedy(
            text="None, unless a model is split over these cards: then set them alike",
            action=Action.NONE,
            commands=(_QUERY,) if any(gpu.vendor == NVIDIA for gpu in cards) else (),
        ),
        owner=Owner.OPERATOR,
    )


def _summary(cards: Sequence[Gpu], found: Sequence[tuple[_Trait, list[Gpu], Value]]) -> str:
    """The odd cards, and the first of what they have and the others have not."""
    names = [gpu.label if gpu.index is None else f"GPU {gpu.index}" for gpu in cards]
    differences = [
        f"{trait.name} {listed(list(dict.fromkeys(trait.write(trait.read(gpu)) for gpu in odd)))} "
        f"(not {trait.write(usual)})"
        for trait, odd, usual in found
    ]
    verb = "differs" if len(cards) == 1 else "differ"
    told = listed(differences, _DIFFERENCES_TOLD)
    return f"{listed(names, _CARDS_TOLD)} {verb} from cards of the same model: {told}"


def _groups(seen: Seen) -> list[list[Gpu]]:
    """Cards of one model on one maker's board; makers set clocks and limits of their own."""
    groups: dict[tuple[str | None, ...], list[Gpu]] = {}
    for gpu in ours(seen):
        if gpu.name is not None and not gpu.mig and not gpu.lost:
            kind = (gpu.vendor, gpu.name, gpu.pci_device_id, gpu.subsystem_id)
            groups.setdefault(kind, []).append(gpu)
    return [group for group in groups.values() if len(group) > 1]


def _odd(trait: _Trait, alike: list[Gpu], seen: Seen) -> list[Gpu]:
    """The cards that are not as most of them; of two, the one that has less."""
    told = [gpu for gpu in alike if trait.read(gpu) is not None]
    if _is_told_elsewhere(trait, told, seen):
        return []
    usual = _usual(trait, alike, [])
    return [gpu for gpu in told if not _same(trait.read(gpu), usual)]


def _usual(trait: _Trait, alike: list[Gpu], odd: list[Gpu]) -> Value:
    values = [value for gpu in alike if gpu not in odd and (value := trait.read(gpu)) is not None]
    return max(values, key=lambda value: (values.count(value), value), default=None)


def _same(value: Value, usual: Value) -> bool:
    if isinstance(value, (int, float)) and isinstance(usual, (int, float)):
        return abs(value - usual) <= _SIZE_NOISE * abs(usual)
    return value == usual


def _is_told_elsewhere(trait: _Trait, cards: list[Gpu], seen: Seen) -> bool:
    """Whether another finding tells it of the cards that differ, or another trait causes it."""
    if trait.name == "memory":
        return len({gpu.ecc_enabled for gpu in cards}) > 1
    share = seen.policy.thresholds.power_limit_info_share
    return trait.name == "power limit" and any(
        gpu.default_power_limit_watts is not None
        and (gpu.power_limit_watts or 0) < share * gpu.default_power_limit_watts
        for gpu in cards
    )


def _impact(found: Sequence[tuple[_Trait, list[Gpu], Value]]) -> str:
    for trait, odd, usual in found:
        values = [value for gpu in odd if isinstance(value := trait.read(gpu), (int, float))]
        if trait.name in _TRAITS_OF_SPEED and values and isinstance(usual, (int, float)) and usual:
            share = percent(min(values) / usual)
            return f"A model that is split over them runs at the slowest: {trait.name} at {share}"
    cards = count(len({gpu.pci_address for _, odd, _ in found for gpu in odd}), "card")
    return f"None seen: {cards} set up in another way than the others of their model"
