"""Drift: called where a level was left for good, and not where a figure varies by itself."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from nodecheck.records.figures import Kind, Metric
from nodecheck.records.history.drift import Drift, drift, drifts, is_enough
from nodecheck.records.series import DAY, HOUR, Points, Series
from tests.records import simulated
from tests.records.windows import FIRST

READ = Metric("dram_read@8", "B/s", Kind.RATE, more_is_better=True)
LATENCY = Metric("dram_latency@0", "s", Kind.RATE, more_is_better=False)
HOURS = 2.0
"""Between two measurements."""

MONTH = 360
"""So many of them."""

WITHOUT, WITH = 1000, 200
"""Series that are simulated."""


def series(points: Points, metric: Metric = READ) -> Series:
    times, values = zip(*points, strict=True)
    return Series(metric=metric, times=times, values=values, flagged=(False,) * len(times))


def of(kind: simulated.Kind, chance: Random, number: int = MONTH, hours: float = HOURS) -> Series:
    return series(simulated.points(kind(chance, number, hours), hours))


def called(kind: simulated.Kind, name: str, number: int) -> list[Drift]:
    chance = Random(name)
    return [found for _ in range(number) if (found := drift(of(kind, chance)))]


@pytest.mark.parametrize("name", simulated.STEADY)
def test_what_varies_by_itself_is_called_drift_once_in_a_hundred_at_most(name: str) -> None:
    assert len(called(simulated.STEADY[name], name, WITHOUT)) <= WITHOUT // 100


@pytest.mark.parametrize("name", simulated.DRIFTING)
def test_a_tenth_in_a_month_is_found(name: str) -> None:
    found = called(simulated.DRIFTING[name], name, WITH)
    assert len(found) >= 0.95 * WITH
    assert all(each.gradual is name.startswith("a slope") for each in found[:20])
    assert all(0.06 < abs(each.change) < 0.14 for each in found)


@pytest.mark.parametrize("name", simulated.LASTING)
def test_what_lasts_for_days_is_called_drift_once_in_twenty_at_most(name: str) -> None:
    assert len(called(simulated.LASTING[name], name, WITH)) <= WITH // 20


@pytest.mark.parametrize("name", simulated.FAINT)
def test_what_is_faint_is_found_every_other_time(name: str) -> None:
    assert len(called(simulated.FAINT[name], name, WITH)) >= 0.5 * WITH


def test_a_third_less_on_the_last_day_of_a_month_is_found() -> None:
    chance = Random("last day")
    kind = simulated.step(-0.3, (29 / 30, 29 / 30))
    found = [drift(of(kind, chance, 720, 1.0)) for _ in range(50)]
    assert all(found)


def test_a_drift_says_since_when_from_what_and_to_what() -> None:
    found = drift(of(simulated.step(-0.2, (0.5, 0.5)), Random(1), 720, 1.0))
    assert found is not None
    assert abs(found.since - (FIRST + 15 * DAY)) <= 2 * HOUR
    assert found.before == pytest.approx(1.0, abs=0.01)
    assert found.after == pytest.approx(0.8, abs=0.01)
    assert found.change == pytest.approx(-0.2, abs=0.01)
    assert found.spread < 0.02
    assert found.points == 720
    assert found.worse is True


def test_more_latency_is_worse_and_less_is_better() -> None:
    slower = of(simulated.step(0.2, (0.5, 0.5)), Random(1))
    faster = of(simulated.step(-0.2, (0.5, 0.5)), Random(1))
    worse, better = (drift(replace(each, metric=LATENCY)) for each in (slower, faster))
    assert worse is not None
    assert better is not None
    assert (worse.worse, better.worse) == (True, False)


def test_worse_is_told_first_then_the_largest() -> None:
    made = [
        replace(
            of(simulated.step(by, (0.5, 0.5)), Random(1)),
            metric=Metric(str(by), "B/s", Kind.RATE, more_is_better=True),
        )
        for by in (-0.1, 0.5, -0.3, 0.2)
    ]
    assert [each.metric.name for each in drifts(made)] == ["-0.3", "-0.1", "0.5", "0.2"]


def test_disturbed_points_are_left_out() -> None:
    made = of(simulated.noise, Random(1))
    half = MONTH // 2
    slow = tuple(value * (1 if n < half else 0.5) for n, value in enumerate(made.values))
    disturbed = tuple(n >= half and n % 3 > 0 for n in range(MONTH))
    kept = tuple(
        value if flag else made.values[n]
        for n, (value, flag) in enumerate(zip(slow, disturbed, strict=True))
    )
    assert drift(replace(made, values=slow)) is not None
    assert drift(replace(made, values=kept, flagged=disturbed)) is None


def test_a_level_that_was_there_before_is_no_drift() -> None:
    chance = Random(2)
    days = [simulated.NEAR] * 10 + [simulated.FAR] * 2 + [simulated.NEAR] * 15 + [simulated.FAR] * 3
    values = [day * chance.gauss(1, 0.03) for day in days for _ in range(12)]
    assert drift(series(simulated.points(values, HOURS))) is None


def test_what_came_back_is_no_drift() -> None:
    values = [1.0] * 150 + [0.7] * 60 + [1.0] * 150
    assert drift(series(simulated.points(values, HOURS))) is None


def test_a_week_with_a_day_is_the_least_that_tells() -> None:
    values = [1.0] * (7 * 12) + [0.7] * 12
    assert drift(series(simulated.points(values[12:], HOURS))) is None
    assert drift(series(simulated.points(values, HOURS))) is not None


@pytest.mark.parametrize("number", [0, 1, 2, 5, 12])
def test_a_few_points_tell_nothing(number: int) -> None:
    points = simulated.points([1.0] * (number // 2) + [0.1] * (number - number // 2), 24.0)
    assert not is_enough(points)
    empty = Series(metric=READ, times=(), values=(), flagged=())
    assert drift(series(points) if points else empty) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_figure_that_never_varies_does_not_drift(value: float) -> None:
    assert drift(series(simulated.points([value] * MONTH, HOURS))) is None


def test_a_figure_that_falls_to_nothing_drifts() -> None:
    found = drift(series(simulated.points([1.0] * 180 + [0.0] * 180, HOURS)))
    assert found is not None
    assert (found.after, found.change, found.spread) == (0.0, -1.0, 0.0)


def test_one_measurement_a_day_tells_a_fifth_less() -> None:
    chance = Random("daily")
    kind = simulated.step(-0.2, (0.4, 0.6))
    found = [drift(of(kind, chance, 30, 24.0)) for _ in range(100)]
    assert sum(each is not None for each in found) >= 95
