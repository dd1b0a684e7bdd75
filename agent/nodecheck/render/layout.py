"""Lines of styled text, wrapped to a width: what the terminal report is set in."""

from __future__ import annotations

import textwrap
from itertools import zip_longest

from nodecheck.model import Struct
from nodecheck.words import without_controls

Line = tuple["Span", ...]


class Span(Struct, frozen=True):
    """Text in one style (a rich style string, empty for plain)."""

    text: str
    style: str = ""


class Column(Struct, frozen=True):
    """A column of a table: its heading and how wide it may become."""

    heading: str
    width: int


_WORD_LIMIT = 200


def printable(text: str) -> str:
    """Text that may stand on a terminal: no control or bidi characters, no endless word.

    Names come from files, drivers and servers, which may hold anything.
    """
    text = without_controls(text)
    if len(text) <= _WORD_LIMIT:
        return text
    words = (
        word if len(word) <= _WORD_LIMIT else word[:_WORD_LIMIT] + "..." for word in text.split(" ")
    )
    return " ".join(words)


def plain(lines: list[Line]) -> str:
    """The lines without styles."""
    return "".join("".join(span.text for span in line).rstrip() + "\n" for line in lines)


def hanging(label: Span, text: Span, indent: int, width: int) -> list[Line]:
    """A label, and beside it the text wrapped with every line at `indent`."""
    wrapped = wrap(printable(text.text), width - indent) or [""]
    first = (Span(label.text.ljust(indent), label.style), Span(wrapped[0], text.style))
    return [first, *((Span(" " * indent), Span(line, text.style)) for line in wrapped[1:])]


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width`, broken at blanks; a word that is longer stays whole."""
    return textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False)


def command(text: str, indent: int) -> Line:
    """A command to copy: never wrapped."""
    return (Span(" " * indent), Span(printable(text), "bold"))


def joined(label: str, items: tuple[str, ...], indent: int, width: int) -> list[Line]:
    """Items three blanks apart, none broken where it fits on a line of its own."""
    lines: list[str] = []
    for item in map(printable, items):
        if lines and len(lines[-1]) + 3 + len(item) <= width - indent:
            lines[-1] += "   " + item
        else:
            lines.extend(wrap(item, width - indent))
    head = (Span(label.ljust(indent), "bold"), Span(lines[0] if lines else ""))
    return [head, *((Span(" " * indent), Span(line)) for line in lines[1:])]


def table(
    columns: tuple[Column, ...], rows: list[tuple[str, ...]], styles: dict[str, str]
) -> list[Line]:
    """Rows of cells, each wrapped in its column, and where it holds a line break.

    `styles` maps a cell's text to its style.
    """
    lines: list[Line] = [tuple(Span(" " + c.heading.ljust(c.width + 1), "dim") for c in columns)]
    for row in rows:
        cells = [
            [line for part in text.split("\n") for line in _wrapped(part, column.width)]
            for text, column in zip(row, columns, strict=True)
        ]
        looks = [styles.get(text, "") for text in row]
        for texts in zip_longest(*cells, fillvalue=""):
            line = zip(texts, columns, looks, strict=True)
            lines.append(tuple(Span(" " + text.ljust(c.width + 1), look) for text, c, look in line))
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), width) or [""]
