"""Round trips are taken between all pairs, or evenly chosen ones where they are many."""

from __future__ import annotations

import os
import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nodecheck._native")

from nodecheck.checks.dram import placement
from nodecheck.machine import kernels

CPUS = tuple(sorted(os.sched_getaffinity(0)))


def ping_pong(first: int, second: int, passes: int) -> tuple[float, ...]:
    """The distance in nanoseconds, and passes that something else disturbed."""
    return tuple(1e-9 * (abs(second - first) + off) for off in (5, 900, 0, 0.25, 7))[:passes]


@pytest.fixture
def told_by_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "ping_pong", ping_pong)


@pytest.mark.usefixtures("told_by_numbers")
@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
def test_all_pairs_of_a_few_cpus(count: int) -> None:
    trips = placement.along(tuple(range(count)))
    assert [trip.cpus for trip in trips] == list(combinations(range(count), 2))
    assert all(
        trip.seconds == pytest.approx(1e-9 * (trip.cpus[1] - trip.cpus[0])) for trip in trips
    )


@pytest.mark.usefixtures("told_by_numbers")
@pytest.mark.parametrize("count", [9, 28, 29, 30, 96, 512])
def test_of_many_cpus_the_first_and_some_of_all(count: int) -> None:
    cpus = tuple(range(100, 100 + count))
    pairs = [trip.cpus for trip in placement.along(cpus)]
    assert all(first == 100 and second in cpus[1:] for first, second in pairs)
    assert len(set(pairs)) == len(pairs)
    assert min(count - 1, 14) <= len(pairs) <= placement.ALONG_MOST
    assert pairs[-1][1] > 100 + (count - 1) * 0.9  # from one end to the other


@pytest.mark.usefixtures("told_by_numbers")
@pytest.mark.parametrize("count", [1, 2, 3, 12, 40])
def test_everywhere_is_every_pair_once(count: int) -> None:
    trips = placement.everywhere(tuple(range(count)), 60.0)
    assert sorted(trip.cpus for trip in trips) == list(combinations(range(count), 2))


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), unique=True))
def test_an_order_leaves_no_pair_out(pairs: list[tuple[int, int]]) -> None:
    assert sorted(placement._strided(pairs)) == sorted(pairs)


def test_where_time_is_up_those_that_were_taken_lie_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter(range(10_000))
    monkeypatch.setattr(kernels, "ping_pong", ping_pong)
    monkeypatch.setattr("nodecheck.checks.dram.placement.time.monotonic", lambda: float(next(now)))
    trips = placement.everywhere(tuple(range(64)), 100.0)
    assert 90 <= len(trips) <= 100
    assert len({trip.cpus[0] for trip in trips}) > 30


def test_no_time_is_no_round_trip() -> None:
    assert placement.everywhere(CPUS, 0.0) == ()
    assert placement.everywhere(CPUS, -1.0) == ()


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_round_trips_of_this_machine() -> None:
    began = time.monotonic()
    trips = placement.along(CPUS[:2])
    assert [trip.cpus for trip in trips] == [CPUS[:2]]
    assert 1e-9 < trips[0].seconds < time.monotonic() - began


def test_a_cpu_that_is_not_ours_is_an_oserror() -> None:
    with pytest.raises(OSError, match="4095"):
        placement.along((CPUS[0], 4095))
