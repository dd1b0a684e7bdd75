"""The gate's answer in a line for monitoring, its figures for graphs, and its grounds."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.judge.gate.answers import Answer
from nodecheck.judge.gate.gate import NODE, Gate, expired_waivers
from nodecheck.judge.gate.serving import choose
from nodecheck.model import Finding, Severity, Status, faults
from nodecheck.plan import Plan
from nodecheck.render.layout import printable
from nodecheck.report import Report
from nodecheck.units import gib
from nodecheck.words import FIRST_LINE_BYTES, first_line, without_controls

MORE = "; ..."


def headline(told: Gate) -> str:
    """The status and what it rests on, worst first, in at most 80 bytes.

    A node without a finding is worth no word where something was asked for.
    """
    well = [a for a in told.answers if a.name == NODE and a.status is Status.OK]
    answers = [a for a in told.answers if a not in well] or well
    first, *others = dict.fromkeys(without_controls(answer.text) for answer in answers)
    line = f"{told.status.value.upper()} {first}"
    for number, part in enumerate(others, 1):
        after = "" if number == len(others) else MORE
        if len(f"{line}; {part}{after}".encode()) > FIRST_LINE_BYTES:
            line += MORE
            break
        line += f"; {part}"
    return first_line(line)


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
    told: Gate, report: Report, plan: Plan | None, way: str | None, *, bars: bool
) -> list[str]:
    """A line each: what was asked for, findings with what to do, waivers that are over, the model.

    `way` is the strategy that was named. Without `bars` no line holds a bar, which would begin
    figures there: a command with one is left to `nodecheck explain`.
    """
    found = faults(report.findings)
    lines = [
        *(f"{a.name}: {a.status.value}: {a.text}" for a in told.answers if a.name != NODE),
        *(_finding(finding, bars=bars) for finding in found),
        *expired_waivers(found),
        *(_model(plan, way) if plan else ()),
        f"node: {report.verdict.headline}",
    ]
    return [printable(line if bars else line.replace("|", "/")) for line in lines]


def _finding(finding: Finding, *, bars: bool) -> str:
    remedy = next(iter(finding.remedy.commands), finding.remedy.text)
    if "|" in remedy and not bars:
        remedy = f"nodecheck explain {finding.id}"
    return f"{finding.severity.value}: {finding.id}, {finding.subject}: {remedy}"


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
