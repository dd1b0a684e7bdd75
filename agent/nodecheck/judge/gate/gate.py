"""The gate: the worst of what was required, of the model's speed, and of the node's findings."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.judge.gate.answers import WORST_FIRST, Answer
from nodecheck.judge.gate.requirements import requirements
from nodecheck.judge.verdict import unjudged, without
from nodecheck.model import Finding, Status, Struct, faults
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.units import count

NODE = "node"
EXPIRED = "waiver expired on "


class Gate(Struct, frozen=True, kw_only=True):
    """The worst of all answers, and they: worst first, of equal ones what was asked for first."""

    status: Status
    answers: tuple[Answer, ...]


def gate(report: Report, policy: Policy, model: Answer | None) -> Gate:
    """Judge a diagnosed report against the policy's requirements; `model` is one answer more."""
    asked = [*([model] if model else []), *requirements(report, policy), _node(report, policy)]
    answers = sorted(asked, key=lambda answer: WORST_FIRST.index(answer.status))
    return Gate(status=answers[0].status, answers=tuple(answers))


def expired_waivers(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What a policy lived with until a day that is over."""
    return tuple(
        f"waiver of {finding.id} {each.value.removeprefix('waiver ')}"
        for finding in findings
        for each in finding.evidence
        if each.value.startswith(EXPIRED)
    )


def _node(report: Report, policy: Policy) -> Answer:
    """The node's own status, by its worst finding."""
    found = faults(report.findings)
    if found:
        first = next(iter(expired_waivers(found[:1])), found[0].id).partition(": ")[0]
        text = f"node: {first}{f' and {len(found) - 1} more' if len(found) > 1 else ''}"
    elif report.verdict.status is Status.OK:
        waived = sum(finding.waived is not None for finding in report.findings)
        but = f" but {count(waived, 'waived finding')}" if waived else ""
        text = f"nothing{but} was found that holds this node back"
    else:
        text = "; ".join(without(report, unjudged(report, policy)))
    return Answer(name=NODE, status=report.verdict.status, text=text)
