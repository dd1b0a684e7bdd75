"""A setting of an engine against speed, drawn in the characters of a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from nodecheck.judge.figures import figure
from nodecheck.model import Point, Struct
from nodecheck.render.dots import Canvas
from nodecheck.render.layout import Line, Span
from nodecheck.serving import Curve

ROWS = 8
PLOT_MOST = 66
AXIS = 8
"""Columns left of the plot: a figure and the axis itself."""

LOGARITHMIC_FROM = 10
"""From this ratio of the fastest to the slowest on, rates lie on a logarithmic axis."""

CLEAR = 0.08
"""Part of the axis that two rates beside it must lie apart."""

SLOWEST = 0.01
"""Tokens a second that no axis goes below."""

FITS, TOO_LARGE, MEASURED = "green", "red", "bold magenta"
MARK = "x"

Mark = tuple[int, float]
"""A setting that was measured, and its tokens a second."""


class Setting(Struct, frozen=True):
    """A point of a curve by the number of its setting."""

    number: int
    point: Point


def settings(curve: Curve) -> list[Setting]:
    """The points of a curve by number, lowest first; those without a number are left out."""
    numbered = {
        int(found[-1]): point
        for point in curve.points
        if (found := re.findall(r"\d+", point.setting)) and point.high > 0
    }
    return [Setting(number, numbered[number]) for number in sorted(numbered)]


class Scale(Struct, frozen=True):
    """Rates from `bottom` to `top` as 0 to 1."""

    bottom: float
    top: float
    logarithmic: bool

    @classmethod
    def of(cls, curve: Curve, marks: Iterable[Mark] = ()) -> Scale:
        """The scale that holds the whole curve."""
        points = [each.point for each in settings(curve)]
        measured = [rate for _, rate in marks]
        top = max([*(p.high for p in points), *measured])
        least = min([*(p.high if p.low is None else p.low for p in points), *measured])
        least = max(least, SLOWEST)
        if top / least <= LOGARITHMIC_FROM:
            return cls(0.0, top, logarithmic=False)
        return cls(least, top, logarithmic=True)

    def share(self, rate: float) -> float:
        """Where a rate lies, 0 to 1 from the bottom."""
        if not self.logarithmic:
            return min(1.0, max(0.0, rate / self.top))
        rate = min(self.top, max(self.bottom, rate))
        return math.log(rate / self.bottom) / math.log(self.top / self.bottom)

    def ticks(self) -> dict[float, str]:
        """Rates to write beside the axis: the ends, and round ones that lie clear of them."""
        if not self.logarithmic:
            return {0.0: "0", self.top / 2: figure(self.top / 2), self.top: figure(self.top)}
        powers = range(math.ceil(math.log10(self.bottom)), math.floor(math.log10(self.top)) + 1)
        between = (10.0**power for power in powers)
        clear = {rate: f"{rate:g}" for rate in between if CLEAR <= self.share(rate) <= 1 - CLEAR}
        return {self.bottom: figure(self.bottom), **clear, self.top: figure(self.top)}


def draw(curve: Curve, width: int, *, unicode: bool, marks: Sequence[Mark] = ()) -> list[Line]:
    """A plot of at most `width` columns; nothing where there are not two settings.

    What the VRAM does not hold is drawn thin, what was measured is an x.
    """
    known = settings(curve)
    if len(known) < 2:
        return []
    scale = Scale.of(curve, marks)
    columns = max(20, min(PLOT_MOST, width - AXIS - len(curve.setting) - 3))
    canvas = Canvas(columns, ROWS, AXIS - 2, unicode=unicode)
    _fill(canvas, known, scale)
    first, last = known[0].number, known[-1].number
    for number, rate in marks:  # settings beyond the last are the last
        across = (min(max(number, first), last) - first) / (last - first)
        canvas.mark((across, scale.share(rate)), Span(MARK, MEASURED))
    labels = {canvas.row(scale.share(rate)): words for rate, words in scale.ticks().items()}
    numbers = (first + round((last - first) * quarter / 4) for quarter in range(5))
    ticks = [((number - first) / (last - first), str(number)) for number in numbers]
    return [*canvas.lines(labels), *canvas.below(ticks, curve.setting)]


def _fill(canvas: Canvas, known: list[Setting], scale: Scale) -> None:
    """Fill each column of dots from the slowest to the fastest of its setting."""
    for x in range(canvas.wide):
        low, high, fits = _at(x / (canvas.wide - 1), known, scale)
        dot = Span("#", FITS) if fits else Span(":", TOO_LARGE)
        canvas.band(x, low, high, dot, thin=not fits)


def _at(across: float, known: list[Setting], scale: Scale) -> tuple[float, float, bool]:
    """Shares of the slowest and the fastest rate at a place, and whether the VRAM holds it."""
    first, last = known[0].number, known[-1].number
    number = first + (last - first) * across
    after = next((n for n, s in enumerate(known) if s.number >= number), -1)
    right = known[after]
    left = known[max(0, after - 1)] if right.number > number else right
    gap = right.number - left.number
    part = (number - left.number) / gap if gap else 0.0
    ends = [
        (1 - part) * scale.share(one) + part * scale.share(other)
        for one, other in zip(_ends(left.point), _ends(right.point), strict=True)
    ]
    nearest = right if part >= 0.5 else left
    return ends[0], ends[1], nearest.point.fits is not False


def _ends(point: Point) -> tuple[float, float]:
    """The slowest and the fastest; where only a ceiling is known, that alone."""
    return (point.high if point.low is None else point.low), point.high
