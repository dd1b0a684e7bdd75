"""A node's history as a page that needs nothing else: no script, no address, no font of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodecheck.records.differences import Difference
from nodecheck.records.figure_names import named
from nodecheck.records.history.changes import Change
from nodecheck.records.history.history import History
from nodecheck.records.series import Series
from nodecheck.render.history import chart
from nodecheck.render.history.drawing import summary
from nodecheck.render.history.terminal import (
    is_now,
    label,
    ordered,
    quiet_words,
    repeated,
    sections,
    severity,
    taken,
    unchanged_words,
)
from nodecheck.render.metrics import moment
from nodecheck.render.page import page_maker

CHANGES_MOST = 500
"""More are a page that nobody reads; --json has them."""

BAND = "The line is the median of each stretch of time, the band its lowest to its highest."
GONE = {"finding": "cleared", "trait": "gone"}
SECTIONS = {
    "DRIFT": ("Drift", "Measurements that left their level", "change"),
    "FORECAST": ("Forecast", "Disks that fill up", "when it is full"),
    "COUNTERS": ("Counters", "Counters that grew", "growth"),
}


def page() -> Callable[[History, Sequence[Series], str], str]:
    """Makes the page of a history: its figures over time, since when."""
    return page_maker("history.html.j2", _content, moment=moment)


def _content(history: History, over_time: Sequence[Series], asked: str) -> dict[str, Any]:
    return {
        "node": history.node,
        "title": [part for part in (history.node, *taken(history, asked)) if part],
        "unchanged": unchanged_words(history),
        "quiet": quiet_words(history),
        "changes": [change_row(each) for each in history.changes[:CHANGES_MOST]],
        "more_changes": max(0, len(history.changes) - CHANGES_MOST),
        "sections": [(*SECTIONS[name], rows) for name, rows in sections(history)],
        "latest": history.latest,
        "notes": history.notes,
        "charts": [chart_row(each) for each in over_time if _is_shown(each)],
    }


def change_row(change: Change) -> dict[str, str]:
    """A row: when, what, from what to what."""
    found = change.difference
    before, after = _sides(found)
    return {
        "time": moment(change.time),
        "snapshot": f"@{change.snapshot}",
        "class": "ok" if after == GONE["finding"] else severity(found),
        "what": label(found),
        "before": before,
        "after": after,
        "repeated": repeated(change),
    }


def _sides(found: Difference) -> tuple[str, str]:
    if not found.gained and not found.lost:
        appeared = found.kind == "finding" and found.before is None
        after = f"appeared ({found.after})" if appeared else is_now(found)
        return found.before or "-", after or GONE[found.kind]
    lost, gained = ", ".join(ordered(found.lost)), ", ".join(ordered(found.gained))
    return f"lost {lost}" if lost else "-", f"gained {gained}" if gained else "-"


def _is_shown(series: Series) -> bool:
    """Free inodes have no unit, and are of less interest than what measures or fills up."""
    return len(series.times) > 1 and bool(series.metric.unit)


def chart_row(series: Series) -> dict[str, str]:
    """A figure over time: its name, its drawing, and what that shows in sentences."""
    band = [BAND] if chart.has_band(series) else []
    said = " ".join([*summary(series, "dots"), *band])
    first, last = moment(series.times[0]), moment(series.times[-1])
    name = named(series.metric)
    described = f"{name} from {first} to {last}. {said}"
    return {"name": name, "svg": chart.over_time(series, described), "said": said}
