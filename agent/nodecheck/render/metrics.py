"""Figures in words: how much, on which axis, since when."""

from __future__ import annotations

import datetime
import math

from nodecheck.model import Struct
from nodecheck.records.figures import Metric
from nodecheck.report import in_utc
from nodecheck.units import GB, GIB, MIB, count, gib

DAY = 86_400
MILLION = 10**6


class Scale(Struct, frozen=True):
    """A unit that figures of one size read best in: so many of a metric's own make one."""

    per: float
    unit: str

    @classmethod
    def of(cls, metric: Metric, most: float) -> Scale:
        """The scale for figures up to `most`."""
        if metric.unit == "s":
            steps = ((1e-6, 1e-9, "ns"), (1e-3, 1e-6, "us"), (1.0, 1e-3, "ms"))
            return next((cls(per, unit) for below, per, unit in steps if most < below), cls(1, "s"))
        if metric.unit == "B":
            return cls(GIB, "GiB") if most >= GIB else cls(MIB, "MiB")
        if metric.unit == "B/s":
            return cls(GB, "GB/s")
        if metric.name.partition("@")[0].endswith("_share"):
            return cls(0.01, "%")
        if not metric.unit and most >= 10 * MILLION:
            return cls(MILLION, "million")
        return cls(1, metric.unit)

    def figure(self, value: float) -> str:
        """Three digits where it is no whole number, without the unit."""
        return self.figures(value)[0]

    def figures(self, *values: float) -> list[str]:
        """Several, without the unit, all with as many decimals as the largest needs."""
        scaled = [value / self.per for value in values]
        most = max(map(abs, scaled))
        digits = 1 if most >= 9.995 else 2
        if most >= 99.95 or all(each == round(each) for each in scaled):
            digits = 0
        return [f"{each:,.{digits}f}" for each in scaled]


def amount(metric: Metric, value: float) -> str:
    """A figure with its unit: "24.1 GB/s", "98 ns", "57 GiB"."""
    if metric.unit == "B":
        return gib(value)
    scale = Scale.of(metric, abs(value))
    return f"{scale.figure(value)} {scale.unit}".rstrip()


def between(metric: Metric, low: float, high: float) -> str:
    """Two figures in the unit of the larger: "2.2-3.1 GiB"; one where they read alike."""
    scale = Scale.of(metric, max(abs(low), abs(high)))
    ends = dict.fromkeys(scale.figures(low, high))
    return f"{'-'.join(ends)} {scale.unit}".rstrip()


def became(metric: Metric, before: float, after: float) -> str:
    """Two figures in the unit of the larger: "24.1 -> 21.9 GB/s"."""
    scale = Scale.of(metric, max(abs(before), abs(after)))
    return f"{' -> '.join(scale.figures(before, after))} {scale.unit}".rstrip()


def fine_percent(share: float, sign: str = "") -> str:
    """A share as "1.2 %" or "24 %"; with the sign "+" a change as "-9.1 %" or "+240 %"."""
    return f"{100 * share:{sign}.{1 if abs(share) < 0.0995 else 0}f} %"


def moment(seconds: int) -> str:
    """A time in UTC: "2026-11-29 13:20Z"."""
    return _utc(seconds).strftime("%Y-%m-%d %H:%MZ")


def moment_of(time: str) -> str:
    """A report's time so."""
    return moment(int(in_utc(time).timestamp()))


def timestamp(seconds: int) -> str:
    """A time in UTC as ISO 8601 has it: "2026-11-29T13:20:05Z"."""
    return _utc(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """How long: "30 days", "3 hours", "45 minutes"."""
    for length, noun in ((DAY, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * length or (seconds >= length and noun == "minute"):
            return count(round(seconds / length), noun)
    return count(round(seconds), "second")


def ticks(low: float, high: float, most: int, least_step: float = 0.0) -> dict[float, str]:
    """At most `most` round figures within an axis (steps of 1, 2 or 5 times a power of ten).

    Each with how it is written, all with the same digits.
    """
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20):
        step = max(least_step, factor * power)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    shown = (round(number * step, 12) for number in range(first, last + 1))
    return {value: f"{value:,.{digits}f}" for value in shown}


_STEPS = (60, 120, 300, 600, 1800, *(hours * 3600 for hours in (1, 2, 6, 12)),
          *(days * DAY for days in (1, 2, 7, 14, 28, 91, 182, 364, 3640)))  # fmt: skip


def time_ticks(first: int, last: int, most: int) -> dict[int, str]:
    """One to `most` times between two, in UTC, and how they are written."""
    step = next((s for s in _STEPS if (last - first) / s < most), last - first)
    shown = range(-(-first // step) * step, last + 1, step)[:most] or [last]
    years = _utc(first).year != _utc(last).year
    return {at: _tick(at, step, with_year=years) for at in shown}


def _tick(at: int, step: int, *, with_year: bool) -> str:
    time = _utc(at)
    if step < DAY and at % DAY:
        return time.strftime("%H:%M")
    return time.strftime("%Y-%m-%d" if with_year else "%m-%d")


def _utc(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
