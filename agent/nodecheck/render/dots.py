"""Drawings in the characters of a terminal: braille of 2 x 4 dots each, or ASCII of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from nodecheck.render.layout import Line, Span

_ACROSS, _DOWN = 2, 4

_BLANK = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of a character's dots, row by row."""

Place = tuple[float, float]
"""0 to 1 from the left and from the bottom."""


class Canvas:
    """Dots, marks over them, and axes.

    A dot is given as the character that stands for it in ASCII; in braille its style alone counts.
    `left` are the columns that figures beside the drawing take.
    """

    def __init__(self, columns: int, rows: int, left: int, *, unicode: bool) -> None:
        self.columns, self.rows, self.left, self.unicode = columns, rows, left, unicode
        self.wide, self.high = (_ACROSS * columns, _DOWN * rows) if unicode else (columns, rows)
        self._dots: dict[tuple[int, int], Span] = {}
        self._marks: dict[tuple[int, int], Span] = {}

    def line(self, points: Iterable[Place], dot: Span) -> None:
        """Draw from each point to the next."""
        at = [(round(across * (self.wide - 1)), self._y(up)) for across, up in points]
        for (x0, y0), (x1, y1) in dict.fromkeys(itertools.pairwise(at[:1] + at)):
            steps = max(abs(x1 - x0), abs(y1 - y0), 1)
            for step in range(steps + 1):
                part = step / steps
                self._dots[round(x0 + part * (x1 - x0)), round(y0 + part * (y1 - y0))] = dot

    def band(self, x: int, low: float, high: float, dot: Span, *, thin: bool) -> None:
        """Fill the dots of one of the `wide` columns from low to high, in braille every other."""
        for y in range(self._y(high), self._y(low) + 1):
            if not thin or not self.unicode or (x + y) % 2 == 0:
                self._dots[x, y] = dot

    def mark(self, place: Place, mark: Span, *, over: bool = True) -> None:
        """Set a character, over what is drawn there or only where nothing is yet."""
        column, row = round(place[0] * (self.columns - 1)), self.row(place[1])
        if over or not any(dot in self._dots for dot, _ in self._in_cell(column, row)):
            self._marks[column, row] = mark

    def row(self, up: float) -> int:
        """The row of characters, from the top, that a height lies in."""
        return self._y(up) * self.rows // self.high

    def _y(self, up: float) -> int:
        return round((1 - up) * (self.high - 1))

    def lines(self, labels: Mapping[int, str]) -> list[Line]:
        """The rows from the top, with the axis and, by row, the figures beside it."""
        axis = "│" if self.unicode else "|"
        return [
            (
                Span(f"{labels.get(row, ''):>{self.left}} {axis}", "dim"),
                *(self._cell(column, row) for column in range(self.columns)),
            )
            for row in range(self.rows)
        ]

    def below(self, ticks: Iterable[tuple[float, str]], name: str) -> list[Line]:
        """The axis below, with figures (0 to 1 from the left) where there is room, and its name."""
        corner, dash = ("└", "─") if self.unicode else ("+", "-")
        texts = [" "] * (self.columns + self.left)
        free = 0
        for across, text in ticks:
            start = max(0, round(across * (self.columns - 1)) - len(text) + 1)
            if start >= free:
                texts[start : start + len(text)] = text
                free = start + len(text) + 1
        pad = " " * (self.left + 1)
        return [
            (Span(f"{pad}{corner}{dash * self.columns}", "dim"),),
            (Span(f"{pad} {''.join(texts).rstrip()} {name}", "dim"),),
        ]

    def _cell(self, column: int, row: int) -> Span:
        if mark := self._marks.get((column, row)):
            return mark
        if not self.unicode:
            return self._dots.get((column, row), Span(" "))
        bits, style = 0, ""
        for dot, bit in self._in_cell(column, row):
            if dot in self._dots:
                bits |= bit
                style = self._dots[dot].style
        return Span(chr(_BLANK + bits), style) if bits else Span(" ")

    def _in_cell(self, column: int, row: int) -> Iterator[tuple[tuple[int, int], int]]:
        """The dots of a character, each with its bit; in ASCII the one."""
        if not self.unicode:
            yield (column, row), 1
            return
        for down, bits in enumerate(_BITS):
            for across, bit in enumerate(bits):
                yield (_ACROSS * column + across, _DOWN * row + down), bit
