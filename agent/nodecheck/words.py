"""Text of files, drivers and servers, which may hold anything, as it may stand on a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CONTROL = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200b\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069"
    "\\ufeff\\ud800-\\udfff]"
)


def without_controls(text: str) -> str:
    """The text with "?" for what moves a cursor, turns the direction of writing, or is not seen."""
    return _CONTROL.sub("?", text)


def told_name(path: str) -> str:
    """A file's name as text: what is no UTF-8 in it is replaced."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


MOST_NAMED = 12
"""Names that an error lists in full; of more it tells those that are spelt alike."""


def near(name: str, known: Sequence[str]) -> str:
    """What an error adds to a name that is not known: those that are, or were meant."""
    if len(known) <= MOST_NAMED:
        return f"; there are {', '.join(known)}"
    from difflib import get_close_matches

    alike = get_close_matches(name.lower(), known, 3, 0.6)
    return f"; did you mean {', '.join(alike)}?" if alike else ""


FIRST_LINE_BYTES = 80
"""Of the first line, which is all that a pager or a status page shows. Source: the guidelines of
the Monitoring Plugins, which ask for fewer characters than this."""


def first_line(text: str) -> str:
    """The text as the first line of what a monitoring system reads, cut where it is longer.

    A bar would begin its figures.
    """
    line = without_controls(text).replace("|", "/").encode(errors="replace")
    if len(line) > FIRST_LINE_BYTES:
        line = line[: FIRST_LINE_BYTES - 3].decode(errors="ignore").encode() + b"..."
    return line.decode()
