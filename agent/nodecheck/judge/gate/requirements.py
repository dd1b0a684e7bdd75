"""What a policy requires of a node, each thing judged apart. What is not known meets nothing."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cpu import isa
from nodecheck.judge.gate.answers import Answer, sign, why_unknown
from nodecheck.judge.gate.dram import dram_read
from nodecheck.judge.gate.gpus import gpus
from nodecheck.judge.gate.links import pcie
from nodecheck.model import Status
from nodecheck.policy import Policy
from nodecheck.report import Report
from nodecheck.units import GB, count, gb, gib

INSTRUCTION_SETS = "instruction_sets"

SETS_TOLD = 4
"""Of more instruction sets that are there the number is told: a line has room for other things."""


def requirements(report: Report, policy: Policy) -> Iterator[Answer]:
    """An answer to each requirement of the policy; two to that of a PCIe link."""
    asked = policy.requirements
    if asked.instruction_sets:
        yield _instruction_sets(report, asked.instruction_sets)
    if asked.dram_read_bytes_per_second is not None:
        yield dram_read(report, asked.dram_read_bytes_per_second)
    if asked.disk_free_bytes is not None:
        yield _disk_free(report, asked.disk_free_bytes)
    if asked.gpus is not None:
        yield gpus(report, asked.gpus)
    if asked.pcie is not None:
        yield from pcie(report, policy, asked.pcie)


def _instruction_sets(report: Report, names: tuple[str, ...]) -> Answer:
    cpu = report.facts.cpu
    flags = cpu.flags if cpu.usable_flags is None else cpu.usable_flags
    if flags is None:
        status, text = Status.UNKNOWN, f"instruction sets: {why_unknown(report, 'cpu', 'flags')}"
    elif lacking := isa.lacking(names, flags, cpu.arch):
        status, text = Status.CRITICAL, f"no {', '.join(lacking)}"
    else:
        met = [name for name in names if name in flags]
        told = ", ".join(met) if len(met) <= SETS_TOLD else count(len(met), "instruction set")
        status, text = Status.OK, told
    return Answer(name=INSTRUCTION_SETS, status=status, text=text)


def _disk_free(report: Report, least: int) -> Answer:
    """The roomiest of the file systems that keep files and need no server."""
    own = [f for f in report.facts.disk.filesystems if f.persistent and not f.network]
    known = [(f.available_bytes, f.mount) for f in own if f.available_bytes is not None]
    silent = next((f.mount for f in own if f.available_bytes is None), None)
    most, mount = max(known, default=(None, ""))
    told_size = gb if least % (GB // 10) == 0 else gib  # as it was asked
    room = None if most is None else f"{told_size(most)} free on {mount}"
    relation = None if most is None else sign(most, least, told_size)
    if most is not None and most >= least:
        status, text = Status.OK, f"{room} {relation} {told_size(least)}"
    elif silent is not None:
        told = f", else {room}" if room else ""
        status, text = Status.UNKNOWN, f"disk: {silent} does not tell its room{told}"
    elif most is None:
        status, text = Status.UNKNOWN, f"disk: {why_unknown(report, 'disk', 'filesystems')}"
    else:
        status, text = Status.CRITICAL, f"{room} {relation} {told_size(least)}"
    value = None if status is Status.UNKNOWN else most
    return Answer(
        name="disk_free", status=status, text=text, value=value, critical_below=least, unit="B"
    )
