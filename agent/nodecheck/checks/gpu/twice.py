"""What is looked at twice on a live node, since one look may meet what only flashes."""

from __future__ import annotations

import msgspec

from nodecheck.checks.gpu.card_files import lasting
from nodecheck.checks.gpu.facts import HOLDING, Gpu
from nodecheck.machine.nvml import SEEMS_BUSY_PERCENT, SLOW_STATE


def is_doubtful(gpu: Gpu) -> bool:
    """Whether its clocks are held, or it works in a slow state: either may be over already."""
    return _is_held(gpu) or _seems_stuck(gpu)


def settled(gpu: Gpu, second: Gpu | None) -> Gpu:
    """The card by two looks: reasons that both show, its state and load by the later one.

    Without a second look neither is known.
    """
    found: dict[str, object] = {}
    if _is_held(gpu):
        again = second.clocks_event_reasons if second else None
        found["clocks_event_reasons"] = lasting(gpu.clocks_event_reasons or (), again)
    if _seems_stuck(gpu):
        for member in (
            "performance_state",
            "utilisation_share",
            "sm_clock_mhz",
            "memory_clock_mhz",
        ):
            found[member] = getattr(second, member) if second else None
    return msgspec.structs.replace(gpu, **found)


def _is_held(gpu: Gpu) -> bool:
    return not set(gpu.clocks_event_reasons or ()).isdisjoint(HOLDING)


def _seems_stuck(gpu: Gpu) -> bool:
    """Load is an average over up to a second before, the state is of this moment."""
    busy = 100 * (gpu.utilisation_share or 0) >= SEEMS_BUSY_PERCENT
    return busy and (gpu.performance_state or 0) >= SLOW_STATE
