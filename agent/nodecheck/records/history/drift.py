"""What a node once reached and no longer does, beyond its own spread."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from statistics import median

from nodecheck.model import Struct
from nodecheck.records.figures import Metric
from nodecheck.records.series import DAY, HOUR, Bucket, Points, Series, buckets

DAYS_BEFORE = 7
"""Fewest that tell how far a figure strays by itself. Source: a week has each kind of day."""

DAYS_OF_SLOPE = 14
"""Shortest time in which a slope is told from a week's course. Source: two weeks."""

LASTING_SECONDS = 20 * HOUR
"""Shortest time that a new level has lasted. Source: a day's course is over in a day; a point an
hour need not come on the hour."""

POINTS_AFTER = 6
"""Fewest clean points of a new level. Source: nodecheck's own judgement: more than outliers."""

POINTS_MIN = DAYS_BEFORE + POINTS_AFTER
"""Fewest clean points in all. Source: one a day before, and those after."""

CHANGE_MIN = 0.07
"""Least change, as a share of the level before. Source: two runs on an unchanged node lie within
10 % of each other (docs/measuring.md), medians of days within less."""

STRAYING = 3.0
"""Times that a change must be what the figure strayed by itself. Source: simulated series without
drift, in tests/records/test_drift.py."""

ORDERED_MIN = 0.9
"""Least share of the pairs of a point before and one after that differ in the same direction.
Source: as above; a figure that goes to and fro between two levels stays below."""

SEEN_SHARE = 0.01
"""A level is new where fewer of the points before lie beyond it. Source: as above."""

CLOSE_SECONDS = 12 * HOUR
"""Of three points in such a time one is an outlier; further apart each may be a level of its own.
Source: as above."""

STEP_BUCKETS, SLOPE_BUCKETS = 120, 15
"""Most stretches of whole days that are compared. Source: a step needs all days of some months;
a slope shows best in a few medians of many points."""


class Drift(Struct, frozen=True, kw_only=True):
    """A rate that left its level: `before` and `after` in the metric's unit.

    `since` is when it left (seconds since 1970), `spread` how far stretches of days strayed from
    `before` by themselves, as a share of it, and `points` how many clean measurements tell it.
    `worse`: it went the wrong way. `gradual`: a slope over all the time from `since` on, no step.
    """

    metric: Metric
    since: int
    before: float
    after: float
    spread: float
    points: int
    worse: bool
    gradual: bool

    @property
    def change(self) -> float:
        """By how much, as a share of `before`: -0.1 is a tenth less."""
        return self.after / self.before - 1


class _Fit(Struct, frozen=True, kw_only=True):
    """A way to tell a series: `stray` and `miss` are how far days lie off, at most and mostly."""

    since: int
    before: float
    after: float
    stray: float
    miss: float
    gradual: bool


def drifts(hourly: Iterable[Series]) -> tuple[Drift, ...]:
    """Of series with a point an hour at most: worse first, then the largest first."""
    found = [each for series in hourly if (each := drift(series))]
    return tuple(sorted(found, key=lambda d: (not d.worse, -abs(d.change), d.metric.name)))


def drift(series: Series) -> Drift | None:
    """The drift of one series, None where it stays within its own spread or is too short."""
    points = series.clean()
    if not is_enough(points):
        return None
    days = buckets(points, STEP_BUCKETS)
    fits = _step(days, points), _slope(days)
    best = min(filter(None, fits), key=lambda fit: fit.miss, default=None)
    if best is None:
        return None
    return Drift(
        metric=series.metric,
        since=best.since,
        before=best.before,
        after=best.after,
        spread=best.stray / best.before,
        points=len(points),
        worse=(best.after < best.before) == (series.metric.more_is_better is True),
        gradual=best.gradual,
    )


def is_enough(points: Points) -> bool:
    """Whether clean points would tell a drift, were there one."""
    return len(points) >= POINTS_MIN and len({time // DAY for time, _ in points}) > DAYS_BEFORE


def _step(days: Sequence[Bucket], points: Points) -> _Fit | None:
    """The last days against those before, the longest time after first.

    Medians of days show that there is a step, and the points when it was.
    """
    values = [day.value for day in days]
    for at in range(DAYS_BEFORE, len(days)):
        before, after = values[:at], values[at:]
        if not _is_step(before, after):
            continue
        turn = _turn(points, median(before), median(after))
        if not _lasts(points, turn) or not _apart(points[:turn], points[turn:]):
            continue
        level, now = _level(points[:turn]), _level(points[turn:])
        return _Fit(
            since=points[turn][0],
            before=level,
            after=now,
            stray=_stray(before, len(after)),
            miss=median([*(abs(v - level) for v in before), *(abs(v - now) for v in after)]),
            gradual=False,
        )
    return None


def _is_step(before: Sequence[float], after: Sequence[float]) -> bool:
    level = median(before)
    shift = abs(median(after) - level)
    return shift >= CHANGE_MIN * level > 0 and shift >= STRAYING * max(
        _stray(before, len(after)), _stray(after, len(after) // 3)
    )


def _stray(values: Sequence[float], length: int) -> float:
    """How far stretches of this length lie from the level of all; a third of them at most."""
    width = max(1, min(length, len(values) // 3))
    level = median(values)
    return max(
        abs(median(values[start : start + width]) - level)
        for start in range(len(values) - width + 1)
    )


def _turn(points: Points, level: float, now: float) -> int:
    """The place before which most are nearer to `level`, and from which on most to `now`."""
    score = best = place = 0
    for number, (_, value) in enumerate(points, start=1):
        score += 1 if abs(value - level) < abs(value - now) else -1
        if score > best:
            best, place = score, number
    return place


def _lasts(points: Points, turn: int) -> bool:
    return (
        DAYS_BEFORE <= turn <= len(points) - POINTS_AFTER
        and points[-1][0] - points[turn][0] >= LASTING_SECONDS
    )


def _apart(earlier: Points, later: Points) -> bool:
    """Whether there was a level, and neither part has been at the other's."""
    ordered = sorted(value for _, value in earlier)
    below = sum(bisect_left(ordered, value) for _, value in later) / (len(earlier) * len(later))
    return (
        max(below, 1 - below) >= ORDERED_MIN
        and _level(earlier) > 0
        and not _reaches(earlier, _level(later))
        and not _reaches(later, _level(earlier))
    )


def _level(points: Points) -> float:
    return median(value for _, value in points)


def _reaches(points: Points, level: float) -> bool:
    """Whether points have been there; of three close together, not one alone."""
    triples = zip(points, points[1:], points[2:], strict=False)
    reached = sorted(
        sorted((one, two, three))[1] if later - since <= CLOSE_SECONDS else two
        for (since, one), (_, two), (later, three) in triples
    )
    rare = int(SEEN_SHARE * (len(reached) - 1))
    return reached[rare] <= level <= reached[-1 - rare]


def _slope(days: Sequence[Bucket]) -> _Fit | None:
    """A line through all days: the median of the slopes between all pairs (Theil and Sen)."""
    days = buckets([(day.since, day.value) for day in days], SLOPE_BUCKETS)
    times = [(day.since - days[0].since) / DAY for day in days]
    values = [day.value for day in days]
    if times[-1] < DAYS_OF_SLOPE * (1 - 1 / SLOPE_BUCKETS):
        return None
    steep = median(
        (values[later] - values[earlier]) / (times[later] - times[earlier])
        for later in range(len(days))
        for earlier in range(later)
    )
    start = median(value - steep * time for time, value in zip(times, values, strict=True))
    end = start + steep * times[-1]
    misses = [abs(v - start - steep * t) for t, v in zip(times, values, strict=True)]
    change = abs(end - start)
    if min(start, end) <= 0 or change < max(CHANGE_MIN * start, STRAYING * max(misses)):
        return None
    return _Fit(
        since=days[0].since,
        before=start,
        after=end,
        stray=max(misses),
        miss=median(misses),
        gradual=True,
    )
