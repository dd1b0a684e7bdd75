"""Snapshots of a node, as a history hands them on."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.diagnose import diagnose
from nodecheck.policy import Policy
from nodecheck.records.figures import Figure, Kind, Metric, figures
from nodecheck.records.history.history import History, make_history
from nodecheck.records.series import HOUR, Listed, Window, pack
from nodecheck.records.state import State, state
from nodecheck.report import HostInfo, Report
from tests.nodes import three_l40

FIRST = 497_222 * HOUR
"""On the hour."""


def window(*reports: Report) -> Window:
    """Of judged reports, an hour apart."""
    return assembled(*((state(each), figures(each)) for each in reports))


def asked_at_once(window: Window, latest: tuple[Listed, ...] = ()) -> History:
    """The history that these tell at the time of the last."""
    return make_history(window, window.times[-1] if window.times else FIRST, latest)


def assembled(*snapshots: tuple[State, tuple[Figure, ...]], every: int = HOUR) -> Window:
    """Of states and figures, the same of which are kept once."""
    packed = [pack(found) for _, found in snapshots]
    states = {each: number for number, each in enumerate(dict.fromkeys(s for s, _ in snapshots))}
    layouts = {each: number for number, each in enumerate(dict.fromkeys(m for m, _ in packed))}
    return Window(
        ids=tuple(range(1, len(snapshots) + 1)),
        times=tuple(FIRST + every * number for number in range(len(snapshots))),
        statuses=("ok",) * len(snapshots),
        states=tuple(states[each] for each, _ in snapshots),
        layouts=tuple(layouts[metrics] for metrics, _ in packed),
        packed=tuple(values for _, values in packed),
        state_by_id={number: each for each, number in states.items()},
        layout_by_id={number: each for each, number in layouts.items()},
    )


def three(**facts: object) -> Report:
    """The node with three L40, judged; with other facts where some are given."""
    seen = three_l40()
    made = Report(
        nodecheck_version="1",
        time="2026-11-30T10:00:00+00:00",
        host=HostInfo(source="live", holds=(), name="node7", kernel="6.1.0"),
        facts=replace(seen.facts, **facts),
        measurements=seen.measurements,
    )
    return judged(made)


def judged(made: Report) -> Report:
    """With findings made anew from its facts."""
    return diagnose(made, Policy())


def counter(name: str, value: float) -> Figure:
    return Figure(metric=Metric(name, "", Kind.COUNTER, more_is_better=False), value=value)


def rate(name: str, value: float, *flags: str) -> Figure:
    metric = Metric(name, "B/s", Kind.RATE, more_is_better=True)
    return Figure(metric=metric, value=value, flags=flags)


def room(name: str, value: float) -> Figure:
    return Figure(metric=Metric(name, "B", Kind.ROOM, more_is_better=True), value=value)
