"""What the history tells beside a report: what is new in it, and what went on before."""

from __future__ import annotations

from typing import Any

from nodecheck.model import Struct
from nodecheck.records.differences import Difference
from nodecheck.records.history.history import History
from nodecheck.render.history.html import GONE, SECTIONS, change_row
from nodecheck.render.history.terminal import is_now, label, quiet_words, sections, unchanged_words
from nodecheck.render.live.told import DAYS, Told
from nodecheck.render.metrics import moment
from nodecheck.report import Report, in_utc
from nodecheck.units import listed

SHOWN, MOST = 6, 100
"""At once, and in all; `nodecheck history` tells more."""

NAMES_SHOWN = 3
"""Of what is new, in the line below the verdict."""


class News(Struct, frozen=True, kw_only=True):
    """What the last report tells that the one before did not; `before` is the time of that one."""

    before: str
    words: str
    rows: tuple[dict[str, str], ...]


def past(report: Report | None, told: Told) -> dict[str, Any]:
    """What the section on changes shows."""
    history = told.history
    rows = [change_row(each) for each in history.changes[:MOST]] if history else []
    return {
        "days": DAYS,
        "why_not": told.why_not,
        "news": _news(report, history) if report and history else None,
        "changes": rows[:SHOWN],
        "earlier": rows[SHOWN:],
        "left_out": max(0, len(history.changes) - MOST) if history else 0,
        "unchanged": _unchanged(history) if history else "",
        "quiet": quiet_words(history) if history else "",
        "trends": [(SECTIONS[name], told) for name, told in sections(history)] if history else [],
        "untold": history.notes if history else (),
        "last": history.latest[0] if history and history.latest and not report else None,
        "moment": moment,
    }


def _unchanged(history: History) -> str:
    return unchanged_words(history) if history.count else f"No snapshot in the last {DAYS} days."


def _news(report: Report, history: History) -> News | None:
    """None where the report was not stored, or is the first."""
    time = int(in_utc(report.time).timestamp())
    at = next((n for n, each in enumerate(history.latest) if each.time == time), None)
    if at is None or at + 1 >= len(history.latest):
        return None
    this, before = history.latest[at : at + 2]
    new = [each for each in history.changes if each.snapshot == this.id]
    found = sorted((each.difference for each in new), key=lambda what: what.kind)  # findings first
    words = listed([f"{label(each)} {_became(each)}" for each in found], NAMES_SHOWN)
    return News(before=moment(before.time), words=words, rows=tuple(map(change_row, new)))


def _became(found: Difference) -> str:
    if found.is_set:
        return "changed"
    if found.after is None:
        return GONE[found.kind]
    appeared = found.kind == "finding" and found.before is None
    return f"appeared ({found.after})" if appeared else f"is now {is_now(found)}"
