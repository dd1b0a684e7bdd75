"""Reads performance data as strictly as the guidelines of the Monitoring Plugins write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"-?\d+(?:\.\d+)?"
RANGE = rf"@?(?:(?:~|{NUMBER})?:)?(?:{NUMBER})?"
FIGURE = re.compile(
    rf"'(?P<label>(?:[^'=]|'')+)'=(?P<value>U|{NUMBER}(?P<unit>s|us|ms|%|B|KB|MB|GB|TB|c)?)"
    rf"(?:;(?P<warning>{RANGE}))?(?:;(?P<critical>{RANGE}))?(?:;(?P<min>{NUMBER})?)?"
    rf"(?:;(?P<max>{NUMBER})?)?"
)
DISTINCT_CHARACTERS = 19
"""Of labels: what round robin databases keep of them."""


@dataclass(frozen=True)
class Figure:
    """A value, None where it is not known, and whether its own ranges call it a trouble."""

    value: float | None
    warns: bool
    is_critical: bool


def parsed(text: str) -> dict[str, Figure]:
    """Label -> figure. Raises AssertionError where it is no performance data."""
    matches = [FIGURE.fullmatch(word) for word in text.split(" ")]
    found: dict[str, Figure] = {}
    for match in matches:
        assert match is not None, text
        number = match["value"].removesuffix(match["unit"] or "")
        value = None if number == "U" else float(number)
        found[match["label"]] = Figure(
            value, _alerts(match["warning"], value), _alerts(match["critical"], value)
        )
    assert len({label[:DISTINCT_CHARACTERS] for label in found}) == len(matches), text
    return found


def _alerts(text: str | None, value: float | None) -> bool:
    """Outside of "10", "5:", "~:5" or "5:10"; the inside of "@5:10" is not used here."""
    if not text or value is None:
        return False
    assert not text.startswith("@")
    low, colon, high = text.rpartition(":")
    if not colon:
        low, high = "0", text
    below = low != "~" and value < float(low or 0)
    return below or (high != "" and value > float(high))
