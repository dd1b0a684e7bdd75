"""The gate: the worst of what was required, of the model's speed, and of the node's findings."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.judge.gate.answers import WORST_FIRST, Answer
from nodecheck.judge.gate.requirements import requirements
from nodecheck.judge.verdict import status_of, unjudged, without
from nodecheck.model import Finding, Status, Struct, faults
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.units import count

NODE = "node"
EXPIRED = "waiver expired on "
_SAME_AS = {"gpus": "gpu.count_low"}
"""A requirement that is not met -> the finding that says the same."""


class Gate(Struct, frozen=True, kw_only=True):
    """The worst of all answers, and they: worst first, of equal ones what was asked for first."""

    status: Status
    answers: tuple[Answer, ...]


def gate(report: Report, policy: Policy, model: Answer | None) -> Gate:
    """Judge a diagnosed report against the policy's requirements; `model` is one answer more."""
    required = [*([model] if model else []), *requirements(report, policy)]
    asked = [*required, _node(report, policy, required)]
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


def _node(report: Report, policy: Policy, required: Iterable[Answer]) -> Answer:
    """The node's own status, by its worst finding that no requirement's answer tells already."""
    told = {_SAME_AS.get(answer.name) for answer in required if answer.status is Status.CRITICAL}
    findings = tuple(finding for finding in report.findings if finding.id not in told)
    other = " else" if len(findings) < len(report.findings) else ""
    missing, found = unjudged(report, policy), faults(findings)
    status = status_of(findings, missing) if other else report.verdict.status
    if found:
        first = next(iter(expired_waivers(found[:1])), found[0].id).partition(": ")[0]
        text = f"node: {first}{f' and {len(found) - 1} more' if len(found) > 1 else ''}"
    elif status is Status.OK:
        waived = sum(finding.waived is not None for finding in findings)
        but = f" but {count(waived, 'waived finding')}" if waived else ""
        text = f"nothing{other}{but} was found that holds this node back"
    else:
        text = "; ".join(without(report, missing))
    return Answer(name=NODE, status=status, text=text)
