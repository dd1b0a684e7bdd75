"""What befalls a simulated day: one fault after the other, every kind in each round, by a seed."""

from __future__ import annotations

import random
from typing import NamedTuple

from nodecheck.daemon.own_metrics import FAILED, TIMEOUT

MINUTE, HOUR = 60, 3600

FAILING = {
    "crash": FAILED,
    "exit": FAILED,
    "traceback": FAILED,
    "garbage": FAILED,
    "cut": FAILED,
    "empty": FAILED,
    "flood": FAILED,
    "hang": TIMEOUT,
    "stubborn": TIMEOUT,
    "unkillable": TIMEOUT,
}
"""Kinds with which no pass gives a report, and as what that is counted."""

REAL = frozenset({"real", "full_disk", "damaged"})
"""Kinds in which a light pass is the real collector's."""

SLOW = frozenset({"slow", "suspended"})
KINDS = (
    *FAILING, *sorted(REAL), *sorted(SLOW), "sick", "clock_back", "clock_forward", "busy",
    "broken_policy",
)  # fmt: skip

CALM = 6 * MINUTE
"""Between two faults: a pass that failed is tried again within 3.3 intervals."""

LONG = {"hang": 9, "exit": 9, "unkillable": 7}
"""Minutes after which what was last known is stale, in the short day."""


class Fault(NamedTuple):
    """From when to when, in seconds of the day."""

    kind: str
    start: float
    end: float


def faults(hours: float, kinds: tuple[str, ...], chance: random.Random) -> list[Fault]:
    """As many as fit. 0 hours: each kind once, shortly.

    A flood comes first: the allocator keeps what it took, and what is held is compared later.
    """
    found: list[Fault] = []
    end = CALM * 1.5
    while not found or end < hours * HOUR - 2 * CALM:
        for kind in sorted(chance.sample(kinds, len(kinds)), key=lambda kind: kind != "flood"):
            start = end + (CALM if not hours else chance.uniform(1, 2) * CALM)
            end = start + _seconds(kind, hours > 0, chance)
            found.append(Fault(kind, start, end))
    return [each for each in found if not hours or each.end < hours * HOUR - CALM]


def _seconds(kind: str, is_long: bool, chance: random.Random) -> float:
    if kind == "busy":
        return chance.uniform(2, 3) * HOUR if is_long else 25 * MINUTE
    if not is_long:
        return LONG.get(kind, 3) * MINUTE
    return chance.choice((3, 4, 6, 10)) * MINUTE
