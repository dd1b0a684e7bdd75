"""Judges whether busy cards work at the clocks that they could have."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.clocks import (
    EXPLAINING,
    GPU_IDLE,
    NEAR_MAXIMUM,
    OTHER_LIMITS,
    clock_impact,
    in_brackets,
    state,
)
from nodecheck.checks.gpu.commands import keep_loaded, unlock_clocks
from nodecheck.checks.gpu.facts import HW_SLOWDOWN, Gpu
from nodecheck.checks.gpu.wording import evidence, labels, ours
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import percent


def _computes(gpu: Gpu) -> bool:
    """Whether its load is that of programs which compute, as far as that is known.

    The reason gpu_idle contradicts any load; a desktop draws in whatever state is enough for it.
    """
    draws = bool(gpu.processes) and all(each.kind == "graphics" for each in gpu.processes or ())
    return GPU_IDLE not in (gpu.clocks_event_reasons or ()) and not draws


def _is_stuck(gpu: Gpu, seen: Seen) -> bool:
    limits = seen.policy.thresholds
    return (
        _computes(gpu)
        and gpu.utilisation_share is not None
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
            summary=_stuck_summary(cards),
            evidence=tuple(
                evidence(
                    gpu,
                    f"P{gpu.performance_state}, {percent(gpu.utilisation_share or 0)} "
                    f"busy{in_brackets(gpu)}",
                    f"P0 to P{seen.policy.thresholds.stuck_performance_state - 1} under load",
                    "P2 is normal for CUDA work",
                )
                for gpu in cards
            ),
            impact=_memory_impact(first),
            remedy=Remedy(
                text="Reset the clock locks and turn persistence mode on; if it stays, reload "
                "the driver. Stop tools that set performance states",
                action=Action.RELOAD_DRIVER,
                commands=(*unlock_clocks(cards), *keep_loaded(cards)),
                cost="None for the clocks; work on the GPUs ends for a reload",
            ),
            owner=Owner.OPERATOR,
        )


def _stuck_summary(cards: list[Gpu]) -> str:
    first, more = cards[0], len(cards) - 1
    who = f"{first.label} and {more} more stay" if more else f"{first.label} stays"
    return (
        f"{who} in performance state P{first.performance_state} of an idle card (full speed is P0) "
        f"at {percent(first.utilisation_share or 0)} load"
    )


def _memory_impact(gpu: Gpu) -> str:
    now, most = gpu.memory_clock_mhz, gpu.maximum_memory_clock_mhz
    if now is None or not most:
        return clock_impact(
            [gpu], "Clocks of an idle card: decode and prompt processing many times slower"
        )
    share = percent(now / most)
    return f"Memory clock {now} of {most} MHz: decode at about {share} of what the card can do"


def judge_clocks(seen: Seen) -> Iterator[Finding]:
    """A loaded card whose clock is low though nothing that is known holds it."""
    cards = [gpu for gpu in ours(seen) if _is_slow(gpu, seen)]
    if cards:
        yield Finding(
            id="gpu.clocks_low_under_load",
            severity=Severity.WARNING,
            subject=labels(cards),
            summary="The GPU is fully busy at a low clock, and no power cap or heat explains it",
            evidence=tuple(_slow(gpu, seen) for gpu in cards),
            impact=_slow_impact(cards),
            remedy=Remedy(
                text="Look for clock locks, which no reason shows, and reset them. Busy only "
                "means that some kernel runs: the load may be too light to raise the clock. Where "
                "hw_slowdown stays active check power and cooling",
                action=Action.CHANGE_SETTING,
                commands=unlock_clocks(cards),
                cost="None",
            ),
            owner=Owner.OPERATOR,
        )


def _slow(gpu: Gpu, seen: Seen) -> Evidence:
    limits, reasons = seen.policy.thresholds, gpu.clocks_event_reasons
    share, clock = limits.low_sm_clock_share, "SM"
    if not _is_low(gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz, share):
        share, clock = limits.low_memory_clock_share, "memory"
    memory = ""
    if gpu.memory_clock_mhz is not None and gpu.maximum_memory_clock_mhz:
        memory = f", memory clock {gpu.memory_clock_mhz} of {gpu.maximum_memory_clock_mhz} MHz"
    level = gpu.performance_level
    forced = f", performance level {level}" if level not in (None, "auto") else ""
    told = "were not read" if reasons is None else ", ".join(reasons) or "none"
    return evidence(
        gpu,
        f"{percent(gpu.utilisation_share or 0)} busy, {state(gpu)}{memory}{forced}",
        f"{percent(share)} of the maximum {clock} clock or more",
        f"clock event reasons: {told}" if reasons is not None else f"clock event reasons {told}",
    )


def _slow_impact(cards: list[Gpu]) -> str:
    shares = [
        gpu.memory_clock_mhz / gpu.maximum_memory_clock_mhz
        for gpu in cards
        if gpu.memory_clock_mhz is not None and gpu.maximum_memory_clock_mhz
    ]
    least = min(shares, default=1.0)
    if least > NEAR_MAXIMUM:
        return clock_impact(cards, "Prompt processing slows down with the clock")
    decode = f"Memory clock at {percent(least)} of its maximum; decode slows down with it"
    prompts = clock_impact(cards, "")
    return f"{decode}. {prompts}" if prompts else decode


def _is_slow(gpu: Gpu, seen: Seen) -> bool:
    limits = seen.policy.thresholds
    if (gpu.utilisation_share or 0) < limits.loaded_gpu_share or not _computes(gpu):
        return False
    reasons = gpu.clocks_event_reasons or ()
    held = any(each in EXPLAINING or each.startswith(OTHER_LIMITS) for each in reasons)
    held = held or (seen.live and HW_SLOWDOWN in reasons)  # seen twice, it is a finding of its own
    at_limit = (
        gpu.power_watts is not None
        and gpu.power_limit_watts is not None
        and gpu.power_watts >= limits.power_at_limit_share * gpu.power_limit_watts
    )
    sm = _is_low(gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz, limits.low_sm_clock_share)
    memory = _is_low(
        gpu.memory_clock_mhz, gpu.maximum_memory_clock_mhz, limits.low_memory_clock_share
    )
    return (sm or memory) and not (_is_stuck(gpu, seen) or held or at_limit)


def _is_low(now: int | None, most: int | None, share: float) -> bool:
    return now is not None and bool(most) and now < share * (most or 0)
