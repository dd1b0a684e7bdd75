"""Figures in words: amounts with units, times, and round figures for an axis."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.records.figures import Kind, Metric
from nodecheck.render.metrics import (
    Scale,
    amount,
    became,
    between,
    duration,
    moment,
    ticks,
    time_ticks,
    timestamp,
)

DAY = 86_400
NOON = 1_795_953_600  # 2026-11-29 12:00 UTC


def metric(name: str, unit: str = "") -> Metric:
    return Metric(name, unit, Kind.RATE)


@pytest.mark.parametrize(
    ("name", "unit", "value", "words"),
    [
        ("dram_read@8", "B/s", 24.1e9, "24.1 GB/s"),
        ("dram_read@8", "B/s", 161.4e9, "161 GB/s"),
        ("dram_read@8", "B/s", 0.94e9, "0.94 GB/s"),
        ("dram_latency@0", "s", 98.2e-9, "98.2 ns"),
        ("dram_latency@0", "s", 1.2e-6, "1.20 us"),
        ("disk_available@/", "B", 57 * 2**30, "57 GiB"),
        ("inodes_free@/", "", 9_000_000, "9,000,000"),
        ("steal_share", "", 0.034, "3.40 %"),
        ("gpu_temperature@0", "C", 61, "61 C"),
        ("load_1min", "", 0.5, "0.50"),
        ("inodes_free@/", "", 61_000_000, "61 million"),
        ("ecc_corrected@0", "", 0, "0"),
    ],
)
def test_an_amount_has_three_digits_and_its_unit(
    name: str, unit: str, value: float, words: str
) -> None:
    assert amount(metric(name, unit), value) == words


def test_two_amounts_share_the_unit_of_the_larger() -> None:
    disk = metric("disk_available@/", "B")
    assert between(disk, 0.5 * 2**30, 3.1 * 2**30) == "0.50-3.10 GiB"
    assert between(disk, 2**30, 2**30) == "1 GiB"
    assert became(metric("dram_read@8", "B/s"), 24.1e9, 21.9e9) == "24.1 -> 21.9 GB/s"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (9.98, 10.04, "10.0 GB/s"),
        (10.0, 10.04, "10.0 GB/s"),
        (10.0, 10.2, "10.0-10.2 GB/s"),
        (9.0, 10.2, "9.0-10.2 GB/s"),
        (9.0, 9.25, "9.00-9.25 GB/s"),
        (9.0, 10.0, "9-10 GB/s"),
        (95.25, 204.4, "95-204 GB/s"),
        (0.25, 1234.0, "0-1,234 GB/s"),
    ],
)
def test_two_amounts_have_the_digits_of_the_larger(low: float, high: float, words: str) -> None:
    rate = metric("dram_read@8", "B/s")
    assert between(rate, low * 1e9, high * 1e9) == words


def test_what_a_figure_became_has_the_digits_of_the_larger() -> None:
    assert became(metric("dram_read@8", "B/s"), 24e9, 20.44e9) == "24.0 -> 20.4 GB/s"
    assert became(metric("dram_latency@0", "s"), 104e-9, 98.2e-9) == "104 -> 98 ns"


def test_times_are_utc_and_say_so() -> None:
    assert moment(NOON) == "2026-11-29 12:00Z"
    assert timestamp(NOON + 5) == "2026-11-29T12:00:05Z"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 seconds"), (59, "59 seconds"), (60, "1 minute"), (5400, "90 minutes"),
     (7200, "2 hours"), (36 * 3600, "36 hours"), (30 * DAY, "30 days")],
)  # fmt: skip
def test_a_duration_is_told_in_the_unit_that_fits(seconds: int, words: str) -> None:
    assert duration(seconds) == words


@given(
    st.floats(-1e15, 1e15),
    st.floats(1e-9, 1e15),
    st.integers(2, 8),
)
def test_ticks_are_few_round_and_within_the_axis(low: float, height: float, most: int) -> None:
    high = low + height
    if high - low < abs(high) * 1e-6:
        return
    shown = ticks(low, high, most)
    assert 1 <= len(shown) <= most
    assert all(low - 1e-6 * height <= value <= high + 1e-6 * height for value in shown)
    assert len(set(shown.values())) == len(shown)


def test_ticks_are_written_with_the_same_digits() -> None:
    assert list(ticks(23.2, 25.1, 5).values()) == ["23.5", "24.0", "24.5", "25.0"]
    assert list(ticks(0, 41_000, 5).values()) == ["0", "10,000", "20,000", "30,000", "40,000"]
    assert list(ticks(0, 1, 8, 1.0).values()) == ["0", "1"]


@given(st.integers(0, 4_000_000_000), st.integers(60, 40 * 365 * DAY), st.integers(2, 9))
def test_times_on_an_axis_are_few_and_within_it(first: int, length: int, most: int) -> None:
    shown = time_ticks(first, first + length, most)
    assert 1 <= len(shown) <= most
    assert all(first <= time <= first + length for time in shown)


def test_times_on_an_axis_tell_day_hour_or_year_as_needed() -> None:
    assert list(time_ticks(NOON, NOON + 4 * 3600, 5).values()) == [
        "12:00", "13:00", "14:00", "15:00", "16:00",
    ]  # fmt: skip
    assert "11-30" in time_ticks(NOON, NOON + DAY, 5).values()
    assert list(time_ticks(NOON - 9 * DAY, NOON, 6).values()) == [
        "11-21", "11-23", "11-25", "11-27", "11-29",
    ]  # fmt: skip
    assert all(
        label.startswith(("2025-", "2026-"))
        for label in time_ticks(NOON - 400 * DAY, NOON, 6).values()
    )


@given(st.floats(1e-12, 1e18))
def test_a_scale_keeps_the_figure(value: float) -> None:
    for unit in ("B/s", "s", "B", ""):
        scale = Scale.of(metric("x", unit), value)
        read = float(scale.figure(value).replace(",", ""))
        assert math.isclose(read * scale.per, value, rel_tol=0.01, abs_tol=scale.per * 0.005)
