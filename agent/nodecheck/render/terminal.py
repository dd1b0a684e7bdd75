"""The report at a terminal: the answer, its reasons, what the node can do, what is not known."""

from __future__ import annotations

from nodecheck.judge.figures import between, figure
from nodecheck.judge.verdict import rate, span
from nodecheck.model import Evidence, Finding, Severity, Status, Strategy, Viability
from nodecheck.render.layout import Column, Line, Span, command, hanging, joined, table
from nodecheck.report import Report
from nodecheck.units import GIB, count, gib

STATUS_STYLES = {
    Status.OK: "bold green",
    Status.WARNING: "bold yellow",
    Status.CRITICAL: "bold red",
    Status.UNKNOWN: "bold magenta",
}
MARKS = {Severity.CRITICAL: ("x", "bold red"), Severity.WARNING: ("!", "bold yellow")}
VERDICTS = {
    Viability.VIABLE: "viable",
    Viability.MARGINAL: "marginal",
    Viability.NOT_VIABLE: "not viable",
    Viability.UNKNOWN: "unknown",
}
VERDICT_STYLES = {
    "viable": "green",
    "marginal": "yellow",
    "not viable": "red",
    "unknown": "magenta",
}

EVIDENCE_SHOWN = 3
INDENT, PART_INDENT = 11, 14
WIDTH_MIN, WIDTH_WIDE, WIDTH_MAX = 60, 100, 140


def render(report: Report, width: int) -> list[Line]:
    """The report's lines, none longer than `width` save commands."""
    width = max(WIDTH_MIN, min(width, WIDTH_MAX))
    status = report.verdict.status
    lines = [*title(report, width), ()]
    label = Span(status.value.upper(), STATUS_STYLES[status])
    lines += hanging(label, Span(report.verdict.headline, "bold"), INDENT, width)
    if status is Status.OK:
        return lines + _short(report, width)
    return lines + _reasons(report, width) + _strategies(report, width) + _rest(report, width)


def title(report: Report, width: int) -> list[Line]:
    """The program, the node and the time that it took."""
    first, *parts = title_parts(report)
    return joined(first, tuple(parts), len(first) + 3, width)


def title_parts(report: Report) -> list[str]:
    """The program and its version, what is known of the node, the seconds."""
    took = f"{report.elapsed_seconds:.1f} s" if report.elapsed_seconds is not None else None
    parts = (f"nodecheck {report.nodecheck_version}", *_node(report), took)
    return [part for part in parts if part]


def _node(report: Report) -> list[str]:
    """Name, guest, CPUs, RAM, GPUs: what was read, no more."""
    cpu, memory = report.facts.cpu, report.facts.memory
    name = report.host.name if report.host.name not in (None, "(none)", "localhost") else None
    cpus = (
        f"{cpu.logical_cpus} {'vCPU' if report.facts.virt.guest else 'CPUs'}"
        if cpu.logical_cpus
        else None
    )
    ram = f"{gib(memory.total_bytes)} RAM" if memory.total_bytes else None
    return [part for part in (name, _guest(report), cpus, ram, *_gpus(report)) if part]


HYPERVISORS = {
    "kvm": "KVM",
    "qemu": "QEMU",
    "amazon": "Amazon EC2",
    "google": "Google Cloud",
    "microsoft": "Hyper-V",
    "oracle": "VirtualBox",
    "vmware": "VMware",
    "xen": "Xen",
    "vm-other": "",
}


def _guest(report: Report) -> str | None:
    virt = report.facts.virt
    if not virt.guest:
        return "bare metal" if virt.guest is False and report.host.source == "live" else None
    kind = HYPERVISORS.get(virt.hypervisor or "", virt.hypervisor or "")
    machine = f" ({virt.machine_type})" if virt.machine_type else ""
    return f"{kind} guest{machine}".strip()


def _gpus(report: Report) -> list[str]:
    kinds: dict[str, int] = {}
    for gpu in report.facts.gpus:
        size = f" {round(gpu.memory_bytes / GIB):.0f} GiB" if gpu.memory_bytes else ""
        label = (gpu.name or gpu.vendor or "GPU") + size
        kinds[label] = kinds.get(label, 0) + 1
    return [f"{number}x {label}" for label, number in kinds.items()]


def _reasons(report: Report, width: int) -> list[Line]:
    faults = [f for f in report.findings if f.severity is not Severity.INFO]
    if not faults:
        return _noted(report, width)
    lines: list[Line] = [(), (Span("WHY", "bold"),)]
    for finding in faults:
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
    return [(), *hanging(Span("NOTED", "bold"), Span(notes), PART_INDENT, width)] if notes else []


def note(finding: Finding) -> str:
    """What is told of a finding that asks for nothing."""
    waived = f" [waived: {finding.waived}]" if finding.waived else ""
    return finding.summary.rstrip(".") + waived


def _workload(report: Report) -> str:
    work = report.workload
    if work is None:
        return ""
    model = f"{work.name}, {gib(work.weight_bytes_shipped)}, {count(work.layers, 'layer')}"
    return model if work.named_by_user else f"{model} (yours: --weights, --layers)"


def _strategies(report: Report, width: int) -> list[Line]:
    if not report.strategies:
        return []
    title = joined("WHAT THIS NODE CAN DO", (_workload(report),), 24, width)
    rows = [_row(strategy) for strategy in report.strategies]
    return [(), *title, *(_wide(rows, width) if width >= WIDTH_WIDE else _narrow(rows, width))]


COLUMNS = (
    Column("strategy", 15),
    Column("tok/s, estimated", 16),
    Column("limited by", 25),
    Column("verdict", 10),
)


def _wide(rows: list[tuple[str, ...]], width: int) -> list[Line]:
    basis = Column("basis", width - sum(c.width + 2 for c in COLUMNS) - 2)
    return table((*COLUMNS, basis), rows, VERDICT_STYLES)


def _narrow(rows: list[tuple[str, ...]], width: int) -> list[Line]:
    """Without room for a fifth column the basis stands below its row."""
    lines = table(COLUMNS, [], VERDICT_STYLES)
    for row in rows:
        lines += table(COLUMNS, [row[:4]], VERDICT_STYLES)[1:]
        lines += hanging(Span(""), Span(row[4], "dim"), COLUMNS[0].width + 3, width)
    return lines


def _row(strategy: Strategy) -> tuple[str, ...]:
    reach = _reach(strategy)
    if strategy.points:
        reach = "  ".join(f"{p.setting}: {_point(p.low, p.high)}" for p in strategy.points)
    return (strategy.strategy, reach, strategy.limit, VERDICTS[strategy.viability], strategy.basis)


def _point(low: float | None, high: float) -> str:
    return f"<= {figure(high)}" if low is None else between(low, high)


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
    faults = [f for f in report.findings if f.severity is not Severity.INFO]
    if faults:
        first = Span(f"nodecheck explain {faults[0].id}   ", "bold")
        after = Span("the whole story, and what to check after the change")
        lines += [(), *hanging(first, after, len(first.text), width)]
    return lines


def _short(report: Report, width: int) -> list[Line]:
    """A healthy node in ten lines."""
    reach = tuple(filter(None, map(_ability, report.strategies)))
    lines: list[Line] = [()]
    if reach:
        lines += joined("CAN DO", (f"{_workload(report)}:", *reach), PART_INDENT, width)
    lines += _noted(report, width)[1:]
    return lines + _rest(report, width)[1:]


def _ability(strategy: Strategy) -> str | None:
    verdict = VERDICTS[strategy.viability]
    if strategy.high is not None:
        return f"{strategy.strategy} {rate(strategy)} ({verdict})"
    if strategy.viability is Viability.NOT_VIABLE:
        return f"{strategy.strategy} {verdict} ({strategy.limit}: {strategy.basis})"
    return None
