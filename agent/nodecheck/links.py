"""PCIe links in numbers: generations, their speeds, and what a link carries. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0}
"""Transfer rate of a PCIe generation in GT/s a lane."""

GENERATIONS = {rate: generation for generation, rate in GTS.items()}

ENCODED_MBS = {1: 2000, 2: 4000, 3: 7876, 4: 15753, 5: 31507, 6: 64000}
"""Mb/s a lane after encoding, as Linux computes it."""


def generation(gts: float | None) -> str:
    """16.0 as `Gen4`."""
    return f"Gen{GENERATIONS[gts]}" if gts in GENERATIONS else f"{gts} GT/s"


def encoded_bytes_per_second(gts: float | None, width: int | None) -> float | None:
    """What a link of this speed and width carries one way after encoding; None if not known."""
    number = GENERATIONS.get(gts or 0)
    if number not in ENCODED_MBS or width is None:
        return None
    return ENCODED_MBS[number] * width * 1e6 / 8


def holds_a_switch(vendors: Sequence[str | None]) -> bool:
    """Whether a way to the root, by the vendors of its devices, begins with a switch of the card's.

    Graphics cards of AMD and Intel hold one, two ports of the card's own vendor: the link above the
    card itself is then within it, and says nothing of the slot.
    """
    own = vendors[0] if vendors else None
    return own is not None and len(vendors) > 3 and vendors[1] == vendors[2] == own


def normal_errors_per_minute(gts: float, lanes: int, per_gts: float) -> int:
    """Errors that a healthy link corrects a minute, at `per_gts` a lane for each GT/s: rounded up.

    Source: the replay rates of DCGM's health check, GT/s x 60 / 1000 a lane.
    """
    return math.ceil(round(gts * per_gts * lanes, 6))


def is_normal(errors: int, expected: float, chance: float) -> bool:
    """Whether chance alone reaches so many where so many are expected.

    Errors that come independently of one another follow Poisson's law. For k above the expected
    number m the tail is at most the term of k times (k + 1) / (k + 1 - m).
    """
    if errors <= expected:
        return True
    if expected <= 0:
        return False
    term = errors * math.log(expected) - expected - math.lgamma(errors + 1)
    tail = term + math.log((errors + 1) / (errors + 1 - expected))
    return tail >= math.log(chance) if chance > 0 else True
