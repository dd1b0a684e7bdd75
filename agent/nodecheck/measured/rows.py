"""Text to rows: a JSON array, JSON lines, or one object after another, whatever lies between. Pure.

A benchmark that was killed leaves an array without its end, and one whose errors went to the same
file leaves lines between the rows: both are read.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, NamedTuple

from nodecheck.measured.fields import MeasuredError

VALUES_MOST = 1_000_000
"""Values in a file: each takes some 100 bytes while it is read. Only outputs that hold every token
have more."""

DIGITS_MOST = 20
"""Digits up to which a number is kept whole: 2^64 has as many."""

_OPENING = re.compile(r"[\[{]")
_SEPARATORS = " \t\r\n,]"


class Rows(NamedTuple):
    """The rows of a file; `cut` says that it ends before its end."""

    rows: list[dict[str, Any]]
    cut: bool


def read_rows(text: bytes) -> Rows:
    """Every object at the top level of a text or of its arrays. Raises MeasuredError."""
    plain = _decoded(text)
    if sum(plain.count(each) for each in ",[{") > VALUES_MOST:
        raise MeasuredError(
            f"holds more than {VALUES_MOST:,} values, as outputs of every token do: "
            "write it without --output-details or --save-detailed"
        )
    rows: list[dict[str, Any]] = []
    opened, at = False, 0
    while match := _OPENING.search(plain, at):
        begin = match.start()
        if not _is_first(plain, at, begin):
            at = _line_end(plain, begin)
        elif plain[begin] == "[":
            opened, at = True, begin + 1
        elif (found := _object(plain, begin, len(rows) + 1)) is None:
            return _cut(rows)
        else:
            row, at = found
            rows.append(row)
    unclosed = opened and "]" not in plain[plain.rfind("}") + 1 :]
    return _cut(rows) if unclosed and rows else Rows(rows, cut=False)


def _decoded(text: bytes) -> str:
    """UTF-8, or UTF-16 as a Windows shell writes it; what is neither is replaced."""
    for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        if text.startswith(mark):
            return text.decode("utf-16", errors="replace")
    return text.decode("utf-8-sig", errors="replace")


def _cut(rows: list[dict[str, Any]]) -> Rows:
    if not rows:
        raise MeasuredError("ends before its first row does")
    return Rows(rows, cut=True)


def _is_first(text: str, at: int, begin: int) -> bool:
    """Whether nothing but separators lies between `at`, or the line's begin behind it, and `begin`.

    Other text before it makes the line none of a row.
    """
    line = max(at, text.rfind("\n", at, begin) + 1)
    return not text[line:begin].strip(_SEPARATORS)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _object(text: str, at: int, number: int) -> tuple[dict[str, Any], int] | None:
    """The object that begins here and where it ends; None where the text ends within it."""
    try:
        row, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        if "}" not in text[error.pos :]:
            return None
        raise MeasuredError(f"row {number}: no JSON at line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise MeasuredError(f"row {number}: nested too deeply") from error
    return row, end


def _whole(digits: str) -> int | float:
    """Thousands of digits would take seconds to become an integer."""
    return int(digits) if len(digits) <= DIGITS_MOST else float(digits)


_DECODER = json.JSONDecoder(parse_int=_whole)
