"""Counters of errors that grew."""

from __future__ import annotations

from collections.abc import Collection

from nodecheck.model import Struct
from nodecheck.records.figures import LOGGED, Kind, Measure
from nodecheck.records.series import Window, picked


class Growth(Struct, frozen=True, kw_only=True):
    """A counter that rose `by` so many within `over_seconds`, from the first snapshot to the last.

    `newest` is the time of the snapshot that showed the last rise (seconds since 1970).
    """

    measure: Measure
    by: float
    over_seconds: int
    newest: int


def growths(window: Window) -> tuple[Growth, ...]:
    """Counters that grew, those that grew last first."""
    span = window.times[-1] - window.times[0] if window.times else 0
    found = [
        Growth(measure=measure, by=each.by, over_seconds=span, newest=each.newest)
        for measure, each in _counts(window).items()
        if each.by
    ]
    return tuple(sorted(found, key=lambda each: (-each.newest, each.measure.name)))


class _Count:
    """One counter: its last value, and what it has risen by."""

    def __init__(self, value: float, *, logged: bool) -> None:
        self.value = value
        self.logged = logged
        self.by = 0.0
        self.newest = 0

    def take(self, value: float, time: int) -> None:
        """A value below the last one has started at 0, unless it is of a log that forgets."""
        fallen = value < self.value
        rise = (0 if self.logged else value) if fallen else value - self.value
        self.value = value
        if rise:
            self.by += rise
            self.newest = time


def _counts(window: Window) -> dict[Measure, _Count]:
    """Each counter over all snapshots. Most repeat the one before; those are passed over."""
    layouts = picked(window, Kind.COUNTER)
    logs = {n: each.looked_at("kernel_log", "source") for n, each in window.state_by_id.items()}
    counts: dict[Measure, _Count] = {}
    last: object = None
    log_known = False
    for time, number, state, packed in zip(
        window.times, window.layouts, window.states, window.packed, strict=True
    ):
        layout, log_read = layouts.get(number), logs[state]
        found = number, log_read, layout.part(packed) if layout else b""
        if found == last:
            continue
        last = found
        values = dict(zip(layout.measures, layout.values(packed), strict=True)) if layout else {}
        _take(counts, values, time, log_known=log_known)
        if log_read:
            log_known = True
            _forget(counts, values)
    return counts


def _take(
    counts: dict[Measure, _Count], values: dict[Measure, float], time: int, *, log_known: bool
) -> None:
    """A first value tells no rise, unless a log that was read before did not hold it."""
    for measure, value in values.items():
        if measure not in counts:
            logged = measure.name.startswith(LOGGED)
            counts[measure] = _Count(0 if logged and log_known else value, logged=logged)
        counts[measure].take(value, time)


def _forget(counts: dict[Measure, _Count], measures: Collection[Measure]) -> None:
    """What a log that was read holds no more is 0."""
    for measure, count in counts.items():
        if count.logged and measure not in measures:
            count.value = 0
