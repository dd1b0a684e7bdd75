"""The gate's answer in a line for monitoring, its figures for graphs, and its grounds."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.judge.gate.answers import Answer, why_unknown
from nodecheck.judge.gate.gate import NODE, Gate, expired_waivers
from nodecheck.judge.gate.requirements import INSTRUCTION_SETS
from nodecheck.judge.gate.serving import choose
from nodecheck.judge.verdict import has_no_gpu, unjudged
from nodecheck.model import Finding, Severity, Status, faults
from nodecheck.plan import Plan
from nodecheck.policy import Policy, Waiver
from nodecheck.render.layout import printable
from nodecheck.render.policy import ends_soon, until
from nodecheck.report import Report, in_utc
from nodecheck.units import count, gib
from nodecheck.words import FIRST_LINE_BYTES, first_line, without_controls

MORE = "; ..."

TELL = ("flags", "total_bytes", "filesystems", "gpus")
"""The facts without which their subject is not judged."""


def headline(told: Gate) -> str:
    """The status and what decides it, worst first, in at most 80 bytes.

    What is met is counted where something is not. A node without a finding is worth no word where
    something was asked for.
    """
    asked = [answer for answer in told.answers if answer.name != NODE]
    met = [answer for answer in asked if answer.status is Status.OK]
    deciding = [answer for answer in told.answers if answer.status is not Status.OK]
    well = sorted(met, key=lambda answer: answer.name == INSTRUCTION_SETS) or told.answers
    texts = dict.fromkeys(without_controls(answer.text) for answer in deciding or well)
    line = _fitting(told.status.value.upper(), *texts)
    counted = f"; {count(len(met), 'requirement')} met"
    has_room = len(f"{line}{counted}".encode()) <= FIRST_LINE_BYTES and not line.endswith(MORE)
    if deciding and met and has_room:
        line += counted
    return first_line(line)


def _fitting(status: str, first: str, *others: str) -> str:
    """The first part, and as many of the others as there is room for."""
    line = f"{status} {first}"
    for number, part in enumerate(others, 1):
        after = "" if number == len(others) else MORE
        if len(f"{line}; {part}{after}".encode()) > FIRST_LINE_BYTES:
            return line + MORE
        line += f"; {part}"
    return line


def figures(told: Gate, report: Report) -> str:
    """The numbers as performance data of the Monitoring Plugins, always in the same order."""
    numbers = sorted((a for a in told.answers if _has_number(a)), key=lambda answer: answer.name)
    found = [finding.severity for finding in faults(report.findings)]
    return " ".join((
        *map(_figure, numbers),
        f"'criticals'={found.count(Severity.CRITICAL)};;0;0",
        f"'warnings'={found.count(Severity.WARNING)};0;;0",
    ))  # fmt: skip


def _has_number(answer: Answer) -> bool:
    numbers = (answer.value, answer.warning_below, answer.critical_below)
    return any(number is not None for number in numbers)


def _figure(answer: Answer) -> str:
    """'label'=value[UOM];[warn];[crit];[min]: a range "5:" alerts below 5, U is not known."""
    value = "U" if answer.value is None else _number(answer.value) + answer.unit
    warning, critical = (
        "" if least is None else f"{_number(least)}:"
        for least in (answer.warning_below, answer.critical_below)
    )
    return f"'{answer.name}'={value};{warning};{critical};0"


def _number(value: float) -> str:
    """Digits and a point alone, as the guidelines want it."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def grounds(
    told: Gate, report: Report, policy: Policy, plan: Plan | None, way: str | None, *, bars: bool
) -> list[str]:
    """A line each: what was asked for, findings with what to do, waivers, the model.

    `way` is the strategy that was named. Without `bars` no line holds a bar, which would begin
    figures there: a command with one is left to `nodecheck explain`.
    """
    found = faults(report.findings)
    lines = [
        *(f"{a.name}: {a.status.value}: {a.text}" for a in told.answers if a.name != NODE),
        *_unjudged(report, policy),
        *(_finding(finding, bars=bars) for finding in found),
        *expired_waivers(found),
        *_waivers(report, policy.waivers),
        *(_model(plan, way) if plan else ()),
        f"node: {report.verdict.headline}",
    ]
    return [printable(line if bars else line.replace("|", "/")) for line in lines]


def _finding(finding: Finding, *, bars: bool) -> str:
    remedy = next(iter(finding.remedy.commands), finding.remedy.text)
    if "|" in remedy and not bars:
        remedy = f"nodecheck explain {finding.id}"
    return f"{finding.severity.value}: {finding.id}, {finding.subject}: {remedy}"


def _unjudged(report: Report, policy: Policy) -> Iterator[str]:
    """Each subject that the policy requires and that was not judged."""
    for subject in unjudged(report, policy):
        absent = subject == "gpu" and has_no_gpu(report)
        why = "there is none" if absent else f"not judged: {why_unknown(report, subject, *TELL)}"
        yield f"required: {subject}: {why}"


def _waivers(report: Report, waivers: tuple[Waiver, ...]) -> Iterator[str]:
    """The findings that are lived with, and waivers that end soon though they waive nothing now."""
    today = in_utc(report.time).date()
    in_force = [waiver for waiver in waivers if waiver.holds(today)]
    for finding in report.findings:
        used = next((waiver for waiver in in_force if waiver.covers(finding)), None)
        if used and finding.waived is not None:
            yield f"waived: {finding.id}, {finding.subject}: {until(used, today)}: {used.reason}"
    for waiver in in_force:
        if ends_soon(waiver, today) and not any(map(waiver.covers, report.findings)):
            where = f", {waiver.subject}" if waiver.subject else ""
            yield f"waiver of {waiver.id}{where}: {until(waiver, today)}: {waiver.reason}"


def _model(plan: Plan, way: str | None) -> Iterator[str]:
    """The model, and what limits the way that was judged or keeps it from fitting."""
    yield f"model: {plan.workload.name}, {gib(plan.workload.weight_bytes_shipped)}"
    chosen = choose(plan.strategies, way)
    if chosen is None:
        return
    yield f"{chosen.strategy}: limited by {chosen.limit}; {chosen.basis}"
    for fit in plan.fits:
        if (
            fit.strategy == chosen.strategy
            and fit.fits is False
            and fit.available_bytes is not None
        ):
            advice = f"; {fit.advice}" if fit.advice else ""
            room = f"{gib(fit.needed_bytes)} needed, {gib(fit.available_bytes)} there"
            yield f"{fit.engine or fit.strategy}: {fit.room} {room}{advice}"
