"""A node's history at a terminal: what changed, what drifted, what fills up, what grows."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence

from nodecheck.checks.cpu.isa import by_importance
from nodecheck.model import Severity
from nodecheck.policy import Policy
from nodecheck.records.differences import Difference
from nodecheck.records.figure_names import named
from nodecheck.records.history.changes import Change
from nodecheck.records.history.drift import Drift
from nodecheck.records.history.forecast import Forecast
from nodecheck.records.history.growth import Growth
from nodecheck.records.history.history import History
from nodecheck.records.series import Listed, Series
from nodecheck.records.state import POLICY
from nodecheck.render.history import drawing
from nodecheck.render.layout import Column, Line, Span, hanging, joined, printable, table
from nodecheck.render.metrics import (
    DAY,
    amount,
    became,
    between,
    duration,
    fine_percent,
    moment,
)
from nodecheck.render.styles import MARKS, STATUS_STYLES, WIDTH_MAX, fitting
from nodecheck.units import count, listed

CHANGES_SHOWN, ROWS_SHOWN = 40, 12
NAMES_SHOWN = 6
"""Of the flags that came or went at once."""

TIME_COLUMN, NAME_MOST = 17, 40
CHART_LEAST = 40
"""Columns that a plot needs; the lists need more."""

DATE = len("2026-11-29")
HEADLINE_LEAST = 20
"""Columns that a headline needs to say anything."""

HOURS_BELOW = 2
"""Days, less than which is told in hours."""

NEAR = 1e-6
"""What a whole number may be missed by."""

BUILT_IN = f"{Policy().name} ("
"""How the label of the built-in policy begins."""

WORSE = MARKS[Severity.WARNING][0]
STYLES = dict(MARKS.values()) | {status.value: style for status, style in STATUS_STYLES.items()}

Told = tuple[str, ...]
"""A mark (or none), a name, a sentence."""


def render(history: History, asked: str, width: int) -> list[Line]:
    """The lines; `asked` says in words since when."""
    width = fitting(width)
    lines = _heading((history.node, *taken(history, asked)), width)
    if unchanged := unchanged_words(history):
        lines += [(), *hanging(Span(""), Span(unchanged, "bold"), 0, width)]
    lines += _changes(history.changes, width)
    for name, rows in sections(history):
        lines += _section(name, rows, width)
    if quiet := quiet_words(history):
        lines += [(), *hanging(Span(""), Span(quiet, "bold"), 0, width)]
    lines += _latest(history.latest, width)
    return lines + _noted(history.notes, width) + _hint(history, width)


def _noted(notes: Sequence[str], width: int) -> list[Line]:
    if not notes:
        return []
    lines = [line for note in notes for line in hanging(Span(""), Span(note), 1, width)]
    return [(), (Span("NOTED", "bold"),), *lines]


def _hint(history: History, width: int) -> list[Line]:
    """How to see the first of what moved."""
    moved = [each.metric.name for each in history.drifts]
    moved += [each.metric.name for each in history.forecasts]
    if not moved:
        return []
    command = Span(f"nodecheck history --metric {shlex.quote(printable(moved[0]))}   ", "bold")
    return [(), *hanging(command, Span("draws it over time"), len(command.text), width)]


def render_metric(series: Series, asked: str, width: int, *, unicode: bool) -> list[Line]:
    """One figure over time."""
    width = max(CHART_LEAST, min(width, WIDTH_MAX))
    name = series.metric.name
    words = named(series.metric) if named(series.metric) != name else None
    lines = _heading((name, words, _from_to(series.times[0], series.times[-1]), asked), width)
    drawn = drawing.draw(series, width, unicode=unicode)
    lines += [(), *drawn] if drawn else []
    said = Span(" ".join(drawing.summary(series)))
    return [*lines, (), *hanging(Span(""), said, 0, width)]


def _heading(parts: Iterable[str | None], width: int) -> list[Line]:
    """The command, and what is shown."""
    first = "nodecheck history"
    return joined(first, tuple(filter(None, parts)), len(first) + 3, width)


def taken(history: History, asked: str) -> list[str]:
    """How many snapshots, of when, and what was asked for."""
    return [count(history.count, "snapshot"), _from_to(history.first, history.last), asked]


def _from_to(*ends: int | None) -> str:
    return " to ".join(dict.fromkeys(moment(each) for each in ends if each is not None))


def sections(history: History) -> list[tuple[str, list[Told]]]:
    """What follows the changes, those sections that hold something."""
    found = (
        ("DRIFT", [_drift(each) for each in history.drifts]),
        ("FORECAST", [_forecast(each, history.time) for each in history.forecasts]),
        ("COUNTERS", [_growth(each) for each in history.growths]),
    )
    return [(name, rows) for name, rows in found if rows]


def _drift(each: Drift) -> Told:
    """A figure that lies elsewhere than before, and by how much it varies by itself."""
    direction = "worse" if each.worse else "better"
    levels = became(each.metric, each.before, each.after)
    since = f"{'slowly ' if each.gradual else ''}since {moment(each.since)[:DATE]}"
    said = f"{levels} ({fine_percent(each.change, '+')}, {direction}) {since}"
    spread = f"by itself it varies by {fine_percent(each.spread)}"
    return WORSE if each.worse else "", named(each.metric), f"{said}; {spread}"


def _forecast(each: Forecast, now: int) -> Told:
    """A disk that fills up."""
    loss = f"{between(each.metric, *each.per_day)} less each day"
    when = "now" if now - each.newest < DAY else f"on {moment(each.newest)}"
    said = f"{_full(each, now)}: {amount(each.metric, each.left)} {when}, {loss}"
    return WORSE, named(each.metric), said


def _full(each: Forecast, now: int) -> str:
    """In how long, never told shorter than it may be nor longer, and the date."""
    soonest, latest = each.days
    if latest <= 0:
        return "full by now"
    parts, noun = (24, "hours") if latest < HOURS_BELOW else (1, "days")
    ends = math.floor(soonest * parts + NEAR), math.ceil(latest * parts - NEAR)
    span = "-".join(map(str, dict.fromkeys(ends)))
    dates = dict.fromkeys(moment(now + int(days * DAY))[:DATE] for days in each.days)
    about = "about " if len(dates) == 1 else ""
    return f"full in {span} {noun}, {about}{' to '.join(dates)}"


def _growth(each: Growth) -> Told:
    """A counter that rose."""
    rise = f"+{amount(each.metric, each.by)} in {duration(each.over_seconds)}"
    mark = WORSE if each.fault else ""
    return mark, named(each.metric), f"{rise}, last rise {moment(each.newest)}"


def unchanged_words(history: History) -> str:
    """Where no change is told of: over how long."""
    if history.count < 2:
        return "One snapshot says nothing about change: take another later."
    if history.changes:
        return ""
    span = duration((history.last or 0) - (history.first or 0))
    return f"No change of hardware, software or findings in {span}."


def quiet_words(history: History) -> str:
    """What there is nothing of besides; what could not be told is in the notes."""
    absent = [
        words
        for name, words, some in (
            ("drifts", "no measurement drifted", history.drifts),
            ("forecasts", "no disk fills up", history.forecasts),
            ("growths", "no counter grew", history.growths),
        )
        if not some and name not in history.untold
    ]
    return f"{', '.join(absent)}.".capitalize() if absent and history.count > 1 else ""


def _section(name: str, rows: list[Told], width: int) -> list[Line]:
    longest = max(len(printable(label)) for _, label, *_ in rows)
    room = min(NAME_MOST, longest, width // 2 - 5)
    columns = (Column("", 1), Column("", room), Column("", width - room - 9))
    shown = table(columns, rows[:ROWS_SHOWN], STYLES)[1:]
    more = len(rows) - ROWS_SHOWN
    rest = hanging(Span(""), Span(f"{more} more: --json has them", "dim"), 4, width)
    return [(), (Span(name, "bold"),), *shown, *(rest if more > 0 else ())]


def _changes(changes: Sequence[Change], width: int) -> list[Line]:
    if not changes:
        return []
    ids = max(len(str(change.snapshot)) for change in changes[:CHANGES_SHOWN]) + 1
    columns = (
        Column("", TIME_COLUMN), Column("", ids), Column("", 1),
        Column("", width - TIME_COLUMN - ids - 10),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    snapshot = None
    for change in changes[:CHANGES_SHOWN]:
        new = change.snapshot != snapshot
        first = (moment(change.time), f"@{change.snapshot}") if new else ("", "")
        snapshot = change.snapshot
        found = change.difference
        said = "; ".join(filter(None, (_difference_words(found), repeated(change))))
        rows.append((*first, _mark(found), f"{label(found)}: {said}"))
    lines: list[Line] = [(), (Span("CHANGES", "bold"),), *table(columns, rows, STYLES)[1:]]
    if (more := len(changes) - CHANGES_SHOWN) > 0:
        text = f"{more} more, back to {moment(changes[-1].time)}: --json has them"
        lines += hanging(Span(""), Span(text, "dim"), TIME_COLUMN + ids + 8, width)
    return lines


def severity(found: Difference) -> str:
    """That of a finding which appeared or became another; empty of all else."""
    return found.after or "" if found.kind == "finding" else ""


def _mark(found: Difference) -> str:
    return {each.value: mark for each, (mark, _) in MARKS.items()}.get(severity(found), "")


def label(found: Difference) -> str:
    """What differs, and where."""
    return ", ".join(filter(None, (found.name, found.where)))


def is_now(found: Difference) -> str | None:
    """What it is now; the built-in policy is told by that, not by its checksum alone."""
    before, after = found.before or "", found.after or ""
    both = before.startswith(BUILT_IN) and after.startswith(BUILT_IN)
    if (found.kind, found.name) == ("trait", POLICY) and both:
        return f"{after}: the built-in policy of another nodecheck version"
    return found.after


def _difference_words(found: Difference) -> str:
    """From what to what."""
    if found.is_set:
        parts = (("gained", found.gained), ("lost", found.lost))
        return "; ".join(f"{verb} {_some(names)}" for verb, names in parts if names)
    if found.before is None:
        appeared = found.kind == "finding"
        return f"appeared ({found.after})" if appeared else f"{found.after} (new)"
    if found.after is None:
        verb = "cleared" if found.kind == "finding" else "gone"
        return f"{verb} (was {found.before})"
    return f"{found.before} -> {is_now(found)}"


def repeated(change: Change) -> str:
    """How often it went back and forth, where it did."""
    if change.repeats < 2:
        return ""
    return f"changed {change.repeats} times since {moment(change.first)}"


def ordered(names: Sequence[str]) -> list[str]:
    """What matters for serving first."""
    known, others = by_importance(names)
    return [*known, *others]


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more: "avx2, fma, avx and 31 more"."""
    return listed(ordered(names), NAMES_SHOWN)


def _latest(latest: Sequence[Listed], width: int) -> list[Line]:
    if not latest:
        return []
    ids = max(len(str(each.id)) for each in latest) + 1
    room = width - ids - TIME_COLUMN - 8 - 8
    columns = (
        Column("", ids), Column("", TIME_COLUMN), Column("", 8),
        *([Column("", room)] if room >= HEADLINE_LEAST else []),
    )  # fmt: skip
    rows = [
        (f"@{each.id}", moment(each.time), each.status, _cut(printable(each.headline), room))
        for each in latest
    ]
    shown = [row[: len(columns)] for row in rows]
    return [(), (Span("LATEST", "bold"),), *table(columns, shown, STYLES)[1:]]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 3)].rstrip() + "..."
