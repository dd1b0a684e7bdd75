"""The page that the daemon serves: the verdict first, then why, what to do, and what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nodecheck.judge.node_words import node_words
from nodecheck.model import Owner, Severity, Status, faults
from nodecheck.records.figure_names import named
from nodecheck.records.figures import Figure
from nodecheck.records.series import Series
from nodecheck.render import speeds
from nodecheck.render.bench.html import FIGURES, measured
from nodecheck.render.bench.verdict import PARTS, is_empty, verdict
from nodecheck.render.history.html import chart_row
from nodecheck.render.live.changes import past
from nodecheck.render.live.figures import followed
from nodecheck.render.live.spark import spark
from nodecheck.render.live.told import DAYS, Told
from nodecheck.render.metrics import amount, between, duration
from nodecheck.render.page import page_maker, told_time
from nodecheck.render.report.html import missing_words
from nodecheck.render.report.terminal import note, workload_words
from nodecheck.report import Report
from nodecheck.units import count

REFRESH_SECONDS, FIRST_REFRESH_SECONDS = 15, 5
"""How often the page asks for a newer one, and while there is no report. Source: nodecheck's own
judgement: the answer that nothing is new costs the daemon a millisecond."""

WHO = {
    Owner.USER: "who runs the model",
    Owner.OPERATOR: "who runs this node",
    Owner.HYPERVISOR: "who runs the hypervisor",
    Owner.HARDWARE: "who services the hardware",
}


def page() -> Callable[[Report | None, float | None, Told], str]:
    """Makes the page: of a report, its age in seconds where it is too old, and the history."""
    return page_maker("live.html.j2", _content, **FIGURES)


def _content(report: Report | None, stale_seconds: float | None, told: Told) -> dict[str, Any]:
    common = {"days": DAYS, "who": WHO, **past(report, told)}
    if report is None:
        node = told.history.node if told.history else None
        first = {"report": None, "interval": FIRST_REFRESH_SECONDS, "title": (), "node": node}
        return {**common, **first}
    return {
        **common,
        "report": report,
        "interval": REFRESH_SECONDS,
        "node": report.host.name,
        "title": (f"nodecheck {report.nodecheck_version}", *_node(report)),
        "stale": "" if stale_seconds is None else duration(stale_seconds),
        "checked": told_time(report.time),
        "measured_time": told_time(report.measured_time or report.time),
        "is_ok": report.verdict.status is Status.OK,
        "faults": faults(report.findings),
        "notes": [note(f) for f in report.findings if f.severity is Severity.INFO],
        "unread": f"{count(len(report.gaps), 'fact')} that could not be read",
        "gaps": [(missing_words(gap), gap) for gap in report.gaps],
        **_ways(report),
        **_figures(report, told.over_time),
    }


def _node(report: Report) -> tuple[str, ...]:
    """What the node is; its name stands above."""
    words = node_words(report)
    return words[1:] if words[:1] == (report.host.name,) else words


def _ways(report: Report) -> dict[str, Any]:
    """Those that the chart does not show are told in a line each."""
    rows = [(speeds.row(each), speeds.speeds([each])) for each in report.strategies]
    return {
        "workload": workload_words(report, "nodecheck plan FILE"),
        "ways": [row for row, _ in rows],
        "speeds": speeds.speeds(report.strategies),
        "undrawn": [row for row, drawn in rows if not drawn],
    }


def _figures(report: Report, over_time: Iterable[Series]) -> dict[str, Any]:
    lines = {each.metric.name: each for each in over_time if len(each.times) > 1}
    found = followed(report)
    drawn = [lines[each.metric.name] for each in found if each.metric.name in lines]
    return {
        "measured": not is_empty(report),
        "sentence": verdict(report, tuple(PARTS))[1],
        "figures": [_row(each, lines.get(each.metric.name)) for each in found],
        "charts": [chart_row(each) for each in drawn],
        **measured(report, tuple(PARTS)),
    }


def _row(figure: Figure, series: Series | None) -> dict[str, str]:
    """A figure, and how far it strayed in the last days."""
    name = named(figure.metric)
    row = {
        "name": name,
        "value": amount(figure.metric, figure.value),
        "flags": ", ".join(figure.flags),
        "strayed": "",
        "line": "",
    }
    if series is None:
        return row
    values = [value for _, value in series.clean()] or list(series.values)
    strayed = between(series.metric, min(values), max(values))
    return {**row, "strayed": strayed, "line": spark(series, f"{name}, {DAYS} days: {strayed}")}
