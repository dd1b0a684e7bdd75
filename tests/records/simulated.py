"""Figures over a month as nodes give them: with noise of many kinds, and with drift."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from nodecheck.records.series import Points
from tests.records.windows import FIRST

NOISE = 0.03
"""Standard deviation of a measurement, as a share. Source: within 10 % of each other."""

NEAR, FAR = 35.0, 62.0
"""GB/s of two threads, as the host places them; measured on a guest of two vCPUs."""

Values = list[float]
Kind = Callable[[Random, int, float], Values]
"""So many values, so many hours apart."""


def points(values: Values, hours: float) -> Points:
    return [(FIRST + round(3600 * hours * n), value) for n, value in enumerate(values)]


def noise(chance: Random, number: int, _hours: float) -> Values:
    return [chance.gauss(1, NOISE) for _ in range(number)]


def wander(correlated_hours: float) -> Kind:
    """Noise that follows itself: AR(1)."""

    def made(chance: Random, number: int, hours: float) -> Values:
        keep = math.exp(-hours / correlated_hours)
        off, values = chance.gauss(0, NOISE), []
        for _ in range(number):
            values.append(1 + off)
            off = keep * off + chance.gauss(0, NOISE * math.sqrt(1 - keep * keep))
        return values

    return made


def two_levels(far_share: float, far_hours: float) -> Kind:
    """The host moves the CPUs apart for so long at a time, and back."""
    stays = far_hours * (1 - far_share) / far_share, far_hours

    def made(chance: Random, number: int, hours: float) -> Values:
        far, values = chance.random() < far_share, []
        left = chance.expovariate(1 / stays[far])
        for _ in range(number):
            while left <= 0:
                far = not far
                left += chance.expovariate(1 / stays[far])
            values.append((FAR if far else NEAR) * chance.gauss(1, NOISE))
            left -= hours
        return values

    return made


def busy(share: float, every_hours: int, busy_hours: int) -> Kind:
    """Less by a share for some hours of each day or week, whenever the history begins."""

    def made(chance: Random, number: int, hours: float) -> Values:
        start = chance.uniform(0, every_hours)
        return [
            chance.gauss(1, NOISE) * (1 - share * ((start + n * hours) % every_hours < busy_hours))
            for n in range(number)
        ]

    return made


def heavy_tails(chance: Random, number: int, _hours: float) -> Values:
    """Student's t of two degrees of freedom."""
    spread = (math.sqrt(chance.gammavariate(1, 1)) for _ in range(number))
    return [max(0.01, 1 + NOISE * chance.gauss(0, 1) / each) for each in spread]


def with_outliers(kind: Kind, share: float) -> Kind:
    """Some passes lose four tenths, without a flag."""

    def made(chance: Random, number: int, hours: float) -> Values:
        values = kind(chance, number, hours)
        return [value * (0.6 if chance.random() < share else 1) for value in values]

    return made


def step(by: float, within: tuple[float, float]) -> Kind:
    """At a time within this part of the history."""

    def made(chance: Random, number: int, _hours: float) -> Values:
        at = number * chance.uniform(*within)
        return [chance.gauss(1, NOISE) * (1 if n < at else 1 + by) for n in range(number)]

    return made


def slope(by: float) -> Kind:
    """So much from the first to the last."""

    def made(chance: Random, number: int, _hours: float) -> Values:
        return [chance.gauss(1, NOISE) * (1 + by * n / number) for n in range(number)]

    return made


STEADY: dict[str, Kind] = {
    "noise of 3 %": noise,
    "noise that lasts 6 hours": wander(6),
    "noise that lasts a day": wander(24),
    "two levels, half each, 6 hours at a time": two_levels(0.5, 6),
    "two levels, half each, a day at a time": two_levels(0.5, 24),
    "two levels, a tenth, 2 hours at a time": two_levels(0.1, 2),
    "two levels, a tenth, 8 hours at a time": two_levels(0.1, 8),
    "two levels, a tenth, a day at a time": two_levels(0.1, 24),
    "a fifth less by day": busy(0.2, 24, 9),
    "a fifth less at weekends": busy(0.2, 168, 48),
    "heavy tails": heavy_tails,
    "a tenth outliers": with_outliers(noise, 0.1),
}
"""Nothing of it is drift."""

DRIFTING: dict[str, Kind] = {
    "a step of -10 %": step(-0.1, (0.25, 0.9)),
    "a step of +10 %": step(0.1, (0.25, 0.9)),
    "a slope of -10 %": slope(-0.1),
    "a slope of +10 %": slope(0.1),
}

LASTING: dict[str, Kind] = {
    "noise that lasts 4 days": wander(96),
    "two levels, half each, 3 days at a time": two_levels(0.5, 72),
}
"""Nothing of it is drift, which a month does not tell for sure."""

FAINT: dict[str, Kind] = {
    "a step of -10 %, 4 % outliers": with_outliers(step(-0.1, (0.25, 0.9)), 0.04),
    "a step of -7 %": step(-0.07, (0.25, 0.9)),
}
"""Drift that a month does not tell for sure."""
