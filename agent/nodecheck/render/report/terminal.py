"""The report at a terminal: the answer, its reasons, what the node can do, what is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodecheck.judge.engine.answer import Doing, answer, is_watched
from nodecheck.judge.engine.answer import name as engine_name
from nodecheck.judge.figures import between, figure
from nodecheck.judge.node_words import node_words
from nodecheck.judge.verdict import rate, span
from nodecheck.model import (
    Evidence,
    Finding,
    Lever,
    Point,
    Severity,
    Status,
    Strategy,
    Viability,
    faults,
)
from nodecheck.plan import Plan
from nodecheck.render.layout import Column, Line, Span, command, hanging, joined, table
from nodecheck.render.metrics import moment_of
from nodecheck.render.styles import MARKS, STATUS_STYLES, VERDICT_STYLES, VERDICTS, fitting
from nodecheck.report import Report
from nodecheck.units import GB, count, gib

EVIDENCE_SHOWN = 3
POINTS_SHOWN = 3
LIMIT_MOST = 40
PART_TOLD_ONCE = 20
"""Characters from which a part of a basis is told once in a table."""

INDENT, PART_INDENT = 11, 14
WIDTH_BASIS = 112
"""From here on the basis of a strategy stands beside it, not below."""


def render(report: Report, width: int, *, saved: bool = False) -> list[Line]:
    """The report's lines, none longer than `width` save commands. `saved`: it was made earlier."""
    width = fitting(width)
    status = report.verdict.status
    lines = [*title(report, width, saved=saved), ()]
    label = Span(status.value.upper(), STATUS_STYLES[status])
    lines += hanging(label, Span(report.verdict.headline, "bold"), INDENT, width)
    if status is Status.OK:
        return lines + _short(report, width)
    return lines + _reasons(report, width) + _strategies(report, width) + _rest(report, width)


def title(report: Report, width: int, *, saved: bool = False) -> list[Line]:
    """The program, the node, and how the report was made."""
    first, *parts = title_parts(report, saved=saved)
    return joined(first, tuple(parts), len(first) + 3, width)


def title_parts(report: Report, *, saved: bool = False) -> list[str]:
    """The program and its version, what is known of the node, how the report was made."""
    measured = report.measured_time
    return [
        f"nodecheck {report.nodecheck_version}",
        *node_words(report),
        *origin(report, saved=saved),
        *([f"measured {moment_of(measured)}"] if measured else []),
    ]


def origin(made: Report | Plan, *, saved: bool = False) -> list[str]:
    """That it is of a captured tree; when it was made, if that is not now, else the seconds."""
    told = ["captured"] if made.host.source == "captured" else []
    if saved:
        return [*told, f"saved, {moment_of(made.time)}"]
    return told if made.elapsed_seconds is None else [*told, f"{made.elapsed_seconds:.1f} s"]


def _reasons(report: Report, width: int) -> list[Line]:
    found = faults(report.findings)
    if not found:
        return _noted(report, width)
    lines: list[Line] = [(), (Span("WHY", "bold"),)]
    for finding in found:
        lines += fault(finding, width)
    return lines + _noted(report, width)


def fault(finding: Finding, width: int) -> list[Line]:
    """A warning or worse, with its proof, its cost and its remedy."""
    mark, style = MARKS[finding.severity]
    label = Span(f" {mark} {finding.id}   ", style)
    lines = hanging(label, Span(finding.summary), len(label.text), width)
    shown = finding.evidence[:EVIDENCE_SHOWN]
    for number, evidence in enumerate(shown):
        lines += _part("" if number else "proof", _evidence(evidence), width)
    if len(finding.evidence) > len(shown):
        lines += _part("", f"{len(finding.evidence) - len(shown)} more in --json", width)
    lines += _part("costs", finding.impact, width)
    lines += _part("fix", finding.remedy.text, width)
    lines += [command(text, PART_INDENT) for text in finding.remedy.commands]
    if finding.remedy.cost:
        lines += _part("price", finding.remedy.cost, width)
    return lines


def _part(label: str, text: str, width: int) -> list[Line]:
    return hanging(Span(f"     {label}"), Span(text), PART_INDENT, width)


def _evidence(evidence: Evidence) -> str:
    expected = f"; expected {evidence.expected}" if evidence.expected else ""
    return f"{evidence.value} ({evidence.source}{expected})"


def _noted(report: Report, width: int) -> list[Line]:
    notes = "; ".join(note(f) for f in report.findings if f.severity is Severity.INFO)
    told = (("NOTED", notes), ("ENGINE", engine_words(report)))
    rows = [(Span(name, "bold"), Span(text)) for name, text in told if text]
    return [line for row in rows for line in ((), *hanging(*row, PART_INDENT, width))]


def engine_words(report: Report) -> str:
    """What a watched engine does, in words; nothing where none was."""
    facts = report.facts.engine
    if not is_watched(facts):
        return ""
    seconds = "" if facts.seconds is None else f", watched for {facts.seconds:.1f} s"
    told = answer(report)
    sentence = "Why it is slow stands above." if told.doing is Doing.SLOW else told.sentence
    return f"{engine_name(facts)}{seconds}. {sentence}"


def note(finding: Finding) -> str:
    """What is told of a finding that asks for nothing, and the id that `explain` takes."""
    waived = f", waived: {finding.waived}" if finding.waived else ""
    return f"{finding.summary.rstrip('.')} [{finding.id}{waived}]"


def workload_words(report: Report, yours: str = "--model FILE") -> str:
    """The model that strategies are judged for; `yours` says how to ask for another."""
    work = report.workload
    if work is None:
        return ""
    if not work.named_by_user:
        whose = f"{work.name}, {gib(work.weight_bytes_shipped)}, {count(work.layers, 'layer')}"
        return f"{whose} (yours: {yours})"
    stored = f"{gib(work.weight_bytes_shipped)} {work.weight_type}"
    read = work.read_bytes_per_token_shipped
    parts = (
        work.name,
        stored if work.weight_type not in work.name else gib(work.weight_bytes_shipped),
        count(work.layers, "layer"),
        f"{read / GB:.2f} GB read a token" if read else "",
    )
    return ", ".join(filter(None, parts))


def _strategies(report: Report, width: int) -> list[Line]:
    if not report.strategies:
        return []
    title = joined("WHAT THIS NODE CAN DO", (workload_words(report),), 24, width)
    return [(), *title, *abilities(report.strategies, width)]


COLUMNS = (
    Column("strategy", 15),
    Column("tok/s, estimated", 18),
    Column("limited by", 25),
    Column("verdict", 10),
)


def abilities(
    strategies: Iterable[Strategy],
    width: int,
    below: Callable[[Strategy], list[Line]] = lambda _: [],
    in_full: Callable[[Strategy], bool] = lambda _: True,
) -> list[Line]:
    """The strategies as a table; `below` makes what stands under a row.

    Those that are not told `in_full` have no basis. Without room for a fifth column
    the basis stands under its row.
    """
    wide = width >= WIDTH_BASIS
    basis = Column("basis", width - sum(c.width + 2 for c in COLUMNS) - 2)
    columns = (*COLUMNS, basis) if wide else _narrow(width)
    lines = table(columns, [], VERDICT_STYLES)
    told: set[str] = set()
    for strategy in strategies:
        full = in_full(strategy)
        cells = (*_row(strategy), _news(strategy.basis, told) if full else "")
        lines += table(columns, [cells[: len(columns)]], VERDICT_STYLES)[1:]
        if full and not wide:
            lines += under(cells[-1], width)
        lines += below(strategy)
    return lines


def _narrow(width: int) -> tuple[Column, ...]:
    """The limit takes what the others leave."""
    name, reach, limit, verdict = COLUMNS
    left = width - sum(c.width + 2 for c in (name, reach, verdict)) - 2
    return name, reach, Column(limit.heading, min(LIMIT_MOST, left)), verdict


def under(text: str, width: int) -> list[Line]:
    """Text below a row of the table of strategies."""
    return hanging(Span(""), Span(text, "dim"), COLUMNS[0].width + 3, width)


def _row(strategy: Strategy) -> tuple[str, ...]:
    reach = "\n".join(told_points(strategy)) or _reach(strategy)
    return strategy.strategy, reach, strategy.limit, VERDICTS[strategy.viability]


def told_points(strategy: Strategy) -> list[str]:
    """The settings that stand for its curve, each with its range."""
    return [f"{p.setting}: {reached(p)}" for p in strategy.points[:POINTS_SHOWN]]


def _news(basis: str, told: set[str]) -> str:
    """What a basis says that no row above has said; short parts are repeated beside what is new."""
    parts = basis.split("; ")
    new = [part for part in parts if part not in told]
    short = [part for part in parts if part in told and len(part) < PART_TOLD_ONCE]
    told.update(parts)
    if len(new) + len(short) == len(parts) and new:
        return basis
    kept = [part for part in parts if part in (*new, *short)]
    return "; ".join([*kept, "the rest as above"]) if new else "as above"


def reached(point: Point | Lever) -> str:
    """The range of a point, or of what a change would make of a strategy."""
    if point.high is None:
        return "-"
    return f"<= {figure(point.high)}" if point.low is None else between(point.low, point.high)


def _reach(strategy: Strategy) -> str:
    """The range with its unit, save the one that the column's heading names."""
    if strategy.high is None or strategy.unit == "tok/s":
        return span(strategy)
    return f"{span(strategy)} {strategy.unit}"


def _rest(report: Report, width: int) -> list[Line]:
    verdict = report.verdict
    lines: list[Line] = [()]
    if verdict.ruled_out:
        lines += joined("RULED OUT", verdict.ruled_out, PART_INDENT, width)
    if verdict.not_checked:
        lines += joined("NOT CHECKED", verdict.not_checked, PART_INDENT, width)
    if found := faults(report.findings):
        first = Span(f"nodecheck explain {found[0].id}   ", "bold")
        after = Span("the whole story, and what to check after the change")
        lines += [(), *hanging(first, after, len(first.text), width)]
    return lines


def _short(report: Report, width: int) -> list[Line]:
    """A healthy node in ten lines."""
    reach = tuple(filter(None, map(_ability, report.strategies)))
    lines: list[Line] = [()]
    if reach:
        lines += joined("CAN DO", (f"{workload_words(report)}:", *reach), PART_INDENT, width)
    lines += _noted(report, width)[1:]
    return lines + _rest(report, width)[1:]


def _ability(strategy: Strategy) -> str | None:
    verdict = VERDICTS[strategy.viability]
    if strategy.high is not None:
        return f"{strategy.strategy} {rate(strategy)} ({verdict})"
    if strategy.viability is Viability.NOT_VIABLE:
        return f"{strategy.strategy} {verdict} ({strategy.limit}: {strategy.basis})"
    return None
