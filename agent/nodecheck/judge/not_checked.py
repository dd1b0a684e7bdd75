"""What a report does not know, in the words of an operator. The full list is `gaps`."""

from __future__ import annotations

from nodecheck.judge.engine.answer import hidden
from nodecheck.judge.node import best_read
from nodecheck.model import UNANSWERED, Gap, Reason
from nodecheck.report import Report
from nodecheck.units import count, gb_per_second

NOTABLE = {
    ("cpu", "flags"): "instruction set",
    ("memory", "total_bytes"): "RAM size",
    ("memory", "dimms"): "DIMM population",
    ("memory", "controllers"): "memory errors",
    ("limits", "cpu_quota"): "CPU quota",
    ("limits", "memory_limit_bytes"): "memory limit",
    ("disk", "filesystems"): "disk space",
    ("disk", "btrfs"): "btrfs allocation",
    ("disk", "thin_pools"): "LVM thin pools",
    ("pcie", "paths"): "PCIe links",
    ("pcie", "*"): "PCIe links",
    ("gpu", "gpus"): "GPUs",
    ("gpu", "ecc_volatile_uncorrectable"): "GPU ECC",
    ("gpu", "remap_pending"): "GPU row remaps",
    ("gpu", "temperature_celsius"): "GPU temperatures",
    ("gpu", "clocks_event_reasons"): "GPU clock event reasons",
    ("kernel_log", "source"): "kernel log",
}
"""Gaps that an operator should know of: (check, field) -> what is missing."""

HELPED = (("memory", "dimms"), ("gpu", "gpus"))
"""Gaps of a bare-metal node whose detail names what would fill them."""

REASONS = {
    Reason.ABSENT: "not there",
    Reason.UNSUPPORTED: "not supported",
    Reason.DENIED: "denied",
    Reason.TIMEOUT: "no answer",
    Reason.FAILED: "unreadable",
}


SUBJECTS = {
    "cpu": "CPU",
    "virt": "virtualisation",
    "memory": "RAM",
    "numa": "NUMA",
    "pcie": "PCIe",
    "gpu": "GPU",
    "cuda": "CUDA",
    "kernel_log": "kernel log",
    "python": "Python",
    "dram": "memory bandwidth",
}
"""How a check is called where its name is not a word of the field's."""


def not_checked(report: Report) -> tuple[str, ...]:
    """One line each: what hung or failed first, then what was skipped, then what was not there."""
    loud = [_loud(gap) for gap in report.gaps if _is_loud(gap)]
    skipped = [*_engine(report), *_bandwidth(report), *_cuda(report)]
    return tuple(dict.fromkeys([*loud, *skipped, *_quiet(report)]))


def _cuda(report: Report) -> list[str]:
    """Whether programs start on the cards, where there are any that could not be asked."""
    if not any(gpu.vendor == "nvidia" and gpu.granted is not False for gpu in report.facts.gpus):
        return []
    return [g.detail for g in report.gaps if (g.check, g.field) == ("cuda", "state")]


def _engine(report: Report) -> list[str]:
    """What a process that was asked for by its id did not show, which may be all."""
    facts = report.facts.engine
    if facts.state == "absent":
        return [f"engine: there is no process {facts.pid}"]
    known = hidden(gap for gap in report.gaps if not _is_loud(gap))
    return [f"engine, {REASONS[reason]}: {', '.join(names)}" for reason, names in known.items()]


def _bandwidth(report: Report) -> list[str]:
    if skipped := report.facts.dram.skipped:
        return [f"memory bandwidth: {skipped}"]
    best = best_read(report.measurements)
    if best is None or "contended" not in best.flags:
        return []
    seen = f"{gb_per_second(best.median_bytes_per_second)} on {count(best.threads, 'thread')}"
    return [f"memory bandwidth: {seen} or more, disturbed by other work here or on the host"]


def _is_loud(gap: Gap) -> bool:
    if gap.check == "python":  # it was asked for by name
        return True
    return gap.reason is Reason.TIMEOUT or (gap.field == "*" and gap.reason in UNANSWERED)


def _loud(gap: Gap) -> str:
    return f"{SUBJECTS.get(gap.check, gap.check)}: {gap.detail}"


def _is_notable(gap: Gap, report: Report) -> bool:
    if _is_loud(gap) or (gap.check, gap.field) not in NOTABLE:
        return False
    if gap.check == "disk" and gap.field == "filesystems":
        return not any(f.available_bytes is not None for f in report.facts.disk.filesystems)
    if gap.check == "pcie":
        return any(gpu.link_width is None for gpu in report.facts.gpus)
    return gap.check != "gpu" or bool(report.facts.gpus)


def _quiet(report: Report) -> list[str]:
    """What was denied, with what would help; then the rest, by reason."""
    gaps = [gap for gap in report.gaps if _is_notable(gap, report)]
    told = [gap for gap in gaps if _has_a_remedy(gap, report)]
    denied = [f"{_name(gap)}: {gap.detail}" for gap in told]
    by_reason: dict[str, list[str]] = {}
    for gap in gaps:
        if gap not in told:
            names = by_reason.setdefault(_reason(gap, report), [])
            names += [_name(gap)] if _name(gap) not in names else []
    return denied + [f"{reason}: {', '.join(names)}" for reason, names in by_reason.items()]


def _has_a_remedy(gap: Gap, report: Report) -> bool:
    """Whether the gap's detail says what would help here: a guest's modules are fiction."""
    if (gap.check, gap.field) in HELPED:
        return report.host.source == "live" and report.facts.virt.guest is False
    return gap.reason is Reason.DENIED


def _name(gap: Gap) -> str:
    return NOTABLE[gap.check, gap.field]


def _reason(gap: Gap, report: Report) -> str:
    if gap.reason is Reason.ABSENT and report.host.source == "captured":
        return "not in this capture"
    return REASONS[gap.reason]
