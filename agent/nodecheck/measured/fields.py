"""One row's members, each checked where it is taken. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from nodecheck.ranges import CPUS_MOST, LARGEST
from nodecheck.workload.errors import shown


class MeasuredError(ValueError):
    """A file of figures that cannot be used; the message is one line."""


SMALLEST = 1e-12
"""Below any figure but 0: rates are divided by such."""

CARDS_MOST = 1024
"""More cards than any engine spans."""

GPU_KEYS = ("gpu", "gpus", "gpu_name", "gpu_info", "gpu_type", "device_name")
GPU_COUNT_KEYS = ("gpu_count", "num_gpus", "n_gpus")
CPU_KEYS = ("cpu", "cpu_info", "cpu_name")
PARALLEL_KEYS = ("tensor_parallel_size", "tensor_parallel", "tp_size", "tp")
BUILD_KEYS = ("build", "version", "vllm_version", "sglang_version", "engine_version")
REMARK_KEYS = ("remark", "remarks", "note", "notes", "comment")
"""What a user may add to a row; vLLM's --metadata writes such keys beside its own."""

TOLD_BY_KEY = ("traffic", "host")
"""Remarks that say nothing without their key."""

_BETWEEN_CARDS = re.compile(r"\s*[,;+]\s*|/(?=NVIDIA|AMD |Tesla|Intel)")
_TIMES = re.compile(r"(\d{1,4})\s*[x×]\s*(\S.*)|(\S.*?)\s*[x×]\s*(\d{1,4})")  # noqa: RUF001


class Fields:
    """A row of a file, `place` names it in messages: "row 3"."""

    def __init__(self, row: Mapping[str, Any], place: str) -> None:
        """Hold the row; nothing is checked before it is asked for."""
        self.row = row
        self.place = place

    def has(self, *keys: str) -> bool:
        """Whether all of these are there, whatever they hold."""
        return all(key in self.row for key in keys)

    def number(self, key: str, most: float = LARGEST) -> float | None:
        """A number from 0 to `most`, None where there is none. Raises MeasuredError.

        Metadata comes as text, so a number may be one.
        """
        value = self.row.get(key)
        if value is None:
            return None
        number = _as_number(value)
        if number is None or not 0 <= number <= most or 0 < number < SMALLEST:
            raise self.error(f"{key} is {shown(value)}, not a number from 0 to {most:g}")
        return number

    def positive(self, key: str) -> float | None:
        """A number above 0. None is 0 too, and the -1 that engines write for what is not known."""
        value = self.row.get(key)
        if _as_number(value) == -1 and not isinstance(value, str):
            return None
        return self.number(key) or None

    def count(self, key: str, most: float = LARGEST) -> int | None:
        """A whole number of 0 or more."""
        number = self.number(key, most)
        if number is not None and number != int(number):
            raise self.error(f"{key} is {shown(self.row[key])}, not a whole number")
        return None if number is None else int(number)

    def signed(self, key: str) -> int | None:
        """A whole number that may be negative, as llama.cpp's -ngl -1."""
        value = self.row.get(key)
        number = _as_number(value)
        if value is None:
            return None
        if number is None or abs(number) > CPUS_MOST or number != int(number):
            raise self.error(f"{key} is {shown(value)}, not a whole number")
        return int(number)

    def text(self, key: str) -> str | None:
        """Text, cut to what may stand in a message; None where it is empty or no text."""
        value = self.row.get(key)
        return shown(value.strip()) if isinstance(value, str) and value.strip() else None

    def first_text(self, keys: tuple[str, ...]) -> str | None:
        """The text of the first of these keys that has one."""
        return next((text for key in keys if (text := self.text(key))), None)

    def inner(self, key: str) -> Fields:
        """An object within the row, empty where there is none."""
        value = self.row.get(key)
        return Fields(value if isinstance(value, dict) else {}, f"{self.place}: {key}")

    def error(self, what: str) -> MeasuredError:
        """An error that names the row."""
        return MeasuredError(f"{self.place}: {what}")

    def parallel(self) -> int | None:
        """Cards that share every layer; None where the row does not say."""
        found = (self.count(key, CARDS_MOST) for key in PARALLEL_KEYS)
        return next((number for number in found if number), None)

    def gpus(self) -> tuple[str, ...]:
        """Names of the cards, one for each: "2x NVIDIA L40" is two."""
        named = next((self.row[key] for key in GPU_KEYS if self.row.get(key)), None)
        if isinstance(named, list):
            return tuple(shown(name) for name in named[:CARDS_MOST] if isinstance(name, str))
        if not isinstance(named, str):
            return ()
        parts = _BETWEEN_CARDS.split(named, CARDS_MOST)[:CARDS_MOST]
        cards = tuple(islice((card for part in parts for card in _times(part)), CARDS_MOST))
        number = next((n for key in GPU_COUNT_KEYS if (n := self.count(key, CARDS_MOST))), None)
        return cards * number if number and len(cards) == 1 else cards

    def remarks(self) -> tuple[str, ...]:
        """What the row says of its circumstances, in its own words."""
        own = [text for key in REMARK_KEYS for text in _as_texts(self.row.get(key))]
        named = [f"{key}: {text}" for key in TOLD_BY_KEY for text in _as_texts(self.row.get(key))]
        return (*own, *named)


def _times(card: str) -> tuple[str, ...]:
    match = _TIMES.fullmatch(card.strip())
    if not match:
        return (shown(card.strip()),) if card.strip() else ()
    number, name = (match[1], match[2]) if match[1] else (match[4], match[3])
    return (shown(name),) * min(int(number), CARDS_MOST)


def _as_texts(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [shown(text.strip()) for text in listed if isinstance(text, str) and text.strip()]


def _as_number(value: object) -> float | None:
    """A finite number, also one that is written as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
