"""Clocks, power and temperature of a card in the words of a finding. Pure."""

from __future__ import annotations

from nodecheck.checks.gpu.facts import HW_THERMAL, POWER_BRAKE, POWER_CAP, SW_THERMAL, Gpu
from nodecheck.units import percent

EXPLAINING = (POWER_BRAKE, HW_THERMAL, SW_THERMAL, POWER_CAP)
"""Those that say why. hw_slowdown alone names no cause, and may only flash while the card changes
its state."""

GPU_IDLE = "gpu_idle"
"""Nothing runs on the card, whatever its load was a moment ago."""

OTHER_LIMITS = ("amd_", "intel_")
"""How limits begin that only AMD or Intel name, of current for one: they explain a low clock."""


NEAR_MAXIMUM = 0.97
"""Of a clock's maximum: from there on it costs nothing worth a word."""


def state(gpu: Gpu) -> str:
    """Clocks, power and temperature as far as they are known."""
    drawn = ""
    if gpu.power_watts is not None and gpu.power_limit_watts:
        drawn = f"draws {gpu.power_watts:.0f} W, limit {gpu.power_limit_watts:.0f} W"
    return ", ".join(part for part in (_clock(gpu), drawn, _heat(gpu)) if part)


def limit(gpu: Gpu) -> str:
    """The power limit, what is drawn of it, clock and temperature."""
    held = f"limit {gpu.power_limit_watts or 0:.0f} W"
    drawn = f"draws {gpu.power_watts:.0f} W" if gpu.power_watts is not None else ""
    return ", ".join(part for part in (held, drawn, _clock(gpu), _heat(gpu)) if part)


def _clock(gpu: Gpu) -> str:
    if gpu.sm_clock_mhz is None or not gpu.maximum_sm_clock_mhz:
        return ""
    return f"SM clock {gpu.sm_clock_mhz} of {gpu.maximum_sm_clock_mhz} MHz"


def _heat(gpu: Gpu) -> str:
    return "" if gpu.temperature_celsius is None else f"{gpu.temperature_celsius} °C"


def in_brackets(gpu: Gpu) -> str:
    """The state after a value, nothing where nothing of it is known."""
    known = state(gpu)
    return f" ({known})" if known else ""


def clock_impact(cards: list[Gpu], otherwise: str) -> str:
    """What a low clock costs, by the worst card; `otherwise` where no clock was read."""
    shares = [
        gpu.sm_clock_mhz / gpu.maximum_sm_clock_mhz
        for gpu in cards
        if gpu.sm_clock_mhz is not None and gpu.maximum_sm_clock_mhz
    ]
    if not shares or min(shares) > NEAR_MAXIMUM:
        return otherwise
    return (
        f"SM clock at {percent(min(shares))} of its maximum; prompt processing slows down with it"
    )
