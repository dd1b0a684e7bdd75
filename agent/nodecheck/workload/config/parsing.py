"""JSON of model folders, as real files write it. Pure."""

from __future__ import annotations

import json
from typing import Any

from nodecheck.workload.errors import WorkloadError, shown

MOST_VALUES = 300_000
"""More would take over 60 MB once parsed."""

DEEPEST = 100
"""The deepest nesting taken. Source: real files nest 6 deep."""

_LONGEST_NUMBER = 300
"""Digits; a longer number is infinite to every reader of doubles."""


def parse(text: bytes, what: str) -> dict[str, Any]:
    """The object that a JSON text holds; `what` names the text in messages.

    A byte order mark, NaN, Infinity and repeated keys (the last wins) are taken: real files have
    them. WorkloadError says what else is wrong. How long a text may be is for who reads it to say.
    """
    if sum(text.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        raise WorkloadError(f"{what} holds over {MOST_VALUES:,} values")
    try:
        value = json.loads(text.decode("utf-8-sig"), parse_int=_whole)
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{what} is no UTF-8 text: byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise WorkloadError(
            f"{what} is no JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise WorkloadError(f"{what} nests deeper than {DEEPEST}") from None
    if not isinstance(value, dict):
        raise WorkloadError(f"{what} holds {_kind(value)} {shown(value)[:20]}, not an object")
    if _is_deeper(value, DEEPEST):
        raise WorkloadError(f"{what} nests deeper than {DEEPEST}")
    return value


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONGEST_NUMBER else float("inf")


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "a string" if isinstance(value, str) else "the value"


def _is_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects nest deeper than so many levels; without recursion."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)  # type: ignore[attr-defined]
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
