"""What a report does not know, in the words of an operator. The full list is `gaps`."""

from __future__ import annotations

from nodecheck.model import Gap, Reason
from nodecheck.report import Report

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

REASONS = {
    Reason.ABSENT: "not there",
    Reason.UNSUPPORTED: "not supported",
    Reason.DENIED: "denied",
    Reason.TIMEOUT: "no answer",
    Reason.FAILED: "unreadable",
}


LOUD = (Reason.TIMEOUT, Reason.FAILED)
"""Reasons that are trouble by themselves: they are told with their detail."""


def not_checked(report: Report) -> tuple[str, ...]:
    """One line each: what hung or failed first, then what was skipped, then what was not there."""
    loud = [_loud(g) for g in report.gaps if _is_loud(g)]
    skipped = report.facts.dram.skipped
    lines = [*loud, *([f"memory bandwidth: {skipped}"] if skipped else []), *_quiet(report)]
    return tuple(dict.fromkeys(lines))


def _is_loud(gap: Gap) -> bool:
    return gap.reason is Reason.TIMEOUT or (gap.field == "*" and gap.reason in LOUD)


def _loud(gap: Gap) -> str:
    return f"{gap.check}: {gap.detail}"


def _is_notable(gap: Gap, report: Report) -> bool:
    if _is_loud(gap) or (gap.check, gap.field) not in NOTABLE:
        return False
    return gap.check not in ("gpu", "pcie") or bool(report.facts.gpus)


def _quiet(report: Report) -> list[str]:
    """What was denied, with what would help; then the rest, by reason."""
    gaps = [gap for gap in report.gaps if _is_notable(gap, report)]
    denied = [f"{_name(g)}: {g.detail}" for g in gaps if g.reason is Reason.DENIED]
    by_reason: dict[str, list[str]] = {}
    for gap in gaps:
        if gap.reason is not Reason.DENIED:
            names = by_reason.setdefault(_reason(gap, report), [])
            names += [_name(gap)] if _name(gap) not in names else []
    return denied + [f"{reason}: {', '.join(names)}" for reason, names in by_reason.items()]


def _name(gap: Gap) -> str:
    return NOTABLE[gap.check, gap.field]


def _reason(gap: Gap, report: Report) -> str:
    if gap.reason is Reason.ABSENT and report.host.source == "captured":
        return "not in this capture"
    return REASONS[gap.reason]
