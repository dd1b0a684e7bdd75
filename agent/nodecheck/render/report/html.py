"""A report as a page that needs nothing else: the whole record, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nodecheck.model import Gap, Severity, faults
from nodecheck.render import speeds
from nodecheck.render.bench.html import FIGURES, measured
from nodecheck.render.bench.verdict import PARTS, is_empty
from nodecheck.render.page import page_maker, told_time
from nodecheck.render.report.fact_sheets import TITLES, label, sheets
from nodecheck.render.report.terminal import engine_words, note, title_parts, workload_words
from nodecheck.report import Report


def page() -> Callable[[Report], str]:
    """Makes the page of a report."""
    return page_maker("report.html.j2", _content, **FIGURES)


def _content(report: Report) -> dict[str, Any]:
    verdict = report.verdict
    return {
        "node": report.host.name,
        "title": [*title_parts(report), told_time(report.time)],
        "status": verdict.status.value,
        "headline": verdict.headline,
        "faults": faults(report.findings),
        "notes": [*_notes(report)],
        "workload": workload_words(report),
        "ways": [speeds.row(each) for each in report.strategies],
        "speeds": speeds.speeds(report.strategies),
        "ruled_out": verdict.ruled_out,
        "not_checked": verdict.not_checked,
        "measured": not is_empty(report),
        **measured(report, tuple(PARTS)),
        "sheets": sheets(report),
        "gaps": [(missing_words(gap), gap) for gap in report.gaps],
    }


def _notes(report: Report) -> Iterator[str]:
    yield from (note(f) for f in report.findings if f.severity is Severity.INFO)
    if words := engine_words(report):
        yield words


def missing_words(gap: Gap) -> str:
    """What is not known, in words."""
    subject = TITLES.get(gap.check, gap.check)
    return subject if gap.field == "*" else f"{subject}: {label(gap.field.rpartition('.')[2])}"
