"""What a report does not know, in the words of an operator. The full list is `gaps`."""

from __future__ import annotations

from nodecheck.model import Gap, Reason
from nodecheck.report import Report

NOTABLE = {
    ("cpu", "flags"): "instruction set",
    ("cpu", "cpuid_flags"): "CPUID",
    ("cpu", "witness"): "hidden instructions",
    ("memory", "total_bytes"): "RAM size",
    ("memory", "dimms"): "DIMM population",
    ("memory", "controllers"): "memory errors",
    ("limits", "cpu_quota"): "CPU quota",
    ("limits", "memory_limit_bytes"): "memory limit",
    ("disk", "filesystems"): "disk space",
    ("disk", "btrfs"): "btrfs allocation",
    ("disk", "thin_pools"): "LVM thin pools",
    ("pcie", "paths"): "PCIe links",
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


def not_checked(report: Report) -> tuple[str, ...]:
    """One line each: what hung or failed first, then what was skipped, then what was not there."""
    loud = [_loud(g) for g in report.gaps if g.field == "*" or g.reason is Reason.TIMEOUT]
    skipped = report.facts.dram.skipped
    quiet = [_quiet(g, report) for g in report.gaps if _is_notable(g, report)]
    lines = [*loud, *([f"memory bandwidth ({skipped})"] if skipped else []), *quiet]
    return tuple(dict.fromkeys(lines))


def _loud(gap: Gap) -> str:
    return (
        f"{gap.check}: {gap.detail}"
        if gap.field == "*"
        else f"{gap.check}.{gap.field}: {gap.detail}"
    )


def _is_notable(gap: Gap, report: Report) -> bool:
    if gap.reason is Reason.TIMEOUT or (gap.check, gap.field) not in NOTABLE:
        return False
    return gap.check not in ("gpu", "pcie") or bool(report.facts.gpus)


def _quiet(gap: Gap, report: Report) -> str:
    where = "not in this capture" if report.host.source == "captured" else REASONS[gap.reason]
    if gap.reason is not Reason.ABSENT:
        where = REASONS[gap.reason]
    return f"{NOTABLE[gap.check, gap.field]} ({where})"
