"""Quantisations by the speed at which this CPU decodes them: the smallest is not always fastest."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between, figure
from nodecheck.judge.rates.ceilings import Range, engine_level
from nodecheck.judge.rates.cpu_rates import used_up
from nodecheck.judge.rates.weight_types import MEASURED_TYPES, as_type, bits_per_weight
from nodecheck.judge.ways.offload import cpu_speed
from nodecheck.model import Struct
from nodecheck.serving import Workload
from nodecheck.units import gb_per_second

COMPARED = ("q4_0", "q4_k", "q8_0", "f16")
"""Types that every model is offered in; those measured here are compared beside them."""

INVERTED_FROM = 1.5
"""Times as many weights a second as of a smaller type, from which instructions invert the ranking.
Source: 3.5 to 4 with SSE2 alone, below 1.1 from SSSE3 on."""

CLEAR_FROM = 1.3
"""Times as fast, in the middle of both ranges, from which the model's own speed is inverted too."""


class Ranked(Struct, frozen=True):
    """A type, its bits a weight, and what this CPU makes of the model in it.

    `weights_per_second` are those that the cores alone use up, `speed` is tokens a second.
    """

    weight_type: str
    bits: float
    weights_per_second: float
    speed: Range

    @property
    def middle(self) -> float:
        """Of the range; its upper end where that is all that is known."""
        return ((self.speed.low or self.speed.high) + self.speed.high) / 2


def ranked(seen: Seen, work: Workload) -> list[Ranked]:
    """The model in each type whose speed on this CPU is known, fastest first."""
    measured = [t for t in MEASURED_TYPES if node.decode_rate(seen.measurements, t)]
    every = (_ranked(seen, work, kind) for kind in dict.fromkeys((*COMPARED, *measured)))
    return sorted((each for each in every if each), key=lambda each: -each.middle)


def _ranked(seen: Seen, work: Workload, weight_type: str) -> Ranked | None:
    bits, other = bits_per_weight(weight_type), as_type(work, weight_type)
    rate = used_up(seen, weight_type)
    speed = cpu_speed(seen, other) if other else None
    if bits is None or rate is None or speed is None:
        return None
    return Ranked(weight_type, bits, (rate.floor + rate.high) / 2 * 8 / bits, speed)


def ranking(seen: Seen, work: Workload) -> tuple[str, ...]:
    """One line where this CPU's instructions favour a larger type over smaller ones, or none."""
    order = ranked(seen, work)
    best = max(order, key=lambda each: each.weights_per_second, default=None)
    if best is None:
        return ()
    slower = [each for each in order if _is_inverted(best, each)]
    if not slower:
        return ()
    nearest = max(slower, key=lambda each: each.middle)
    said = _faster if best.middle >= CLEAR_FROM * nearest.middle else _no_slower
    return (_where(seen) + said(seen, best, nearest, slower),)


def _is_inverted(best: Ranked, other: Ranked) -> bool:
    return (
        other.bits < best.bits
        and best.weights_per_second >= INVERTED_FROM * other.weights_per_second
    )


def _faster(_: Seen, best: Ranked, nearest: Ranked, slower: list[Ranked]) -> str:
    return (
        f"{best.weight_type} decodes this model at {_span(best.speed)} tok/s, {_rates(slower)}: "
        f"{figure(best.middle / nearest.middle)} times as fast as {nearest.weight_type} at "
        f"{figure(best.bits / nearest.bits)} times its size. Take no smaller type for speed there"
    )


def _no_slower(seen: Seen, best: Ranked, nearest: Ranked, slower: list[Ranked]) -> str:
    """Memory takes the gain away: then a smaller type gains as little."""
    factor = best.weights_per_second / nearest.weights_per_second
    read = node.best_read(seen.measurements)
    held = f" ({gb_per_second(read.median_bytes_per_second)})" if read else ""
    return (
        f"cores use up {figure(factor)} times as many {best.weight_type} weights a second as "
        f"{nearest.weight_type} ones, and DRAM{held} takes that gain away: "
        f"{best.weight_type} decodes this model at {_span(best.speed)} tok/s, {_rates(slower)}. "
        "A smaller type gains little there"
    )


def _rates(slower: list[Ranked]) -> str:
    return ", ".join(f"{each.weight_type} at {_span(each.speed)}" for each in slower)


def _span(speed: Range) -> str:
    return f"<= {figure(speed.high)}" if speed.low is None else between(speed.low, speed.high)


def _where(seen: Seen) -> str:
    """Which instructions it is, and whether their rates were measured here."""
    cpu = seen.facts.cpu
    level = engine_level(cpu.usable_flags or cpu.flags or ())
    measured = any(m.name.startswith("decode_") for m in seen.measurements)
    return f"On the CPU, with {level or 'these instructions'}{'' if measured else ' (reference)'}, "
