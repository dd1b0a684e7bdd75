"""Labels for Node Feature Discovery: what a scheduler can choose a node by.

They change with the node, not with its load: no label rests on a figure that was measured, on what
is in use, or on a time. What is not known has no label, or says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from nodecheck.checks.pcie.link import Link, in_guest, links
from nodecheck.checks.seen import Facts, Seen
from nodecheck.judge.gate.gpus import gpus, usable
from nodecheck.judge.gate.links import allowed_generation
from nodecheck.judge.strategies import strategies
from nodecheck.judge.verdict import has_no_gpu
from nodecheck.model import Severity
from nodecheck.policy import Policy
from nodecheck.report import Report

NAMESPACE = "nodecheck.feature.node.kubernetes.io"
"""Source: Node Feature Discovery lets feature files set labels in any namespace but those of
Kubernetes, of which it allows feature.node.kubernetes.io and what lies below it: so nobody has to
own a domain, and its master needs no option."""

STARTS = "# nodecheck "
"""How a file of ours begins."""

WAYS = ("gpu-resident", "partial-offload", "cpu-only", "host-kv-pool")
"""Those that can be told without a measurement and apply to any model."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
"""A label's name, and its value. A report may hold anything, and a line is a label of its own.
Source: Kubernetes, labels and selectors."""

AVX2_LEVEL = 3
"""x86-64-v3 has AVX2, FMA, BMI and F16C. Source: the System V ABI for x86-64."""


def render(report: Report, policy: Policy, expires: str) -> str:
    """The text of a feature file; `expires` is RFC 3339, after it the labels count no more."""
    lines = (f"{NAMESPACE}/{name}={value}" for name, value in labels(report, policy).items())
    version = report.nodecheck_version if _is_label(report.nodecheck_version) else "?"
    about = f"{STARTS}{version}: local features of Node Feature Discovery"
    return "\n".join((about, f"# +expiry-time={expires}", *lines, ""))


def labels(report: Report, policy: Policy) -> dict[str, str]:
    """Name, without the namespace, -> value, of a judged report; what cannot be one is left out."""
    found = {"status": report.verdict.status.value}
    for finding in report.findings:
        if finding.severity is Severity.CRITICAL:
            found[f"critical.{finding.id}"] = "true"
    found.update(_cpu(report))
    found.update(_gpus(report, policy))
    found.update(_strategies(report, policy))
    return {name: value for name, value in found.items() if _is_label(name) and _is_label(value)}


def _is_label(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _cpu(report: Report) -> Iterator[tuple[str, str]]:
    """That nothing is hidden is certain only where nothing of AVX2's generation is missing."""
    level = report.facts.cpu.x86_64_level
    if level is not None:
        yield "x86-64-level", str(level)
    if any(finding.id == "cpu.hypervisor_masked" for finding in report.findings):
        yield "cpu-masked", "true"
    elif level is not None and level >= AVX2_LEVEL:
        yield "cpu-masked", "false"


def _gpus(report: Report, policy: Policy) -> Iterator[tuple[str, str]]:
    sure = gpus(report, 0).value or 0
    number = gpus(report, int(sure) + 1).value  # None where there may be more
    if number is None or not _sees_all(report):
        return
    yield "gpus", str(int(number))
    seen = Seen(facts=report.facts, policy=policy, live=report.host.source == "live")
    cards = usable(report)
    found = [link for link in links(seen) if link.gpu in cards]
    if not found or len({link.accelerator for link in found}) < len(cards):
        return
    if generation := _slowest(found, guest=in_guest(seen)):
        yield "pcie-generation", str(generation)
    if all(link.width for link in found):
        yield "pcie-width", str(min(link.width or 0 for link in found))


def _sees_all(report: Report) -> bool:
    """Whether the cards that this process may use are the node's: a container may lack some."""
    facts = report.facts
    if facts.virt.container is not None and not all(map(facts.grants, facts.gpus)):
        return False
    return bool(facts.gpus) or has_no_gpu(report)


def _slowest(found: list[Link], *, guest: bool) -> int | None:
    """The generation that all links can run at; None where an end is not known."""
    allowed = [allowed_generation(link, guest=guest) for link in found]
    return min((can or 0 for can, _ in allowed), default=0) if all(s for _, s in allowed) else None


def _strategies(report: Report, policy: Policy) -> Iterator[tuple[str, str]]:
    """As nothing else ran on the node: else a model's own label would go when it has started."""
    at_rest = Seen(
        facts=_at_rest(report.facts),
        policy=policy,
        workload=report.workload,
        live=report.host.source == "live",
    )
    for way in strategies(at_rest):
        if way.strategy in WAYS:
            yield f"strategy.{way.strategy}", way.viability.value.replace("_", "-")


def _at_rest(facts: Facts) -> Facts:
    cards = (replace(gpu, memory_used_bytes=0, processes=()) for gpu in facts.gpus)
    memory = replace(facts.memory, available_bytes=facts.memory.total_bytes)
    limits = replace(facts.limits, memory_headroom_bytes=facts.limits.memory_limit_bytes)
    return replace(facts, gpus=tuple(cards), memory=memory, limits=limits)
