"""Braille characters: 2 x 4 dots each, the finest that a terminal draws."""

from __future__ import annotations

from collections.abc import Iterator

_ACROSS, _DOWN = 2, 4

_BLANK = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of a character's dots, row by row."""


def size(columns: int, rows: int, *, unicode: bool) -> tuple[int, int]:
    """Dots across and down of so many characters: one each where the terminal takes ASCII alone."""
    return (_ACROSS * columns, _DOWN * rows) if unicode else (columns, rows)


def in_cell(column: int, row: int) -> Iterator[tuple[tuple[int, int], int]]:
    """The dots of the character at a place, from the top left of the drawing, each with its bit."""
    for down, bits in enumerate(_BITS):
        for across, bit in enumerate(bits):
            yield (_ACROSS * column + across, _DOWN * row + down), bit


def character(bits: int) -> str:
    """The character with these dots; a blank for none."""
    return chr(_BLANK + bits) if bits else " "
