"""The curve at a terminal: where fast and slow settings lie, what fits, what was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.model import Point
from nodecheck.render.layout import plain
from nodecheck.render.plan.curve import ROWS, Scale, draw, settings
from nodecheck.serving import Curve
from tests.render.plans import MOE, THREE_L40

NGL = THREE_L40.curves[0]
EXPERTS = MOE.curves[1]


def rows(curve: Curve, width: int = 80, **options: object) -> list[str]:
    """The plot's rows without the axis."""
    drawn = draw(curve, width, unicode=False, marks=options.get("marks", ()))  # type: ignore[arg-type]
    lines = plain(drawn).splitlines()
    assert len(lines) == ROWS + 2
    return [line[8:] for line in lines[:ROWS]]


def curve(*points: tuple[int, float | None, float]) -> Curve:
    return Curve(
        strategy="partial-offload",
        setting="-ngl",
        points=tuple(Point(setting=f"ngl {n}", low=low, high=high) for n, low, high in points),
    )


def column(drawn: list[str], at: int) -> list[int]:
    """The rows that are filled in a column."""
    return [row for row, line in enumerate(drawn) if line.ljust(at + 1)[at] != " "]


def test_more_layers_on_the_gpu_lie_to_the_right_and_higher() -> None:
    drawn = rows(NGL)
    last = max(len(line) for line in drawn) - 1
    assert min(column(drawn, last)) == 0
    assert max(column(drawn, 0)) == ROWS - 1
    tops = [min(column(drawn, at)) for at in range(last + 1)]
    assert tops == sorted(tops, reverse=True)


def test_more_experts_on_the_cpu_lie_to_the_right_and_lower() -> None:
    drawn = rows(EXPERTS)
    assert min(column(drawn, 0)) == 0
    assert min(column(drawn, len(drawn[-2]) - 1)) > ROWS // 2


def test_a_wide_range_is_logarithmic_and_a_narrow_one_starts_at_zero() -> None:
    wide, narrow = Scale.of(NGL), Scale.of(EXPERTS)
    assert wide.logarithmic
    assert wide.share(3.0) == pytest.approx(
        (wide.share(1.0) + wide.share(9.0)) / 2
    )  # equal factors lie equally far apart
    assert not narrow.logarithmic
    assert narrow.share(0.0) == 0
    assert narrow.share(narrow.top / 2) == pytest.approx(0.5)


def test_the_ends_of_the_axes_are_told() -> None:
    lines = plain(draw(NGL, 80, unicode=False)).splitlines()
    assert lines[0].split()[0] == "42"
    assert lines[ROWS - 1].split()[0] == "0.2"
    assert lines[-1].split() == ["0", "16", "32", "49", "65", "-ngl"]


def test_what_the_vram_does_not_hold_is_drawn_otherwise() -> None:
    drawn = rows(EXPERTS)
    width = max(map(len, drawn))
    for at in range(width):
        filled = {line[at] for line in drawn if len(line) > at} - {" "}
        number = round(at / (width - 1) * 48)
        if abs(number - 22) > 1:
            assert filled == ({"#"} if number > 22 else {":"})


def test_what_was_measured_is_an_x_where_it_lies() -> None:
    drawn = rows(NGL, marks=[(50, 3.72), (99, 38.0), (0, 0.07)])
    found = [(row, line.index("x")) for row, line in enumerate(drawn) if "x" in line]
    width = max(map(len, drawn))
    assert found[0] == (0, width - 1)  # -ngl 99 is the same as 65
    assert found[-1] == (ROWS - 1, 0)
    assert found[1][1] == round(50 / 65 * (width - 1))


def test_a_ceiling_alone_is_a_line() -> None:
    drawn = rows(curve((0, None, 4.0), (10, None, 6.0), (20, None, 8.0)))
    assert all(len(column(drawn, at)) == 1 for at in range(len(drawn[0])))


@pytest.mark.parametrize("points", [[], [(5, 1.0, 2.0)], [(0, 0.0, 0.0), (1, 0.0, 0.0)]])
def test_without_two_settings_nothing_is_drawn(points: list[tuple[int, float, float]]) -> None:
    assert draw(curve(*points), 80, unicode=True) == []


def test_settings_are_read_by_their_last_number() -> None:
    made = Curve(
        strategy="expert-offload",
        setting="--n-cpu-moe",
        points=(
            Point(setting="q4 ncmoe 12", low=1.0, high=2.0),
            Point(setting="all", low=1.0, high=2.0),
            Point(setting="ncmoe 3", low=1.0, high=2.0),
        ),
    )
    assert [each.number for each in settings(made)] == [3, 12]


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.floats(0, 1e6) | st.none(), st.floats(0, 1e6)),
        max_size=40,
    ),
    st.integers(60, 140),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 10_000), st.floats(0.001, 1e6)), max_size=3),
)
def test_any_curve_can_be_drawn_within_the_width(
    points: list[tuple[int, float | None, float]],
    width: int,
    unicode: bool,
    marks: list[tuple[int, float]],
) -> None:
    text = plain(draw(curve(*points), width, unicode=unicode, marks=marks))
    assert all(len(line) <= width for line in text.splitlines())
    assert unicode or text.isascii()
