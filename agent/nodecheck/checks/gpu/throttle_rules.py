"""Judges what holds the cards back: a power cap at full load is normal, a power brake never."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from nodecheck.checks.gpu.clocks import GPU_IDLE, clock_impact, in_brackets, limit
from nodecheck.checks.gpu.commands import default_power, show_heat, show_power
from nodecheck.checks.gpu.facts import (
    HW_SLOWDOWN,
    HW_THERMAL,
    POWER_BRAKE,
    POWER_CAP,
    SW_THERMAL,
    Gpu,
)
from nodecheck.checks.gpu.wording import evidence, labels, ours
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Finding, Owner, Remedy, Severity
from nodecheck.units import percent


def _held_by(seen: Seen, reason: str, *, but: tuple[str, ...] = ()) -> list[Gpu]:
    return [
        gpu
        for gpu in ours(seen)
        if reason in (gpu.clocks_event_reasons or ())
        and not any(other in (gpu.clocks_event_reasons or ()) for other in but)
    ]


_COOLING = Remedy(
    text="Check fans, airflow, inlet temperature and dust; passive cards need the server's fans "
    "at the speed that the vendor asks for",
    action=Action.CHANGE_SETTING,
    commands=("sudo ipmitool sdr type fan",),
    cost="None for looking; the node is off for cleaning",
)


class _Slowdown(NamedTuple):
    """A clock event reason that is a finding of its own."""

    id: str
    severity: Severity
    reason: str
    summary: str
    remedy: Remedy
    show: Callable[[Sequence[Gpu]], tuple[str, ...]]


_BRAKE = _Slowdown(
    "gpu.hw_power_brake_slowdown",
    Severity.CRITICAL,
    POWER_BRAKE,
    "The server's power brake slows the GPU down",
    Remedy(
        text="Check power supplies and their redundancy, the card's power cabling and the power "
        "cap that the management controller sets",
        action=Action.RESEAT,
        commands=("sudo ipmitool sdr type 'Power Supply'", "sudo ipmitool dcmi power reading"),
        cost="The node is off for work on cables",
    ),
    show_power,
)
_UNNAMED = _Slowdown(
    "gpu.hw_power_brake_slowdown",
    Severity.WARNING,
    HW_SLOWDOWN,
    "The hardware slows the GPU down, and whether for power or heat is not told",
    Remedy(
        text="Check power supplies, the card's power cabling and the management controller's power "
        "cap, then fans and temperature",
        action=Action.INSPECT_HARDWARE,
        commands=("sudo ipmitool sdr type 'Power Supply'", "sudo ipmitool sdr type fan"),
        cost="None for looking; the node is off for work on cables",
    ),
    show_power,
)
_TOO_HOT = _Slowdown(
    "gpu.hw_thermal_slowdown",
    Severity.CRITICAL,
    HW_THERMAL,
    "The GPU is too hot and has cut its clocks",
    _COOLING,
    show_heat,
)
_WARM = _Slowdown(
    "gpu.sw_thermal_slowdown",
    Severity.WARNING,
    SW_THERMAL,
    "The GPU or its memory is above its operating temperature",
    _COOLING,
    show_heat,
)


def _slowed(seen: Seen, kind: _Slowdown, cards: list[Gpu]) -> Iterator[Finding]:
    if not cards:
        return
    basis = "in two samples a second apart" if seen.live else "in the one sample there is"
    yield Finding(
        id=kind.id,
        severity=kind.severity,
        subject=labels(cards),
        summary=kind.summary,
        evidence=tuple(
            evidence(gpu, f"{kind.reason} active{in_brackets(gpu)}", "not active", basis)
            for gpu in cards
        ),
        impact=clock_impact(cards, "The card works below the clocks that it could have"),
        remedy=msgspec.structs.replace(
            kind.remedy, commands=(*kind.show(cards), *kind.remedy.commands)
        ),
        owner=Owner.HARDWARE,
    )


def judge_power_brake(seen: Seen) -> Iterator[Finding]:
    """The system pulls the card's power brake pin, or the hardware does not say what it is.

    The latter flashes while a card changes its state: it counts where it was seen twice, on a card
    that is not idle.
    """
    yield from _slowed(seen, _BRAKE, _held_by(seen, POWER_BRAKE))
    if seen.live:
        told = (POWER_BRAKE, HW_THERMAL, SW_THERMAL, GPU_IDLE)
        unnamed = _held_by(seen, HW_SLOWDOWN, but=told)
        yield from _slowed(seen, _UNNAMED, [g for g in unnamed if g.utilisation_share != 0])


def judge_hw_thermal(seen: Seen) -> Iterator[Finding]:
    """The card cuts its clocks because it is too hot."""
    yield from _slowed(seen, _TOO_HOT, _held_by(seen, HW_THERMAL))


def judge_sw_thermal(seen: Seen) -> Iterator[Finding]:
    """The driver lowers the clocks because the card or its memory is near its limit."""
    yield from _slowed(seen, _WARM, _held_by(seen, SW_THERMAL, but=(HW_THERMAL,)))


def judge_power_cap(seen: Seen) -> Iterator[Finding]:
    """A card at its power limit, unless the limit was lowered so far that this is told."""
    cards = [gpu for gpu in _held_by(seen, POWER_CAP) if not _bites(gpu, seen)]
    if cards:
        yield Finding(
            id="gpu.sw_power_cap",
            severity=Severity.INFO,
            subject=labels(cards),
            summary="The GPU runs at its power limit",
            evidence=tuple(evidence(gpu, f"{POWER_CAP} active{in_brackets(gpu)}") for gpu in cards),
            impact="Normal at full load: the core (SM) clock gives way, the memory clock does "
            "not, and decode is bound by memory",
            remedy=Remedy(text="None", action=Action.NONE),
            owner=Owner.USER,
        )


def _limit_share(gpu: Gpu) -> float | None:
    limit, default = gpu.power_limit_watts, gpu.default_power_limit_watts
    return limit / default if limit is not None and default else None


def _bites(gpu: Gpu, seen: Seen) -> bool:
    share = _limit_share(gpu)
    low = share is not None and share < seen.policy.thresholds.power_limit_warning_share
    return low and POWER_CAP in (gpu.clocks_event_reasons or ())


def judge_power_limit(seen: Seen) -> Iterator[Finding]:
    """A limit below the card's default; it costs something only where the card is held by it."""
    limits = seen.policy.thresholds
    cards = [
        gpu
        for gpu in ours(seen)
        if (share := _limit_share(gpu)) is not None and share < limits.power_limit_info_share
    ]
    if not cards:
        return
    biting = [gpu for gpu in cards if _bites(gpu, seen)]
    least = min(biting or cards, key=lambda gpu: _limit_share(gpu) or 1)
    yield Finding(
        id="gpu.power_limit_lowered",
        severity=Severity.WARNING if biting else Severity.INFO,
        subject=labels(biting or cards),
        summary=f"Power limit at {percent(_limit_share(least) or 0)} of the card's default"
        + (", and the card is held by it" if biting else ""),
        evidence=tuple(
            evidence(
                gpu,
                limit(gpu),
                f"{gpu.default_power_limit_watts:.0f} W by default",
            )
            for gpu in cards
        ),
        impact=clock_impact(biting, "Prompt processing is slower; the memory clock is untouched")
        if biting
        else "None now: the card is not held by it",
        remedy=Remedy(
            text="If the limit was not set on purpose, set the default again and read it back: "
            "some cards refuse without saying so",
            action=Action.CHANGE_SETTING,
            commands=default_power(cards),
            cost="More power and heat",
        ),
        owner=Owner.OPERATOR,
    )
