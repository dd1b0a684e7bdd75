"""When what fills up will be full."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median

from nodecheck.model import Struct
from nodecheck.records.figures import Metric
from nodecheck.records.series import DAY, Points, Series, stretches

LOSSES = 10
"""From one stretch of time to the next; more where days do not divide so. Source: simulated disks,
in tests/records/test_forecast.py: the true day lies in the range nine times in ten."""

LOSSES_MIN = 7
"""Fewest that tell a trend. Source: as above; the least and the largest are left out."""

WHOLE_DAYS_FROM = LOSSES_MIN * DAY
"""Time from which a stretch is a whole number of days, so that a day's course is in each. Source:
each day is a stretch then."""

SHORTEST_SECONDS = DAY
"""Less tells nothing of tomorrow. Source: a day's course."""

STEADY, UNSTEADY = 3, 10
"""Times that the fastest loss may be the slowest: as many as there are days, within these. Source:
as for LOSSES; a wider range says nothing, and a few days are not typical of many."""

LATELY_DAYS = (28, 7, 2)
"""Where all of the time shows no trend, the last four weeks, week and two days may: a disk that
begins to fill is told while it does. Source: nodecheck's own judgement."""

NEW_SHARE = 0.5
"""Of what was lost lately, the part that must lie below all that was before. Source: a disk that
goes up and down each day or week does not get there."""

HORIZON_DAYS = 365
"""Source: nodecheck's own judgement: nobody acts on what is a year off."""


class Forecast(Struct, frozen=True, kw_only=True):
    """Room that shrinks: `left` is what there was at `newest` (seconds since 1970), its last point.

    `per_day` is what goes a day (slowest, fastest), `days` are those from the time of asking until
    nothing is left (soonest, latest).
    """

    metric: Metric
    left: float
    newest: int
    per_day: tuple[float, float]
    days: tuple[float, float]


def forecasts(hourly: Iterable[Series], now: int) -> tuple[Forecast, ...]:
    """Of series with a point an hour at most, asked at `now`: the soonest full first."""
    found = [each for series in hourly if (each := forecast(series, now))]
    return tuple(sorted(found, key=lambda each: (each.days, each.metric.name)))


def forecast(series: Series, now: int) -> Forecast | None:
    """When there will be nothing left, None where that shows no trend or is far off."""
    points = series.points()
    per_day = next((loss for part in _parts(points) if (loss := _loss(part))), None)
    if per_day is None:
        return None
    newest, left = points[-1]
    days = _days(points, per_day, now)
    if days[0] > HORIZON_DAYS:
        return None
    return Forecast(metric=series.metric, left=left, newest=newest, per_day=per_day, days=days)


def _days(points: Points, per_day: tuple[float, float], now: int) -> tuple[float, float]:
    """From each point of the last day with each loss; what comes and goes is in the range so."""
    slowest, fastest = per_day
    lately = [(time, value) for time, value in points if time >= points[-1][0] - DAY]
    return (
        max(0.0, min(value / fastest - (now - time) / DAY for time, value in lately)),
        max(0.0, *(value / slowest - (now - time) / DAY for time, value in lately)),
    )


def _parts(points: Points) -> Iterator[Points]:
    """All, and the last of them where they lead to less than ever before."""
    yield points
    newest, now = points[-1]
    for days in LATELY_DAYS:
        first = bisect_left(points, (newest - days * DAY,))
        lowest = min((value for _, value in points[:first]), default=now)
        if lowest - now > NEW_SHARE * (points[first][1] - now):
            yield points[first:]


def is_enough(points: Points) -> bool:
    """Whether points would tell a trend, were there one."""
    return len(_medians(points)) > LOSSES_MIN


def _loss(points: Points) -> tuple[float, float] | None:
    """What goes a day, slowest and fastest of all stretches but one at each end.

    So one clean-up or one large download is no trend, and ends none.
    """
    span = points[-1][0] - points[0][0]
    ends = _medians(points)
    if len(ends) <= LOSSES_MIN:
        return None
    losses = sorted(
        (before - after) / (later - earlier) * DAY
        for (earlier, before), (later, after) in pairwise(ends)
    )
    slowest, fastest = losses[1], losses[-2]
    steady = fastest <= min(max(STEADY, span / DAY), UNSTEADY) * slowest
    return (slowest, fastest) if slowest > 0 and steady else None


def _medians(points: Points) -> list[tuple[float, float]]:
    """The middle and the median of each stretch; none of too short a time."""
    span = points[-1][0] - points[0][0]
    if span < SHORTEST_SECONDS:
        return []
    width = max(1, span // (LOSSES + 1))
    if span >= WHOLE_DAYS_FROM:
        width = max(DAY, width // DAY * DAY)
    return [
        (median([time for time, _ in part]), median([value for _, value in part]))
        for part in stretches(points, width)
    ]
