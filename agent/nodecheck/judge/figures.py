"""Rates and times with the digits that matter."""

from __future__ import annotations


def between(low: float, high: float) -> str:
    """Write both ends with the figures that the smaller needs, one end where they are alike."""
    ends = figure(low), figure(high)
    if low < 0.1:
        ends = f"{low:.2f}", f"{high:.2f}" if high < 1 else ends[1]
    return ends[0] if ends[0] == ends[1] else "-".join(ends)


def figure(value: float) -> str:
    """A rate or a time with two significant figures below ten, none after the point above."""
    if value >= 9.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"
