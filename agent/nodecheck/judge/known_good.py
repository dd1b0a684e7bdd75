"""What a node that is in order has, as a policy for others: what is in doubt is left out, with why.

Each requirement is drawn from the facts of some checks, so a warning or worse of those checks puts
it in doubt, unless it is known to say nothing about it. What is left the gate must find met.
"""

from __future__ import annotations

import importlib

import msgspec

from nodecheck.judge.gate.requirements import requirements
from nodecheck.judge.offers import OFFERS, Offer
from nodecheck.judge.verdict import unjudged
from nodecheck.model import Status, Struct, faults
from nodecheck.policy import Policy, Requirements
from nodecheck.report import Report

SUBJECTS = ("cpu", "memory", "disk", "gpu")
"""What serving depends on and can be told to be judged; the other checks tell circumstances."""


GAPS_TOLD = 2


class Drawn(Struct, frozen=True):
    """The checks that a requirement is drawn from, and their findings that do not touch it."""

    checks: tuple[str, ...]
    unrelated: tuple[str, ...] = ()


_ALL_GPUS_ANSWER = (
    "gpu.ecc_uncorrectable", "gpu.hw_power_brake_slowdown", "gpu.hw_thermal_slowdown",
    "gpu.sw_thermal_slowdown", "gpu.power_limit_lowered", "gpu.pstate_stuck",
    "gpu.clocks_low_under_load", "gpu.memory_in_use", "gpu.remap_pending", "gpu.remap_failure",
    "gpu.vram_slow", "gpu.nvlink_down", "gpu.arch_unsupported",
)  # fmt: skip
"""Findings of cards that are there and answer."""

DRAWN = {
    "instruction_sets": Drawn(
        ("cpu",),
        ("cpu.few_cores", "cpu.clocksource_slow", "cpu.offline_cpus", "cpu.isolated", "cpu.steal",
         "cpu.freq_low_under_load", "cpu.governor"),
    ),
    "dram_read_bytes_per_second": Drawn(
        ("dram", "cpu", "limits", "memory", "numa"),
        ("cpu.hypervisor_masked", "cpu.no_avx", "cpu.no_avx2", "cpu.flags_disagree",
         "cpu.few_cores", "cpu.clocksource_slow", "mem.cgroup_limit", "mem.insufficient",
         "mem.hugepages_reserved", "numa.gpu_remote"),
    ),
    "disk_free_bytes": Drawn(("disk",), ("disk.inodes", "disk.tmp_full", "disk.shm_small")),
    "gpus": Drawn(("gpu", "cuda", "pcie"), (*_ALL_GPUS_ANSWER, "pcie.width_below_max",
                                            "pcie.speed_below_max", "pcie.link_slow")),
    "pcie": Drawn(("pcie", "gpu", "cuda"), _ALL_GPUS_ANSWER),
}  # fmt: skip
"""Requirement -> what can put it in doubt. SSE2 reads memory as fast as AVX2 does."""


class LeftOut(Struct, frozen=True):
    """What the policy does not ask for, and the findings or gaps that are the reason."""

    name: str
    why: tuple[str, ...]


class KnownGood(Struct, frozen=True, kw_only=True):
    """What to ask for; `seen` tells for each requirement what it was drawn from."""

    required: tuple[str, ...]
    requirements: Requirements
    seen: dict[str, str]
    left_out: tuple[LeftOut, ...]


def known_good(report: Report) -> KnownGood:
    """What the node of this report has for certain. It is judged by a policy without waivers."""
    asked: dict[str, object] = {}
    seen: dict[str, str] = {}
    unjudged = _unjudged(report)
    left_out = [LeftOut(f"required {name}", _gaps(report, name)) for name in unjudged]
    for name, offer in OFFERS.items():
        offered = offer(report)
        if why := _doubts(report, name) or _not_sure(report, name, offered):
            left_out.append(LeftOut(name, why))
        else:
            asked[name], seen[name] = offered.value, offered.text
    return KnownGood(
        required=tuple(name for name in SUBJECTS if name not in unjudged),
        requirements=msgspec.convert(asked, Requirements),
        seen=seen,
        left_out=tuple(left_out),
    )


def _unjudged(report: Report) -> tuple[str, ...]:
    """The subjects that cannot be required."""
    held = [name for name in SUBJECTS if name in report.host.holds]
    missing = unjudged(report, Policy(required=tuple(held)))
    return tuple(name for name in SUBJECTS if name in missing or name not in held)


def _gaps(report: Report, check: str) -> tuple[str, ...]:
    details = tuple(gap.detail for gap in report.gaps if gap.check == check)
    return details[:GAPS_TOLD] or ("none was seen",)


def _doubts(report: Report, name: str) -> tuple[str, ...]:
    drawn = DRAWN[name]
    ids = {
        rule.id
        for check in drawn.checks
        for rule in importlib.import_module(f"nodecheck.checks.{check}.rules").RULES
    }
    return tuple(
        f"{finding.id} ({finding.severity.value}): {finding.summary}"
        for finding in faults(report.findings)
        if finding.id in ids - set(drawn.unrelated)
    )


def _not_sure(report: Report, name: str, offered: Offer) -> tuple[str, ...]:
    """Why it cannot be asked for although nothing is wrong."""
    if offered.value is None:
        return (offered.text,)
    policy = Policy(requirements=msgspec.convert({name: offered.value}, Requirements))
    return tuple(a.text for a in requirements(report, policy) if a.status is not Status.OK)
