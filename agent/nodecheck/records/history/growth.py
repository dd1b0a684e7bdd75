"""Counters of errors that grew."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

from nodecheck.model import Struct
from nodecheck.records.figures import LOGGED, Kind, Metric
from nodecheck.records.series import Window, picked

LOG = "kernel_log", "source"
"""The fact that tells whether the kernel's log was read."""

HARMLESS = ("ecc_corrected", "ram_corrected", "aer_correctable", "pcie_replays")
"""Counters of what the hardware put right. Source: the names of the kernel and of NVML."""


class Growth(Struct, frozen=True, kw_only=True):
    """A counter that rose `by` so many within `over_seconds`, from when it was first read to last.

    `newest` is the time of the snapshot that showed the last rise (seconds since 1970). `fault`:
    nothing put right what it counts.
    """

    metric: Metric
    fault: bool
    by: float
    over_seconds: int
    newest: int


def growths(window: Window) -> tuple[Growth, ...]:
    """Counters that grew, those that grew last first."""
    spans = spans_read(window)
    found = [
        Growth(
            metric=metric,
            fault=not metric.name.startswith(HARMLESS),
            by=each.by,
            over_seconds=spans[metric][1] - spans[metric][0],
            newest=each.newest,
        )
        for metric, each in _counts(window).items()
        if each.by
    ]
    return tuple(sorted(found, key=lambda each: (-each.newest, each.metric.name)))


def spans_read(window: Window) -> dict[Metric, tuple[int, int]]:
    """When each counter was first and last read; one of a log with the log that lacked it."""
    layouts = picked(window, Kind.COUNTER)
    spans: dict[Metric, tuple[int, int]] = {}
    for number, span in _ends(window.layouts, window.times).items():
        for metric in layouts[number].metrics if number in layouts else ():
            spans[metric] = _both(span, spans.get(metric, span))
    if log := span_of_log(window):
        spans |= {m: _both(log, span) for m, span in spans.items() if m.name.startswith(LOGGED)}
    return spans


def span_of_log(window: Window) -> tuple[int, int] | None:
    """When the kernel's log was first and last read, None where it never was."""
    read = [
        span
        for number, span in _ends(window.states, window.times).items()
        if window.state_by_id[number].looked_at(*LOG)
    ]
    return functools.reduce(_both, read) if read else None


def _ends(numbers: Sequence[int], times: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The first and the last time of each number."""
    first = dict(zip(reversed(numbers), reversed(times), strict=True))
    last = dict(zip(numbers, times, strict=True))
    return {number: (first[number], last[number]) for number in last}


def _both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])


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


def _counts(window: Window) -> dict[Metric, _Count]:
    """Each counter over all snapshots. Most repeat the one before; those are passed over."""
    layouts = picked(window, Kind.COUNTER)
    logs = {n: each.looked_at(*LOG) for n, each in window.state_by_id.items()}
    counts: dict[Metric, _Count] = {}
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
        values = dict(zip(layout.metrics, layout.values(packed), strict=True)) if layout else {}
        _take(counts, values, time, log_known=log_known)
        if log_read:
            log_known = True
            _forget(counts, values)
    return counts


def _take(
    counts: dict[Metric, _Count], values: dict[Metric, float], time: int, *, log_known: bool
) -> None:
    """A first value tells no rise, unless a log that was read before did not hold it."""
    for metric, value in values.items():
        if metric not in counts:
            logged = metric.name.startswith(LOGGED)
            counts[metric] = _Count(0 if logged and log_known else value, logged=logged)
        counts[metric].take(value, time)


def _forget(counts: dict[Metric, _Count], metrics: Collection[Metric]) -> None:
    """What a log that was read holds no more is 0."""
    for metric, count in counts.items():
        if count.logged and metric not in metrics:
            count.value = 0
