"""Figures out of the columns that a history hands on."""

from __future__ import annotations

import pytest

from nodecheck.records.figures import Figure, Kind, Metric, figures
from nodecheck.records.series import (
    DAY,
    HOUR,
    Bucket,
    Series,
    Window,
    buckets,
    every_point,
    hourly,
    series_of,
    stretches,
)
from nodecheck.records.state import State
from tests.records.windows import FIRST, assembled, counter, rate, room, three, window

NOTHING = State()


def snapshots(*rows: tuple[Figure, ...], every: int = HOUR) -> Window:
    return assembled(*((NOTHING, row) for row in rows), every=every)


def test_every_figure_of_a_report_comes_out_as_it_went_in() -> None:
    made = three()
    columns = window(made, made)
    for each in figures(made):
        found = series_of(columns, each.metric.name)
        assert found is not None
        assert found.metric == each.metric
        assert found.values == (each.value, each.value)
        assert found.flagged == (bool(each.flags),) * 2
        assert found.times == (FIRST, FIRST + HOUR)


def test_a_figure_that_some_snapshots_lack_has_the_others_points() -> None:
    quick, full = (room("disk_available@/", 1.0),), (rate("dram_read@8", 5.0),)
    found = series_of(snapshots(full, quick, (*quick, *full), quick), "dram_read@8")
    assert found is not None
    assert found.times == (FIRST, FIRST + 2 * HOUR)


def test_a_figure_that_changed_its_unit_is_that_of_the_newest() -> None:
    old = Figure(metric=Metric("power", "W", Kind.RATE, more_is_better=None), value=300.0)
    found = series_of(snapshots((old,), (rate("power", 7.0),)), "power")
    assert found is not None
    assert (found.metric.unit, found.values) == ("B/s", (7.0,))


def test_there_is_no_figure_that_no_snapshot_has() -> None:
    assert series_of(snapshots((room("disk_available@/", 1.0),)), "dram_read@8") is None
    assert series_of(Window(), "dram_read@8") is None


@pytest.mark.parametrize("number", [1, 7, 8, 9, 30])
def test_each_of_many_figures_has_its_own_flag(number: int) -> None:
    flagged = [place % 3 == 0 for place in range(number)]
    row = tuple(rate(f"r@{n}", n, *(("contended",) if f else ())) for n, f in enumerate(flagged))
    columns = snapshots(row)
    assert [s.flagged[0] for s in hourly(columns, Kind.RATE)] == flagged
    assert [bool(s.clean()) for s in hourly(columns, Kind.RATE)] == [not f for f in flagged]
    for place, expected in enumerate(flagged):
        found = series_of(columns, f"r@{place}")
        assert found is not None
        assert found.flagged == (expected,)


def test_an_hour_is_told_by_its_snapshot_that_was_disturbed_least() -> None:
    rows = [
        (rate("dram_read@8", minute, *(() if minute in (20, 40) else ("contended",))),)
        for minute in range(180)
    ]
    (series,) = hourly(snapshots(*rows, every=60), Kind.RATE)
    assert series.values == (40, 119, 179)
    assert series.flagged == (False, True, True)


def test_every_point_is_there_flagged_or_not() -> None:
    quick = (room("disk_available@/", 1.0),)
    full = (*quick, rate("dram_read@8", 5.0)), (*quick, rate("dram_read@8", 4.0, "contended"))
    rows = [full[minute // 10 % 2] if minute % 10 == 0 else quick for minute in range(600)]
    columns = snapshots(*rows, every=60)
    for kind in (Kind.RATE, Kind.ROOM):
        (series,) = every_point(columns, kind)
        assert series == series_of(columns, series.metric.name)
    (read,) = every_point(columns, Kind.RATE)
    assert (len(read.values), sum(read.flagged)) == (60, 30)
    assert every_point(Window(), Kind.RATE) == ()


def test_an_hour_of_room_is_told_by_its_last_snapshot() -> None:
    rows = [(room("disk_available@/", 1000.0 - minute),) for minute in range(600)]
    (series,) = hourly(snapshots(*rows, every=60), Kind.ROOM)
    assert series.values[-1] == 1000 - 599
    assert len(series.values) == 10


def test_full_snapshots_among_many_quick_ones_are_all_found() -> None:
    quick, full = (room("disk_available@/", 1.0),), (rate("dram_read@8", 5.0),)
    rows = [full + quick if n % 60 == 30 else quick for n in range(60 * 24)]
    (series,) = hourly(snapshots(*rows, every=60), Kind.RATE)
    assert len(series.values) == 24


def test_a_mount_that_went_is_no_series_and_one_that_failed_once_is() -> None:
    root, gone = room("disk_available@/", 1.0), room("disk_available@/mnt", 1.0)
    flaky = room("disk_available@/srv", 1.0)
    rows = [(root, gone, flaky)] * 24 + [(root, flaky)] * 47 + [(root,)]
    names = {series.metric.name for series in hourly(snapshots(*rows), Kind.ROOM)}
    assert names == {"disk_available@/", "disk_available@/srv"}


def test_kinds_are_kept_apart() -> None:
    columns = snapshots((counter("ecc", 1), rate("dram_read@8", 5.0), room("disk@/", 2.0)))
    for kind, name in ((Kind.RATE, "dram_read@8"), (Kind.ROOM, "disk@/"), (Kind.COUNTER, "ecc")):
        assert [series.metric.name for series in hourly(columns, kind)] == [name]
    assert hourly(columns, Kind.MOMENTARY) == ()
    assert hourly(Window(), Kind.RATE) == ()


def test_stretches_are_counted_back_from_the_newest() -> None:
    points = [(time, float(time)) for time in (0, 1, 9, 10, 25)]
    assert [[t for t, _ in part] for part in stretches(points, 10)] == [[0, 1], [9, 10], [25]]


def test_buckets_are_whole_days_and_leave_out_days_of_few_points() -> None:
    points = [(FIRST + HOUR * n, float(n // 24)) for n in range(10 * 24)]
    found = buckets(points, 120)
    assert [each.value for each in found] == [float(n) for n in range(10)]
    assert found[0] == Bucket(FIRST, 0.0, 24)
    assert len(buckets(points[:48] + points[70:], 120)) == 9
    assert [each.points for each in buckets(points, 5)] == [48] * 5


def test_clean_points_are_those_without_a_flag() -> None:
    series = Series(
        metric=rate("dram_read@8", 1.0).metric,
        times=(0, DAY), values=(1.0, 2.0), flagged=(True, False),
    )  # fmt: skip
    assert series.clean() == [(DAY, 2.0)]
