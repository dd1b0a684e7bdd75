"""Judges what holds the cards' clocks. A power cap at full load is normal, a power brake never."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import evidence, labels, ours, selector
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Finding, Owner, Remedy, Severity
from nodecheck.units import percent

POWER_BRAKE, HW_THERMAL, SW_THERMAL, POWER_CAP, HW_SLOWDOWN = (
    "hw_power_brake_slowdown",
    "hw_thermal_slowdown",
    "sw_thermal_slowdown",
    "sw_power_cap",
    "hw_slowdown",
)
_HOLDING = (POWER_BRAKE, HW_THERMAL, SW_THERMAL, POWER_CAP, HW_SLOWDOWN)
_AT_LIMIT_SHARE = 0.95
"""A draw as near to the limit is at the limit, whether or not the reason was read."""


def _held_by(seen: Seen, reason: str, *, but: tuple[str, ...] = ()) -> list[Gpu]:
    return [
        gpu
        for gpu in ours(seen)
        if reason in (gpu.clocks_event_reasons or ())
        and not any(other in (gpu.clocks_event_reasons or ()) for other in but)
    ]


def _state(gpu: Gpu) -> str:
    """Clocks, power and temperature as far as they are known."""
    parts = []
    if gpu.sm_clock_mhz is not None and gpu.maximum_sm_clock_mhz:
        parts.append(f"SM clock {gpu.sm_clock_mhz} of {gpu.maximum_sm_clock_mhz} MHz")
    if gpu.power_watts is not None and gpu.power_limit_watts:
        parts.append(f"{gpu.power_watts:.0f} of {gpu.power_limit_watts:.0f} W")
    if gpu.temperature_celsius is not None:
        parts.append(f"{gpu.temperature_celsius} °C")
    return ", ".join(parts)


def _clock_impact(cards: list[Gpu], otherwise: str) -> str:
    shares = [
        gpu.sm_clock_mhz / gpu.maximum_sm_clock_mhz
        for gpu in cards
        if gpu.sm_clock_mhz is not None and gpu.maximum_sm_clock_mhz
    ]
    if not shares:
        return otherwise
    return f"SM clock at {percent(min(shares))} of its maximum; prompt processing slows down with it"


def _reason_finding(
    seen: Seen, id_: str, severity: Severity, cards: list[Gpu], reason: str, summary: str, remedy: Remedy
) -> Finding:
    basis = "active in two samples a second apart" if seen.live else "active in the one sample there is"
    return Finding(
        id=id_,
        severity=severity,
        subject=labels(cards),
        summary=summary,
        evidence=tuple(
            evidence(gpu, f"{reason} active" + (f" ({state})" if (state := _state(gpu)) else ""), "not active", basis)
            for gpu in cards
        ),
        impact=_clock_impact(cards, "clocks are cut, by half or more for the hardware's own slowdowns"),
        remedy=remedy,
        owner=Owner.HARDWARE,
    )


_COOLING = Remedy(
    text="Check fans, airflow, inlet temperature and dust; passive cards need the server's fans at the "
    "speed that the vendor asks for.",
    action=Action.CHANGE_SETTING,
    commands=("nvidia-smi -q -d TEMPERATURE,PERFORMANCE", "ipmitool sdr type fan"),
    cost="none for looking; the node is off for cleaning",
)


def judge_power_brake(seen: Seen) -> Iterator[Finding]:
    """The system pulls the card's power brake pin."""
    cards = _held_by(seen, POWER_BRAKE)
    if cards:
        yield _reason_finding(
            seen,
            "gpu.hw_power_brake_slowdown",
            Severity.CRITICAL,
            cards,
            POWER_BRAKE,
            "the server's power brake slows the GPU down",
            Remedy(
                text="Check power supplies and their redundancy, the card's power cabling and the power "
                "cap that the management controller sets.",
                action=Action.RESEAT,
                commands=("ipmitool sdr type 'Power Supply'", "ipmitool dcmi power reading"),
                cost="the node is off for work on cables",
            ),
        )


def judge_hw_thermal(seen: Seen) -> Iterator[Finding]:
    """The card cuts its clocks because it is too hot."""
    cards = _held_by(seen, HW_THERMAL)
    if cards:
        yield _reason_finding(
            seen,
            "gpu.hw_thermal_slowdown",
            Severity.CRITICAL,
            cards,
            HW_THERMAL,
            "the GPU is too hot and has cut its clocks",
            _COOLING,
        )


def judge_sw_thermal(seen: Seen) -> Iterator[Finding]:
    """The driver lowers the clocks because the card or its memory is near its limit."""
    cards = _held_by(seen, SW_THERMAL, but=(HW_THERMAL,))
    if cards:
        yield _reason_finding(
            seen,
            "gpu.sw_thermal_slowdown",
            Severity.WARNING,
            cards,
            SW_THERMAL,
            "the GPU or its memory is above its operating temperature",
            _COOLING,
        )


def judge_power_cap(seen: Seen) -> Iterator[Finding]:
    """A card at its power limit, unless the limit was lowered so far that this is told."""
    cards = [gpu for gpu in _held_by(seen, POWER_CAP) if not _bites(gpu, seen)]
    if cards:
        yield Finding(
            id="gpu.sw_power_cap",
            severity=Severity.INFO,
            subject=labels(cards),
            summary="the GPU runs at its power limit",
            evidence=tuple(evidence(gpu, f"{POWER_CAP} active ({_state(gpu)})") for gpu in cards),
            impact="normal at full load: the SM clock gives way, the memory clock does not, and decode is "
            "bound by memory",
            remedy=Remedy(text="None.", action=Action.NONE),
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
        summary=f"power limit at {percent(_limit_share(least) or 0)} of the card's default"
        + (", and the card is held by it" if biting else ""),
        evidence=tuple(
            evidence(
                gpu,
                f"limit {gpu.power_limit_watts:.0f} W" + (f" ({_state(gpu)})" if _state(gpu) else ""),
                f"{gpu.default_power_limit_watts:.0f} W by default",
            )
            for gpu in cards
        ),
        impact=_clock_impact(biting, "prompt processing is slower; the memory clock is untouched")
        if biting
        else "none now: the card is not held by it",
        remedy=Remedy(
            text="If the limit was not set on purpose, set the default again and read it back: some "
            "cards refuse without saying so.",
            action=Action.CHANGE_SETTING,
            commands=tuple(
                f"nvidia-smi -i {selector([gpu])} -pl {gpu.default_power_limit_watts:.0f}" for gpu in cards
            ),
            cost="more power and heat",
        ),
        owner=Owner.OPERATOR,
    )


def _is_stuck(gpu: Gpu, seen: Seen) -> bool:
    limits = seen.policy.thresholds
    return (
        gpu.utilisation_share is not None
        and gpu.performance_state is not None
        and gpu.utilisation_share >= limits.busy_gpu_share
        and gpu.performance_state >= limits.stuck_performance_state
    )


def judge_pstate(seen: Seen) -> Iterator[Finding]:
    """A card that works in a state that is for idling."""
    cards = [gpu for gpu in ours(seen) if _is_stuck(gpu, seen)]
    if cards:
        first = cards[0]
        yield Finding(
            id="gpu.pstate_stuck",
            severity=Severity.CRITICAL,
            subject=labels(cards),
            summary=f"the GPU stays in P{first.performance_state} although it is "
            f"{percent(first.utilisation_share or 0)} busy",
            evidence=tuple(
                evidence(
                    gpu,
                    f"P{gpu.performance_state}, {percent(gpu.utilisation_share or 0)} busy ({_state(gpu)})",
                    f"P0 to P{seen.policy.thresholds.stuck_performance_state - 1} under load",
                    "P2 is normal for CUDA work",
                )
                for gpu in cards
            ),
            impact=_memory_impact(first),
            remedy=Remedy(
                text="Reset the clock locks and turn persistence mode on; if it stays, reload the driver. "
                "Stop tools that set P-states.",
                action=Action.RELOAD_DRIVER,
                commands=(
                    f"nvidia-smi -i {selector(cards)} -rgc",
                    f"nvidia-smi -i {selector(cards)} -rmc",
                    f"nvidia-smi -i {selector(cards)} -pm 1",
                ),
                cost="none for the clocks; work on the GPUs ends for a reload",
            ),
            owner=Owner.OPERATOR,
        )


def _memory_impact(gpu: Gpu) -> str:
    now, most = gpu.memory_clock_mhz, gpu.maximum_memory_clock_mhz
    if now is None or not most:
        return _clock_impact([gpu], "clocks of an idle card: decode and prompt processing many times slower")
    return f"memory clock {now} of {most} MHz: decode at about {percent(now / most)} of what the card can do"


def judge_clocks(seen: Seen) -> Iterator[Finding]:
    """A loaded card whose clock is low though nothing that is known holds it."""
    cards = [gpu for gpu in ours(seen) if _is_slow(gpu, seen)]
    if cards:
        yield Finding(
            id="gpu.clocks_low_under_load",
            severity=Severity.WARNING,
            subject=labels(cards),
            summary="the GPU is fully busy at a low clock, and no power or thermal reason is active",
            evidence=tuple(
                evidence(
                    gpu,
                    f"{percent(gpu.utilisation_share or 0)} busy, {_state(gpu)}",
                    f"{percent(seen.policy.thresholds.low_sm_clock_share)} of the maximum SM clock or more",
                    "clock event reasons: " + (", ".join(gpu.clocks_event_reasons or ()) or "none")
                    if gpu.clocks_event_reasons is not None
                    else "clock event reasons were not read",
                )
                for gpu in cards
            ),
            impact=_clock_impact(cards, "prompt processing slows down with the clock"),
            remedy=Remedy(
                text="Look for clock locks, which no reason shows, and reset them. Busy only means that "
                "some kernel runs: the load may be too light to raise the clock.",
                action=Action.CHANGE_SETTING,
                commands=(
                    f"nvidia-smi -i {selector(cards)} -q -d CLOCK",
                    f"nvidia-smi -i {selector(cards)} -rgc",
                ),
                cost="none",
            ),
            owner=Owner.OPERATOR,
        )


def _is_slow(gpu: Gpu, seen: Seen) -> bool:
    limits = seen.policy.thresholds
    if gpu.utilisation_share is None or gpu.sm_clock_mhz is None or not gpu.maximum_sm_clock_mhz:
        return False
    held = any(reason in (gpu.clocks_event_reasons or ()) for reason in _HOLDING)
    at_limit = (
        gpu.power_watts is not None
        and gpu.power_limit_watts is not None
        and gpu.power_watts >= _AT_LIMIT_SHARE * gpu.power_limit_watts
    )
    return (
        gpu.utilisation_share >= limits.loaded_gpu_share
        and gpu.sm_clock_mhz < limits.low_sm_clock_share * gpu.maximum_sm_clock_mhz
        and not (_is_stuck(gpu, seen) or held or at_limit)
    )


