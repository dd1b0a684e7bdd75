"""Judges whether busy cards work at the clocks that they could have."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.clocks import HOLDING, clock_impact, in_brackets, state
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import evidence, label, labels, ours, selector
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Finding, Owner, Remedy, Severity
from nodecheck.units import percent


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
                "the driver. "
                "Stop tools that set performance states",
                action=Action.RELOAD_DRIVER,
                commands=(
                    f"sudo nvidia-smi -i {selector(cards)} -rgc",
                    f"sudo nvidia-smi -i {selector(cards)} -rmc",
                    f"sudo nvidia-smi -i {selector(cards)} -pm 1",
                ),
                cost="None for the clocks; work on the GPUs ends for a reload",
            ),
            owner=Owner.OPERATOR,
        )


def _stuck_summary(cards: list[Gpu]) -> str:
    first, more = cards[0], len(cards) - 1
    who = f"{label(first)} and {more} more stay" if more else f"{label(first)} stays"
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
            summary="The GPU is fully busy at a low clock, and no power or thermal reason is "
            "active",
            evidence=tuple(
                evidence(
                    gpu,
                    f"{percent(gpu.utilisation_share or 0)} busy, {state(gpu)}",
                    f"{percent(seen.policy.thresholds.low_sm_clock_share)} of the maximum SM "
                    "clock or more",
                    "clock event reasons: " + (", ".join(gpu.clocks_event_reasons or ()) or "none")
                    if gpu.clocks_event_reasons is not None
                    else "clock event reasons were not read",
                )
                for gpu in cards
            ),
            impact=clock_impact(cards, "Prompt processing slows down with the clock"),
            remedy=Remedy(
                text="Look for clock locks, which no reason shows, and reset them. Busy only "
                "means that "
                "some kernel runs: the load may be too light to raise the clock",
                action=Action.CHANGE_SETTING,
                commands=(
                    f"nvidia-smi -i {selector(cards)} -q -d CLOCK",
                    f"sudo nvidia-smi -i {selector(cards)} -rgc",
                ),
                cost="None",
            ),
            owner=Owner.OPERATOR,
        )


def _is_slow(gpu: Gpu, seen: Seen) -> bool:
    limits = seen.policy.thresholds
    if gpu.utilisation_share is None or gpu.sm_clock_mhz is None or not gpu.maximum_sm_clock_mhz:
        return False
    held = any(reason in (gpu.clocks_event_reasons or ()) for reason in HOLDING)
    at_limit = (
        gpu.power_watts is not None
        and gpu.power_limit_watts is not None
        and gpu.power_watts >= limits.power_at_limit_share * gpu.power_limit_watts
    )
    return (
        gpu.utilisation_share >= limits.loaded_gpu_share
        and gpu.sm_clock_mhz < limits.low_sm_clock_share * gpu.maximum_sm_clock_mhz
        and not (_is_stuck(gpu, seen) or held or at_limit)
    )
