"""Forecasts: the day on which a disk is full lies in the range that was told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random

import pytest

from nodecheck.records.figures import Kind, Metric
from nodecheck.records.history.forecast import HORIZON_DAYS, Forecast, forecasts
from nodecheck.records.history.forecast import forecast as forecast_at
from nodecheck.records.series import DAY, HOUR, Series
from tests.records.filling import DAILY, FILLING, HISTORY_HOURS, NOT_FILLING, Disk
from tests.records.windows import FIRST

GB = 1e9
DISK = Metric("disk_available@/", "B", Kind.ROOM, more_is_better=True)
DISKS = 120
"""That are simulated."""

NOISE_GB = 0.5
"""Logs and caches."""


def room(values: Sequence[float], hours: int = 1, name: str = DISK.name) -> Series:
    """Of so many GB, so many hours apart."""
    return Series(
        metric=Metric(name, "B", Kind.ROOM, more_is_better=True),
        times=tuple(FIRST + HOUR * hours * n for n in range(len(values))),
        values=tuple(value * GB for value in values),
        flagged=(False,) * len(values),
    )


def forecast(series: Series) -> Forecast | None:
    """Asked at its last point."""
    return forecast_at(series, series.times[-1])


def told_and_true(disk: Disk, chance: Random) -> tuple[Forecast | None, float]:
    """What a month of it tells, and in how many days it is full in truth."""
    hours = disk(chance)
    seen = list(islice(hours, HISTORY_HOURS))
    left = chance.uniform(3, 200) * DAILY
    values = [left + each - seen[-1] + chance.gauss(0, NOISE_GB) for each in seen]
    full = next(n for n, each in enumerate(hours, start=1) if left + each - seen[-1] <= 0)
    return forecast(room(values)), full / 24


@pytest.mark.parametrize("name", FILLING)
def test_the_day_lies_in_the_range_nine_times_in_ten(name: str) -> None:
    chance = Random(name)
    pairs = [told_and_true(FILLING[name], chance) for _ in range(DISKS)]
    told = [(found.days, true) for found, true in pairs if found]
    right = sum(low <= true <= high for (low, high), true in told)
    assert right >= 0.9 * len(told)
    assert len(told) >= 0.7 * DISKS


@pytest.mark.parametrize("name", NOT_FILLING)
def test_a_disk_that_does_not_fill_is_not_told(name: str) -> None:
    chance = Random(name)
    for _ in range(DISKS):
        seen = list(islice(NOT_FILLING[name](chance), HISTORY_HOURS))
        values = [300 + each + chance.gauss(0, NOISE_GB) for each in seen]
        assert forecast(room(values)) is None


def test_a_forecast_says_what_is_left_and_what_goes_a_day() -> None:
    found = forecast(room([300 - 2 * n / 24 for n in range(720)]))
    assert found is not None
    assert found.left == pytest.approx(240 * GB, rel=0.01)
    assert found.newest == FIRST + 719 * HOUR
    assert found.per_day == pytest.approx((2 * GB, 2 * GB))


def test_an_even_loss_is_full_on_one_day() -> None:
    """65.9 GB, of which 4.5 go each day, are gone in 14.64 days."""
    found = forecast(room([65.9 + 4.5 * n / 24 for n in reversed(range(120))]))
    assert found is not None
    assert found.days == pytest.approx((65.9 / 4.5, 65.9 / 4.5))


def test_days_count_from_the_time_of_asking() -> None:
    series = room([65.9 + 4.5 * n / 24 for n in reversed(range(120))])
    later = forecast_at(series, series.times[-1] + 3 * DAY)
    assert later is not None
    assert later.days == pytest.approx((65.9 / 4.5 - 3, 65.9 / 4.5 - 3))
    by_now = forecast_at(series, series.times[-1] + 20 * DAY)
    assert by_now is not None
    assert by_now.days == (0, 0)


def test_a_disk_that_gains_is_not_told() -> None:
    assert forecast(room([300 + n / 24 for n in range(720)])) is None


def test_what_is_years_off_is_not_told() -> None:
    values = [10_000 - n / 24 for n in range(720)]
    assert HORIZON_DAYS < 9970
    assert forecast(room(values)) is None


def test_a_full_disk_is_full_now() -> None:
    found = forecast(room([max(0.0, 60 - 2 * n / 24) for n in range(720)]))
    assert found is not None
    assert found.left == pytest.approx(0, abs=0.1 * GB)
    assert found.days[0] < 0.1


def test_a_new_node_is_told_of_after_days_not_weeks() -> None:
    assert forecast(room([300 - 10 * n / 24 for n in range(20)])) is None
    found = forecast(room([300 - 10 * n / 24 for n in range(72)]))
    assert found is not None
    assert found.days == pytest.approx((27.04, 27.04), abs=0.01)


def test_one_snapshot_a_day_is_enough() -> None:
    found = forecast(room([300.0 - 5 * n for n in range(30)], hours=24))
    assert found is not None
    assert found.days == pytest.approx((31, 31))


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_a_few_points_tell_nothing(number: int) -> None:
    assert forecast(room([300.0 - 40 * n for n in range(number)], hours=24)) is None


def test_the_soonest_is_told_first() -> None:
    made = [
        room([300 - daily * n / 24 for n in range(720)], name=f"disk_available@/{daily}")
        for daily in (1, 5, 2)
    ]
    assert [each.metric.name[-1] for each in forecasts(made, made[0].times[-1])] == ["5", "2", "1"]
