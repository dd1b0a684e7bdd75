"""Which pass is due when, whatever happens to the one before."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.daemon.passes import FULL, LIGHT
from nodecheck.daemon.schedule import (
    AGAIN_SECONDS,
    FIRST_FULL_SECONDS,
    FULL_JITTER,
    JITTER,
    MOST_INTERVALS,
    Schedule,
)

MINUTE, HOURS = 60.0, 6 * 3600.0


def schedule(
    *, interval: float = MINUTE, kernels: float | None = HOURS, chance: float = 0.5
) -> Schedule:
    return Schedule(interval, kernels, 0.0, lambda: chance)


def settled(made: Schedule) -> Schedule:
    """After a first light and a first full pass, at 1000 s."""
    made.ended(LIGHT, 0.0)
    made.ended(FULL, 1000.0)
    return made


def test_the_first_light_pass_is_due_at_once_and_a_full_one_soon_after() -> None:
    made = schedule()
    assert made.due(0.0) == LIGHT
    made.ended(LIGHT, 1.0)
    assert made.due(1.0) is None
    assert made.due(62.0) == LIGHT
    assert made.due(1.0 + FIRST_FULL_SECONDS / 2) == FULL
    assert made.due(FIRST_FULL_SECONDS / 2) == LIGHT


def test_no_full_pass_comes_before_a_light_one_has_ended_well() -> None:
    made = schedule(chance=0.0)
    for now in range(0, 10_000, 10):
        if kind := made.due(now):
            assert kind == LIGHT
            made.failed(LIGHT, now)


def test_where_nothing_is_measured_no_full_pass_is_due() -> None:
    made = schedule(kernels=None)
    made.ended(LIGHT, 0.0, again=True)
    assert made.due(1e9) == LIGHT


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.999])
def test_passes_are_spread_around_their_intervals(chance: float) -> None:
    made = settled(schedule(chance=chance))
    light = MINUTE * (1 - JITTER + 2 * JITTER * chance)
    assert made.seconds_left(1000.0) == pytest.approx(light)
    full = HOURS * (1 - FULL_JITTER + 2 * FULL_JITTER * chance)
    assert made.due(1000.0 + full - 1) == LIGHT
    assert made.due(1000.0 + full + 1) == FULL


def test_a_full_pass_stands_for_the_light_one() -> None:
    made = settled(schedule())
    assert made.due(1001.0) is None


def test_what_a_sleeping_guest_missed_does_not_pile_up() -> None:
    made = settled(schedule())
    woken = 1000.0 + 10 * HOURS
    assert made.due(woken) == FULL
    made.ended(FULL, woken)
    assert made.due(woken) is None
    assert made.seconds_left(woken) == MINUTE


def test_a_node_that_was_busy_is_measured_soon() -> None:
    made = settled(schedule())
    made.ended(FULL, 30_000.0, skipped=True)
    assert made.due(30_000.0 + AGAIN_SECONDS - 1) == LIGHT
    assert made.due(30_000.0 + AGAIN_SECONDS) == FULL


def test_a_fault_that_was_measured_is_looked_at_again_however_often_it_is_told() -> None:
    made = settled(schedule())
    for now in (1060.0, 1120.0, 1180.0):
        made.ended(LIGHT, now, again=True)
    assert made.due(1060.0 + AGAIN_SECONDS) == FULL
    assert made.due(1059.0 + AGAIN_SECONDS) == LIGHT


def test_failing_is_tried_again_less_and_less_often_but_never_rarely() -> None:
    made, now, waits = schedule(), 0.0, []
    for _ in range(6):
        made.failed(LIGHT, now)
        waits.append(made.seconds_left(now))
        now += waits[-1]
    assert waits == [60.0, 120.0, 180.0, 180.0, 180.0, 180.0]
    made.ended(LIGHT, now)
    assert made.seconds_left(now) == MINUTE


def test_a_full_pass_that_failed_does_not_keep_the_light_ones_waiting() -> None:
    made = settled(schedule())
    made.failed(FULL, 30_000.0)
    assert made.due(30_061.0) == LIGHT
    assert made.due(30_000.0 + AGAIN_SECONDS * 1.2) == FULL


def test_after_a_reload_it_looks_at_once_and_goes_by_the_new_intervals() -> None:
    made = settled(schedule())
    made.change(10.0, 600.0, 2000.0)
    made.hurry(2000.0)
    assert made.due(2000.0) == LIGHT
    made.ended(LIGHT, 2000.0)
    assert made.seconds_left(2000.0) == 10.0
    assert made.due(2000.0 + 601.0) == FULL
    made.change(10.0, None, 2000.0)
    assert made.due(1e9) == LIGHT
    made.change(10.0, 600.0, 2000.0)
    assert made.due(2000.0 + 601.0) == FULL


@given(
    st.randoms(use_true_random=False),
    st.floats(10, 1000),
    st.one_of(st.none(), st.floats(600, 1e5)),
    st.lists(st.sampled_from(["ok", "again", "skipped", "failed"]), max_size=60),
)
def test_something_is_always_due_in_time(
    chance: random.Random, interval: float, kernels: float | None, ends: list[str]
) -> None:
    made, now = Schedule(interval, kernels, 0.0, chance.random), 0.0
    made.ended(LIGHT, now)  # a full pass may come right after it
    for end in ends:
        assert made.seconds_left(now) <= MOST_INTERVALS * interval + 1e-6
        now += made.seconds_left(now) + 1e-6
        kind = made.due(now)
        assert kind is not None
        if end == "failed":
            made.failed(kind, now)
        else:
            made.ended(kind, now, again=end == "again", skipped=end == "skipped")
        assert made.due(now) is None


def test_a_fleet_that_starts_at_once_is_soon_spread() -> None:
    nodes = [Schedule(60.0, HOURS, 0.0, random.Random(number).random) for number in range(200)]
    starts = []
    for made in nodes:
        now, full = 0.0, None
        while full is None:
            now += made.seconds_left(now)
            if made.due(now) == FULL:
                full = now
            made.ended(LIGHT, now)
        starts.append(full)
    fullest = max(sum(at <= start < at + 10 for start in starts) for at in range(0, 300, 10))
    assert fullest < 20
    assert max(starts) - min(starts) > 250
