"""Nothing that a file, a driver or a server says may steer the terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodecheck.render.layout import Column, Span, hanging, joined, plain, printable, table

NASTY = "a\x1b]52;c;cm0=\x07b\x9bm\u202ec\x00\r\n"


def test_control_and_bidi_characters_are_replaced() -> None:
    assert printable(NASTY) == "a?]52;c;cm0=?b?m?c???"


def test_no_word_is_endless() -> None:
    assert len(printable("x" * 100_000)) < 300


@given(st.text())
def test_no_line_holds_a_control_character(text: str) -> None:
    lines = [
        *hanging(Span("x"), Span(text), 4, 80),
        *joined("x", (text,), 4, 80),
        *table((Column("a", 10),), [(text,)], {}),
    ]
    assert all(character >= " " for line in plain(lines).splitlines() for character in line)
