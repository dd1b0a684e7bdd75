"""A figure over time at a terminal: where it lies, what proves nothing, when nothing was seen."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.records.series import Series
from nodecheck.render.history.drawing import FLAG_MARK, ROWS, draw, summary
from nodecheck.render.layout import plain
from tests.render.histories import DISK, ECC, FIRST, HOUR, LATENCY, READ, measured, series

WIDTHS = pytest.mark.parametrize("width", [40, 80, 120])
ASCII_AXIS = re.compile(r"^ *([\d.,]*) \|(.*)$")


def rows(drawn: Series, width: int = 80) -> list[str]:
    """The plot's rows without the axis, in ASCII, from the top."""
    found = [ASCII_AXIS.match(line) for line in lines(drawn, width)]
    return [match[2] for match in found if match]


def lines(drawn: Series, width: int = 80, *, unicode: bool = False) -> list[str]:
    return plain(draw(drawn, width, unicode=unicode)).splitlines()


def filled(drawn: list[str]) -> list[bool]:
    """Of each column, whether anything is in it."""
    return [any(row) for row in itertools.zip_longest(*([c != " " for c in r] for r in drawn))]


@WIDTHS
@pytest.mark.parametrize("unicode", [True, False])
def test_it_keeps_within_the_width(width: int, unicode: bool) -> None:
    drawn = lines(measured(), width, unicode=unicode)
    assert len(drawn) == ROWS + 3
    assert max(map(len, drawn)) <= width
    assert max(map(len, drawn)) >= width - 12  # and makes use of it


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert "".join(lines(measured())).isascii()
    assert not "".join(lines(measured(), unicode=True)).isascii()


def test_more_is_higher_and_later_is_to_the_right() -> None:
    rising = rows(series(DISK, *((hour, hour * 2.0**30) for hour in range(100))))
    heights = [min(n for n, row in enumerate(rising) if row[at : at + 1].strip()) for at in (0, 68)]
    assert heights == [ROWS - 1, 0]


def test_the_axes_tell_unit_figures_and_times() -> None:
    drawn = lines(measured())
    assert drawn[0].split() == ["GB/s"]
    assert [line.split()[0] for line in drawn[1:] if line[4:6].strip()][:2] == ["24", "22"]
    assert drawn[-1].split() == ["UTC", "11-05", "11-12", "11-19", "11-26"]
    assert lines(series(LATENCY, (0, 98e-9), (9, 104e-9)))[0].split() == ["ns"]


@WIDTHS
def test_a_time_without_snapshots_stays_empty(width: int) -> None:
    seen = filled(rows(measured(flagged=0), width))
    gap = [at for at, any_ in enumerate(seen) if not any_]
    assert 0.03 < len(gap) / len(seen) < 0.09  # 2 days of 30
    assert gap == list(range(gap[0], gap[-1] + 1))
    assert 0.24 < gap[0] / len(seen) < 0.36
    assert "Nothing was recorded for 2 days from" in " ".join(summary(measured()))


def test_a_missed_snapshot_is_no_gap_and_several_gaps_are_told_as_the_longest() -> None:
    hours = [*range(50), *range(52, 100), *range(120, 150), *range(200, 240)]
    drawn = series(READ, *((hour, 24e9 + hour) for hour in hours))
    said = " ".join(summary(drawn))
    assert "2 times nothing was recorded, the longest 2 days from 2026-11-05" in said
    assert "recorded" not in " ".join(summary(series(READ, *((h, 24e9) for h in hours[:98]))))


def test_what_is_flagged_is_marked_and_left_out_of_the_figures() -> None:
    one = series(READ, *((hour, 24e9 + hour % 5 * 1e8) for hour in range(100)))
    flagged = Series(
        metric=READ,
        times=(*one.times, FIRST + 100 * HOUR),
        values=(*one.values, 12e9),
        flagged=(*one.flagged, True),
    )
    drawn = rows(flagged)
    assert drawn[-1].strip() == FLAG_MARK
    assert "".join(drawn).count(FLAG_MARK) == 1
    said = " ".join(summary(flagged))
    assert said.startswith("24.0-24.4 GB/s, median 24.2 GB/s, 100 values. 1 flagged (")
    assert "drawn as x and left out" in said
    assert FLAG_MARK not in "".join(rows(one))


def test_where_all_is_flagged_nothing_is_concluded() -> None:
    flagged = series(READ, (0, 20e9), (1, 21e9), (2, 19e9), flagged=True)
    assert set("".join(rows(flagged))) == {" ", FLAG_MARK}
    assert "All of it is flagged" in " ".join(summary(flagged))


def test_one_value_is_a_sentence() -> None:
    one = series(READ, (0, 24.1e9))
    assert draw(one, 80, unicode=True) == []
    assert summary(one) == ["One value: 24.1 GB/s, 2026-10-30 13:28Z."]


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        (series(DISK, *((hour, 57 * 2**30) for hour in range(9))), "57 GiB, 9 values."),
        (series(ECC, *((hour, 0) for hour in range(9))), "0, 9 values."),
    ],
)
def test_what_never_changes_is_a_level_line(drawn: Series, said: str) -> None:
    assert summary(drawn) == [said]
    (line,) = (row for row in rows(drawn) if row.strip())
    assert set(line) == {"*"}


def test_noise_is_not_drawn_as_mountains() -> None:
    quiet = series(READ, *((hour, 24e9 * (1 + hour % 2 * 1e-4)) for hour in range(200)))
    assert sum(bool(row.strip()) for row in rows(quiet)) <= 2


def test_a_counter_has_whole_figures_beside_it() -> None:
    drawn = lines(series(ECC, *((hour, hour // 50) for hour in range(120))))
    beside = [match[1] for match in map(ASCII_AXIS.match, drawn) if match and match[1]]
    assert beside == ["2", "1", "0"]


POINTS = st.lists(
    st.tuples(st.integers(1, 10**7), st.just(0.0) | st.floats(1, 1e15), st.booleans()),
    min_size=1,
    max_size=40,
)


@given(POINTS, st.integers(40, 140), st.booleans())
def test_any_series_can_be_drawn(
    points: list[tuple[int, float, bool]], width: int, unicode: bool
) -> None:
    times = tuple(FIRST + at for at in itertools.accumulate(step for step, _, _ in points))
    _, values, flags = zip(*points, strict=True)
    for metric, unit in ((READ, 1), (ECC, 1), (DISK, 1), (LATENCY, 1e-9)):
        scaled = tuple(unit * value for value in values)
        drawn = Series(metric=metric, times=times, values=scaled, flagged=flags)
        assert all(len(line) <= width for line in lines(drawn, width, unicode=unicode))
        assert summary(drawn)
