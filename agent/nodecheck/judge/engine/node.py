"""The node beside an engine: what is wrong with it, whatever holds the engine back."""

from __future__ import annotations

from nodecheck.judge.engine.answer import CHECK, of_engine
from nodecheck.judge.verdict import status_of, unjudged
from nodecheck.model import Finding, Status, faults
from nodecheck.policy import Policy
from nodecheck.report import Report


def node_findings(report: Report) -> tuple[Finding, ...]:
    """Warnings and worse that are not the engine's."""
    engine = of_engine(report.findings)
    return tuple(each for each in faults(report.findings) if each not in engine)


def node_status(report: Report, policy: Policy) -> Status:
    """The status of the node by itself."""
    missing = tuple(each for each in unjudged(report, policy) if each != CHECK)
    return status_of(node_findings(report), missing)
