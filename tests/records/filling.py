"""Disks that fill up, hour by hour, for as long as one asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

DAILY = 10.0
"""GB that go a day, where any do."""

HISTORY_HOURS = 720

Disk = Callable[[Random], Iterator[float]]
"""What is there beside what was at first, in GB."""


def evenly(_chance: Random) -> Iterator[float]:
    left = 0.0
    while True:
        left -= DAILY / 24
        yield left


def by_uneven_days(chance: Random) -> Iterator[float]:
    """Some days much, some days next to nothing."""
    left = 0.0
    while True:
        today = chance.expovariate(1 / DAILY)
        for _ in range(24):
            left -= today / 24
            yield left


def to_and_fro(chance: Random) -> Iterator[float]:
    """Files come and go; more come."""
    left = 0.0
    while True:
        left += chance.gauss(-DAILY / 24, DAILY / math.sqrt(24))
        yield left


def with_temporary_files(chance: Random) -> Iterator[float]:
    """Five days' worth comes each day and goes at midnight."""
    for hour, left in enumerate(evenly(chance)):
        yield left - 5 * DAILY * (hour % 24) / 24


def with_a_download(chance: Random) -> Iterator[float]:
    """Twenty days' worth at once."""
    at = chance.randrange(HISTORY_HOURS)
    for hour, left in enumerate(evenly(chance)):
        yield left - (20 * DAILY if hour >= at else 0)


def with_a_clean_up(chance: Random) -> Iterator[float]:
    """Fifteen days' worth goes at once."""
    at = chance.randrange(HISTORY_HOURS)
    for hour, left in enumerate(evenly(chance)):
        yield left + (15 * DAILY if hour >= at else 0)


def of_late(_chance: Random) -> Iterator[float]:
    """Nothing for four weeks, then evenly."""
    left, hour = 0.0, 0
    while True:
        left -= DAILY / 24 if hour > HISTORY_HOURS - 48 else 0
        hour += 1
        yield left


def steady(_chance: Random) -> Iterator[float]:
    while True:
        yield 0.0


def one_download(chance: Random) -> Iterator[float]:
    at = chance.randrange(HISTORY_HOURS)
    hour = 0
    while True:
        yield -100.0 if hour >= at else 0.0
        hour += 1


def up_and_down_each_day(_chance: Random) -> Iterator[float]:
    hour = 0
    while True:
        yield 6 * math.sin(2 * math.pi * hour / 24)
        hour += 1


def emptied(every_hours: int) -> Disk:
    """It fills, and is emptied again."""

    def made(chance: Random) -> Iterator[float]:
        hour = chance.randrange(every_hours)
        while True:
            yield -DAILY * (hour % every_hours) / 24
            hour += 1

    return made


FILLING: dict[str, Disk] = {
    "evenly": evenly,
    "by uneven days": by_uneven_days,
    "to and fro": to_and_fro,
    "with temporary files": with_temporary_files,
    "with a download": with_a_download,
    "with a clean-up": with_a_clean_up,
    "of late": of_late,
}

NOT_FILLING: dict[str, Disk] = {
    "steady": steady,
    "one download": one_download,
    "up and down each day": up_and_down_each_day,
    "emptied each day": emptied(24),
    "emptied each week": emptied(168),
}
