"""The answer: status, one sentence, what is fine, what is not known."""

from __future__ import annotations

from collections import Counter

from nodecheck.judge.figures import between, figure
from nodecheck.judge.not_checked import not_checked
from nodecheck.judge.ruled_out import ruled_out
from nodecheck.model import (
    UNANSWERED,
    Finding,
    Severity,
    Status,
    Strategy,
    Verdict,
    Viability,
    faults,
)
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.units import count

CPU_SUBJECTS = ("cpu", "mem", "limits", "numa")
"""Findings of these subjects touch what runs on the CPU, not what runs on a GPU alone."""

ON_CPU = ("cpu-only", "partial-offload")


def verdict(report: Report, policy: Policy, silent: tuple[str, ...] = ()) -> Verdict:
    """The verdict on a report whose findings and strategies are there, worst finding first.

    `silent` subjects count as required ones that could not be judged.
    """
    missing = tuple(dict.fromkeys((*unjudged(report, policy), *silent)))
    status = status_of(report.findings, missing)
    return Verdict(
        status=status,
        headline=_headline(report, status, missing),
        ruled_out=ruled_out(report),
        not_checked=not_checked(report),
    )


def unjudged(report: Report, policy: Policy) -> tuple[str, ...]:
    """Required subjects that could not be judged. A captured tree is held to what it holds."""
    return tuple(
        subject
        for subject in _required(report, policy)
        if subject in report.host.holds and not _judged(report, subject)
    )


def without(report: Report, missing: tuple[str, ...]) -> tuple[str, ...]:
    """What is said of required subjects that are unjudged, each as part of a sentence."""
    absent = "gpu" in missing and has_no_gpu(report)
    unseen = [subject for subject in missing if not (absent and subject == "gpu")]
    said = [f"not judged: {', '.join(unseen)}"] if unseen else []
    return (*said, "a GPU is required and there is none") if absent else tuple(said)


def _required(report: Report, policy: Policy) -> tuple[str, ...]:
    """On a live node with a card that may be ours, or a driver that hangs, the GPU is required too.

    So is that of a capture whose driver's words could not be read.
    """
    if report.host.source != "live":
        return (*policy.required, "gpu") if _unreadable(report, "gpu") else policy.required
    hangs = report.facts.gpu.state == "unresponsive"
    unseen = _unreadable(report, "gpu") and bool(report.facts.pcie.paths)
    ours = hangs or unseen or any(gpu.granted for gpu in report.facts.gpus)
    return (*policy.required, "gpu") if ours else policy.required


def _unreadable(report: Report, subject: str) -> bool:
    """Whether nothing of a subject could be read: it failed, or did not answer."""
    whole = ("*", "gpus") if subject == "gpu" and not report.facts.gpus else ("*",)
    return any(
        gap.check == subject and gap.field in whole and gap.reason in UNANSWERED
        for gap in report.gaps
    )


def _judged(report: Report, subject: str) -> bool:
    facts = report.facts
    whole = any(gap.check == subject and gap.field == "*" for gap in report.gaps)
    if whole or _unreadable(report, subject):
        return False
    if subject == "cpu":
        return facts.cpu.arch in ("x86_64", "aarch64") and facts.cpu.flags is not None
    if subject == "memory":
        return facts.memory.total_bytes is not None
    if subject == "disk":
        return any(f.available_bytes is not None for f in facts.disk.filesystems if f.persistent)
    if subject == "gpu":
        told = facts.gpu.state is not None or any(g.memory_bytes for g in facts.gpus)
        return told and facts.gpu.state != "unresponsive"
    return subject != "engine" or facts.engine.state in ("watched", "ended")


def status_of(findings: tuple[Finding, ...], missing: tuple[str, ...]) -> Status:
    """The worst of the findings; unknown where nothing is wrong and something was not judged."""
    worst = max((f.severity for f in findings), key=lambda s: s.rank, default=Severity.INFO)
    if worst is not Severity.INFO:
        return Status(worst.value)
    return Status.UNKNOWN if missing else Status.OK


def _headline(report: Report, status: Status, missing: tuple[str, ...]) -> str:
    if status is Status.UNKNOWN:
        lacks = (f"{text[:1].upper()}{text[1:]}." for text in without(report, missing))
        return " ".join([*lacks, "Nothing worse was found in what could be read."])
    if status is Status.OK:
        return _healthy(report)
    first = report.findings[0]
    said = (first.headline or first.summary).rstrip(".")
    said = f"{said[:1].upper()}{said[1:]}."
    return " ".join([said, *_consequence(report, first), *_more(report)])


def _more(report: Report) -> list[str]:
    """How many findings the headline leaves out."""
    rest = Counter(finding.severity for finding in report.findings[1:])
    kinds = ((Severity.CRITICAL, "critical finding"), (Severity.WARNING, "warning"))
    numbers = [count(rest[severity], noun) for severity, noun in kinds if rest[severity]]
    return [f"Beside it: {', '.join(numbers)}."] if numbers else []


def _healthy(report: Report) -> str:
    held = report.host.holds
    if report.host.source == "captured" and not {"cpu", "memory", "disk"} <= set(held):
        read = ", ".join(each for each in held if not _unreadable(report, each)) or "very little"
        return f"Nothing wrong in what this capture holds: {read}."
    waived = sum(finding.waived is not None for finding in report.findings)
    lived_with = [f"The policy lives with {count(waived, 'finding')}."] if waived else []
    found = "Nothing else" if waived else "Nothing"
    said = f"{found} was found that holds this node back."
    return " ".join([said, *lived_with, *_ability(report)])


def _ability(report: Report) -> list[str]:
    """What a healthy node can do, in a sentence: it may still be the wrong node for a model."""
    by_name = {s.strategy: s for s in report.strategies}
    name = report.workload.name.removesuffix(" model") if report.workload else ""
    model = f"a {name} model" if name else "a model"
    if (gpu := by_name.get("gpu-resident")) and gpu.high is not None:
        return [f"Its GPUs decode {model} at {rate(gpu)}."]
    if has_no_gpu(report) and (cpu := by_name.get("cpu-only")) and cpu.high is not None:
        return [f"It has no GPU: its CPU decodes {model} at {rate(cpu)}."]
    return []


def has_no_gpu(report: Report) -> bool:
    """Whether it is certain that there is none: all that shows one was looked at."""
    unseen = any(gap.check == "gpu" and gap.field in ("*", "gpus") for gap in report.gaps)
    return not report.facts.gpus and report.host.source == "live" and not unseen


def _consequence(report: Report, first: Finding) -> list[str]:
    """What a fault of the CPU or its memory means for serving, and what it leaves alone."""
    if first.id.split(".")[0] not in CPU_SUBJECTS:
        return []
    by_name = {s.strategy: s for s in report.strategies}
    said = []
    if (cpu := by_name.get("cpu-only")) and cpu.high is not None:
        model = f" ({report.workload.name})" if report.workload else ""
        said.append(f"Weights on the CPU decode at {rate(cpu)}{model}.")
    sick = any(f.id.startswith("gpu.") for f in faults(report.findings))
    if _gpu_alone(by_name.get("gpu-resident")) and not sick:
        said.append("Serving from the GPUs alone is not affected.")
    return said


def _gpu_alone(strategy: Strategy | None) -> bool:
    return strategy is not None and strategy.viability in (Viability.VIABLE, Viability.MARGINAL)


def span(strategy: Strategy) -> str:
    """Write "0.2-0.5", or "<= 0.5" where only the ceiling is known."""
    if strategy.high is None:
        return "-"
    if strategy.low is None:
        return f"<= {figure(strategy.high)}"
    return between(strategy.low, strategy.high)


def rate(strategy: Strategy) -> str:
    """Write the span in a sentence, with its unit: "0.5 tok/s or less"."""
    if strategy.low is None and strategy.high is not None:
        return f"{figure(strategy.high)} {strategy.unit} or less"
    return f"{span(strategy)} {strategy.unit}"
