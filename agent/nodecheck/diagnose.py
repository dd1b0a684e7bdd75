"""Facts to report: rules, waivers, strategies, verdict. Pure."""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Iterable

import msgspec

from nodecheck.checks import CHECKS
from nodecheck.checks.seen import Rule, Seen
from nodecheck.judge.lasting import lasting
from nodecheck.judge.strategies import reference_workload, strategies
from nodecheck.judge.verdict import verdict
from nodecheck.model import Evidence, Finding, Severity
from nodecheck.policy import Policy, Waiver
from nodecheck.report import Report, in_utc
from nodecheck.serving import Workload


def diagnose(
    report: Report,
    policy: Policy,
    workload: Workload | None = None,
    silent: tuple[str, ...] = (),
) -> Report:
    """The report with findings, strategies and verdict made anew from its facts.

    `workload` is a model that the user named; without one (neither here nor in the report) the
    strategies are judged for the policy's reference workload, and rules that need a model rest.
    Checks that are `silent` had a fault, and have not answered since.
    """
    seen = what_rules_see(report, policy, workload)
    judged = msgspec.structs.replace(
        report,
        policy=policy.label,
        workload=seen.workload or reference_workload(policy),
        findings=findings(seen, report.time),
        strategies=strategies(seen),
    )
    return msgspec.structs.replace(judged, verdict=verdict(judged, policy, silent))


def what_rules_see(report: Report, policy: Policy, workload: Workload | None = None) -> Seen:
    """The report's facts, as diagnose takes them."""
    earlier = report.workload if report.workload and report.workload.named_by_user else None
    return Seen(
        facts=report.facts,
        policy=policy,
        measurements=report.measurements,
        transfers=report.transfers,
        past=report.past,
        workload=workload or earlier,
        live=report.host.source == "live",
    )


def findings(seen: Seen, time: str) -> tuple[Finding, ...]:
    """The gravest come first, of equal ones those of GPUs: a node is rented for them."""
    today = in_utc(time).date()
    found = (lasting(finding, seen) for rule in rules() for finding in rule.judge(seen))
    told = [waived(finding, seen.policy.waivers, today) for finding in found]
    return tuple(sorted(told, key=lambda f: (-f.severity.rank, not f.id.startswith("gpu."))))


def rules() -> Iterable[Rule]:
    """The rules of all checks, in the order of the checks."""
    for check in CHECKS:
        yield from importlib.import_module(f"nodecheck.checks.{check}.rules").RULES


def waived(finding: Finding, waivers: tuple[Waiver, ...], today: datetime.date) -> Finding:
    """The finding as info where the policy lives with it; with a note where that time is over."""
    ours = [waiver for waiver in waivers if waiver.covers(finding)]
    for waiver in ours:
        if waiver.holds(today):
            return msgspec.structs.replace(finding, severity=Severity.INFO, waived=waiver.reason)
    notes = (
        Evidence(value=f"waiver expired on {waiver.expires}: {waiver.reason}", source="policy")
        for waiver in ours
    )
    return msgspec.structs.replace(finding, evidence=(*notes, *finding.evidence))
