"""Reports of nodes whose gate is judged."""

from __future__ import annotations

from typing import Any

from nodecheck.checks.seen import Facts
from nodecheck.judge.gate.answers import Answer
from nodecheck.judge.gate.requirements import requirements
from nodecheck.model import Gap, Measurement, Reason
from nodecheck.policy import Policy, Requirements
from nodecheck.report import HostInfo, Report


def node(
    facts: Facts, *gaps: Gap, measurements: tuple[Measurement, ...] = (), live: bool = True
) -> Report:
    """A report of these facts, not judged."""
    return Report(
        nodecheck_version="0",
        time="2026-01-01T00:00:00+00:00",
        host=HostInfo(source="live" if live else "captured", holds=("cpu",)),
        facts=facts,
        measurements=measurements,
        gaps=gaps,
    )


def gap(check: str, field: str, reason: Reason, detail: str = "the reason") -> Gap:
    return Gap(check=check, field=field, reason=reason, detail=detail)


def answers(report: Report, **asked: Any) -> tuple[Answer, ...]:
    """What the gate answers to these members of a policy's requirements."""
    return tuple(requirements(report, Policy(requirements=Requirements(**asked))))


def told(report: Report, **asked: Any) -> tuple[str, str, float | None]:
    """Status, text and value of the one answer to one requirement."""
    (answer,) = answers(report, **asked)
    return answer.status.value, answer.text, answer.value
