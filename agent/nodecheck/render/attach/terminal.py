"""A watched engine at a terminal: why it is slow first, then what to change, then the figures."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.judge.engine.answer import Answer, Doing, answer, hidden, name, of_engine
from nodecheck.judge.engine.looked_at import looked_at
from nodecheck.judge.engine.node import node_findings, node_status
from nodecheck.judge.not_checked import REASONS
from nodecheck.model import Finding, Reason, Status
from nodecheck.policy import Policy
from nodecheck.render.attach.figures import rows
from nodecheck.render.attach.threads import threads
from nodecheck.render.layout import Line, Span, hanging, joined
from nodecheck.render.report.terminal import INDENT, fault
from nodecheck.render.styles import STATUS_STYLES, fitting
from nodecheck.report import Report
from nodecheck.units import count

LABEL, SECTION = 12, 14

HIDDEN = {
    Reason.DENIED: (
        "another user's process hides this (run nodecheck as that user, or as root): {}"
    ),
}
"""What is said of what is not known, by reason; else the reason's own word."""


def render(report: Report, width: int, policy: Policy) -> list[Line]:
    """The lines, none longer than `width` save commands; judged by `policy`."""
    width = fitting(width)
    facts, found = report.facts.engine, of_engine(report.findings)
    told = answer(report, policy)
    label = Span(told.doing.value.upper(), label_style(told, found))
    lines = hanging(label, Span(told.sentence, "bold"), INDENT, width)
    lines += joined("", watched(report), INDENT, width)
    if found:
        lines += [(), (Span("WHY", "bold"),)]
        lines += [line for finding in found for line in fault(finding, width)]
    lines += [(), *threads(facts, width)] if facts.threads else []
    lines += _figures(report, width)
    if fine := looked_at(report, policy):
        lines += [(), *joined("LOOKED AT", fine, SECTION, width)]
    lines += _hidden(report, width)
    return lines + _after(report, policy, width)


def label_style(told: Answer, found: Sequence[Finding]) -> str:
    """How the first word is set: by the gravest finding, which is the first."""
    if found:
        return STATUS_STYLES[Status(found[0].severity.value)]
    return STATUS_STYLES[Status.OK if told.doing is Doing.WELL else Status.UNKNOWN]


def watched(report: Report) -> tuple[str, ...]:
    """What was watched, and for how long."""
    facts = report.facts.engine
    parts = [name(facts)]
    if len(facts.processes) > 1:
        parts.append(f"{len(facts.processes)} processes")
    if facts.thread_count is not None:
        parts.append(count(facts.thread_count, "thread"))
    if facts.seconds is not None:
        parts.append(f"watched {facts.seconds:.1f} s")
    return tuple(parts)


def _figures(report: Report, width: int) -> list[Line]:
    lines: list[Line] = []
    for label, text in rows(report.facts):
        lines += hanging(Span(f" {label}", "dim"), Span(text), LABEL, width)
    return [(), *lines] if lines else []


def _hidden(report: Report, width: int) -> list[Line]:
    lines: list[Line] = []
    for reason, names in hidden(report.gaps, causes=True).items():
        told = HIDDEN.get(reason, f"{REASONS[reason]}: {{}}").format(", ".join(names))
        label = "" if lines else "NOT SEEN"
        lines += hanging(Span(label, "bold"), Span(told), SECTION, width)
    return [(), *lines] if lines else []


def _after(report: Report, policy: Policy, width: int) -> list[Line]:
    """Where the rest is told: of the finding, and of the node."""
    lines: list[Line] = [()]
    if found := of_engine(report.findings):
        first = Span(f"nodecheck explain {found[0].id}   ", "bold")
        after = Span("the whole story, and what to check after the change")
        lines += hanging(first, after, len(first.text), width)
    status, others = node_status(report, policy), node_findings(report)
    said = "no finding"
    if others:
        them = "it" if len(others) == 1 else "them"
        said = f"{count(len(others), 'finding')}: nodecheck tells {them}"
    elif status is Status.UNKNOWN:
        said = "not all was judged: nodecheck tells why"
    node = f"The node itself: {status.value.upper()}, {said}"
    return lines + hanging(Span(""), Span(node), 0, width)
