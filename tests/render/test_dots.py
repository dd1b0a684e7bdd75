"""Drawings in braille and in ASCII: lines, bands, marks and axes."""

from __future__ import annotations

import pytest

from nodecheck.render.dots import Canvas
from nodecheck.render.layout import Span, plain

UNICODE = pytest.mark.parametrize("unicode", [True, False])
DOT, MARK = Span("."), Span("x")


def shown(canvas: Canvas) -> list[str]:
    """The rows right of the axis."""
    return [line[canvas.left + 2 :] for line in plain(canvas.lines({})).splitlines()]


@UNICODE
def test_a_line_reaches_from_corner_to_corner(unicode: bool) -> None:
    canvas = Canvas(4, 4, 2, unicode=unicode)
    canvas.line([(0, 0), (1, 1)], DOT)
    drawn = shown(canvas)
    assert [len(row) for row in drawn] == [4, 3, 2, 1]
    assert all(row[:-1].isspace() for row in drawn[:-1])


@UNICODE
def test_a_point_alone_is_drawn(unicode: bool) -> None:
    canvas = Canvas(3, 3, 2, unicode=unicode)
    canvas.line([(0.5, 0.5)], DOT)
    assert [bool(row) for row in shown(canvas)] == [False, True, False]


@UNICODE
def test_a_mark_lies_over_what_is_drawn_or_gives_way_to_it(unicode: bool) -> None:
    canvas = Canvas(4, 2, 2, unicode=unicode)
    canvas.line([(0, 1), (1, 1)], DOT)
    canvas.mark((0, 1), MARK)
    canvas.mark((1, 1), MARK, over=False)
    canvas.mark((0, 0), MARK, over=False)
    top, bottom = shown(canvas)
    assert (top[0], top[3] == "x", bottom) == ("x", False, "x")


@pytest.mark.parametrize("up", [number / 40 for number in range(41)])
@UNICODE
def test_a_mark_lies_where_a_line_of_its_height_does(up: float, unicode: bool) -> None:
    lined, marked = Canvas(2, 8, 2, unicode=unicode), Canvas(2, 8, 2, unicode=unicode)
    lined.line([(0, up)], DOT)
    marked.mark((0, up), MARK)
    places = [[bool(row) for row in shown(canvas)] for canvas in (lined, marked)]
    assert places[0] == places[1]
    assert places[0][lined.row(up)]


def test_a_thin_band_is_every_other_dot_of_braille() -> None:
    canvas = Canvas(1, 1, 2, unicode=True)
    for x in range(canvas.wide):
        canvas.band(x, 0, 1, DOT, thin=True)
    assert shown(canvas) == [chr(0x2800 + 0x01 + 0x10 + 0x04 + 0x80)]


def test_figures_below_end_at_their_place_and_give_way_to_those_before() -> None:
    canvas = Canvas(10, 2, 4, unicode=False)
    rule, figures = plain(canvas.below([(0, "1"), (0.1, "23"), (1, "100")], "threads")).splitlines()
    assert rule == "     +----------"
    assert figures == "      1      100 threads"
