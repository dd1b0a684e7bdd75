"""What was judged: the status, that of each check, findings, gaps, and what node this is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nodecheck.checks import CHECKS
from nodecheck.model import UNANSWERED, Finding, Severity, Status
from nodecheck.records.state import state
from nodecheck.render.prometheus import STATUS_HELP
from nodecheck.render.prometheus.group import hardware
from nodecheck.render.prometheus.text import Sample, Series
from nodecheck.report import Report, in_utc

SKIPPED = "skipped"

STATUS = Series("nodecheck_status", STATUS_HELP, ("status",))
CHECK_STATUS = Series(
    "nodecheck_check_status",
    "1 for the status that a check has: its worst finding, unknown where what it reads could not "
    "be read, skipped where it did not run.",
    ("check", "status"),
)
FINDING = Series(
    "nodecheck_finding",
    "1 for each finding; those that the policy lives with are waived and info.",
    ("id", "subject", "severity", "owner", "action", "waived"),
)
FINDINGS = Series("nodecheck_findings", "Findings by severity.", ("severity",))
GAPS = Series("nodecheck_gaps", "Facts that could not be read.", ("check", "reason"))
NODE = Series(
    "nodecheck_node_info",
    "The node, always 1. Nodes with the same hardware label are alike.",
    ("hostname", "hardware", "cpu", "x86_64_level", "hypervisor", "kernel", "version"),
)
REPORTED = Series(
    "nodecheck_report_timestamp_seconds", "When the report was made, since 1970 in UTC."
)
TOOK = Series("nodecheck_report_duration_seconds", "How long reading the node took.")
MEASURED = Series(
    "nodecheck_measured_timestamp_seconds",
    "When the measured figures were measured, since 1970 in UTC.",
)
SERIES = (STATUS, CHECK_STATUS, FINDING, FINDINGS, GAPS, NODE, REPORTED, TOOK, MEASURED)

TELLING = {
    "cpu": ("flags",),
    "memory": ("total_bytes",),
    "disk": ("filesystems",),
    "pcie": ("paths",),
    "gpu": ("gpus",),
    "kernel_log": ("source",),
}
"""The facts without which a check says nothing of the node."""


def samples(report: Report) -> Iterator[Sample]:
    """Those that every report has."""
    yield from _one_of(STATUS, (), report.verdict.status.value, [each.value for each in Status])
    yield from _checks(report)
    yield from map(_finding, report.findings)
    severities = Counter(finding.severity for finding in report.findings)
    for severity in Severity:
        yield Sample(FINDINGS, severities[severity], (severity.value,))
    for (check, reason), count in Counter((g.check, g.reason.value) for g in report.gaps).items():
        yield Sample(GAPS, count, (check, reason))
    yield _node(report)
    yield from _times(report)


def _one_of(
    series: Series, labels: tuple[str, ...], now: str, names: list[str]
) -> Iterator[Sample]:
    for name in names:
        yield Sample(series, float(name == now), (*labels, name))


def _checks(report: Report) -> Iterator[Sample]:
    worst: dict[str, Severity] = {}
    for told in state(report).findings:
        worst[told.check] = max(
            worst.get(told.check, Severity.INFO), told.severity, key=lambda each: each.rank
        )
    names = [*(each.value for each in Status), SKIPPED]
    for check in CHECKS:
        now = check_status(report, check, worst.get(check, Severity.INFO))
        yield from _one_of(CHECK_STATUS, (check,), now, names)


def check_status(report: Report, check: str, worst: Severity) -> str:
    """A status, or skipped: `worst` is of the check's findings. What was not read is never ok."""
    if worst is not Severity.INFO:
        return str(worst.value)
    gaps = [gap for gap in report.gaps if gap.check == check]
    if any(gap.reason in UNANSWERED for gap in gaps):
        return Status.UNKNOWN.value
    if check in _idle(report):
        return SKIPPED
    blind = any(gap.field in ("*", *TELLING.get(check, ())) for gap in gaps)
    return Status.UNKNOWN.value if blind else Status.OK.value


def _idle(report: Report) -> set[str]:
    """Checks that did not run: not asked for, or nothing there to ask."""
    facts = report.facts
    ran = {
        "dram": bool(report.measurements or report.latencies),
        "cuda": facts.cuda.state is not None,
        "engine": facts.engine.state is not None,
        "python": facts.python.interpreter is not None,
    }
    return {check for check, has_run in ran.items() if not has_run}


def _finding(finding: Finding) -> Sample:
    labels = (
        finding.id,
        finding.subject,
        finding.severity.value,
        finding.owner.value,
        finding.remedy.action.value,
        "false" if finding.waived is None else "true",
    )
    return Sample(FINDING, 1, labels)


def _node(report: Report) -> Sample:
    cpu, virt = report.facts.cpu, report.facts.virt
    level = cpu.x86_64_level
    labels = (
        report.host.name,
        hardware(report),
        " ".join((cpu.brand or "").split()),
        None if level is None else str(level),
        virt.hypervisor,
        report.host.kernel,
        report.nodecheck_version,
    )
    return Sample(NODE, 1, tuple(each or "" for each in labels))


def _times(report: Report) -> Iterator[Sample]:
    yield Sample(REPORTED, in_utc(report.time).timestamp())
    if report.elapsed_seconds is not None:
        yield Sample(TOOK, report.elapsed_seconds)
    if report.measured_time or report.measurements:
        yield Sample(MEASURED, in_utc(report.measured_time or report.time).timestamp())
