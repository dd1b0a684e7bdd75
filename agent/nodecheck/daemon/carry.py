"""What a full pass measured, put into the light reports that follow, as long as it holds. Pure.

It is kept in the memory of the daemon, so it never outlives a boot.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.dram.facts import DramFacts
from nodecheck.model import (
    NOT_ASKED,
    UNANSWERED,
    Gap,
    Latency,
    Measurement,
    Reason,
    Struct,
    Transfer,
    faults,
)
from nodecheck.report import Report, in_utc

RAM_ALIKE_SHARE = 0.1
"""MemTotal changes by less while a balloon breathes; a module more or less changes it by more.
Source: nodecheck's own judgement."""

MISDATED_SECONDS = 120
"""What was measured so far ahead of now was dated by a clock that was wrong."""

DRAM, CUDA = "dram", "cuda"

YET, NEVER = "a full pass is yet to come", 'not asked for (kernels = "never")'
"""Why a light pass measured nothing, where no full one tells."""


class Machine(Struct, frozen=True, kw_only=True):
    """What the figures were measured on: on another machine they say nothing.

    None is not known, which contradicts nothing: a probe that hung has changed no machine.
    """

    cpu: tuple[str | int | None, ...]
    total_bytes: int | None
    driver: str | None
    cards: tuple[str, ...] | None


class Memory(Struct, frozen=True, kw_only=True):
    """What the kernels measured, and when: UTC, ISO 8601."""

    time: str
    machine: Machine
    facts: DramFacts
    measurements: tuple[Measurement, ...]
    latencies: tuple[Latency, ...]
    gaps: tuple[Gap, ...]


class Cuda(Struct, frozen=True, kw_only=True):
    """What CUDA answered, and when."""

    time: str
    machine: Machine
    facts: CudaFacts
    transfers: tuple[Transfer, ...]
    gaps: tuple[Gap, ...]


class Measured(Struct, frozen=True, kw_only=True):
    """All that costs too much for a light pass."""

    memory: Memory | None = None
    cuda: Cuda | None = None


def measured(report: Report) -> Measured:
    """What was measured for this report itself."""
    machine, facts = _machine(report), report.facts
    memory = cuda = None
    if report.measurements:
        memory = Memory(
            time=report.time, machine=machine, facts=facts.dram, gaps=_gaps(report, DRAM),
            measurements=report.measurements, latencies=report.latencies,
        )  # fmt: skip
    if facts.cuda.state is not None:
        cuda = Cuda(
            time=report.time, machine=machine, facts=facts.cuda, gaps=_gaps(report, CUDA),
            transfers=report.transfers,
        )  # fmt: skip
    return Measured(memory=memory, cuda=cuda)


def still(earlier: Measured, report: Report, most_seconds: float) -> Measured:
    """What of the earlier holds for this report, and was not measured for it anew.

    Where that was tried in vain nothing holds: what failed is not what it was.
    """
    memory, cuda = earlier.memory, earlier.cuda
    own, now = measured(report), _machine(report)
    if memory and (own.memory or not _holds(memory, DRAM, report, most_seconds)):
        memory = None
    if cuda and (own.cuda or not _holds(cuda, CUDA, report, most_seconds)):
        cuda = None
    return Measured(
        memory=memory if memory and _same_memory(memory.machine, now) else None,
        cuda=cuda if cuda and _same_cards(cuda.machine, now) else None,
    )


def _holds(part: Memory | Cuda, check: str, report: Report, most_seconds: float) -> bool:
    return _recent(part, report, most_seconds) and _tried_in_vain(report, check) is None


def carried(report: Report, earlier: Measured) -> Report:
    """The report with what of `earlier` holds for it (see still) in its place; to be judged."""
    facts, gaps = report.facts, report.gaps
    measurements, latencies, transfers = report.measurements, report.latencies, report.transfers
    if memory := earlier.memory:
        facts = msgspec.structs.replace(facts, dram=memory.facts)
        measurements, latencies = memory.measurements, memory.latencies
        gaps = _with(gaps, DRAM, memory.gaps)
    if cuda := earlier.cuda:
        facts = msgspec.structs.replace(facts, cuda=cuda.facts)
        transfers = cuda.transfers
        gaps = _with(gaps, CUDA, cuda.gaps)
    times = [part.time for part in (memory, cuda) if part]
    return msgspec.structs.replace(
        report,
        measured_time=min(times, key=in_utc, default=None),
        facts=facts,
        measurements=measurements,
        latencies=latencies,
        transfers=transfers,
        gaps=gaps,
    )


def handed_on(report: Report, earlier: Measured) -> Measured | None:
    """What the passes that follow are to be told; `earlier` is what holds still."""
    own = measured(report)
    memory, cuda = own.memory or earlier.memory, own.cuda or earlier.cuda
    return Measured(memory=memory, cuda=cuda) if memory or cuda else None


def rests_on_measured(published: Report, collected: Report) -> bool:
    """Whether some fault is there only by what was carried over. Both are judged."""
    alone = {(finding.id, finding.subject) for finding in faults(collected.findings)}
    return any((f.id, f.subject) not in alone for f in faults(published.findings))


def why_not_measured(report: Report) -> str | None:
    """Why a full pass measured no memory or had no answer of CUDA, where that may change."""
    for check in (DRAM, CUDA):
        if failed := _tried_in_vain(report, check):
            return failed.detail
    may = any(gap.check == DRAM and gap.reason is Reason.ABSENT for gap in report.gaps)
    return report.facts.dram.skipped if may and not report.measurements else None


def unmeasured(report: Report) -> dict[str, str]:
    """Why a full pass measured no memory or did not ask CUDA, by check."""
    facts, own = report.facts, measured(report)
    whys = {
        DRAM: None if own.memory else facts.dram.skipped,
        CUDA: None if own.cuda else next((_why(gap) for gap in _gaps(report, CUDA)), None),
    }
    return {check: f"{why}, at the last full pass" for check, why in whys.items() if why}


def told(report: Report, whys: Mapping[str, str], otherwise: str) -> Report:
    """A light report that says why nothing is measured: nobody left that out."""
    dram = report.facts.dram
    if dram.skipped == NOT_ASKED:
        dram = msgspec.structs.replace(dram, skipped=whys.get(DRAM, otherwise))
    return msgspec.structs.replace(
        report,
        facts=msgspec.structs.replace(report.facts, dram=dram),
        gaps=tuple(_told(gap, whys.get(gap.check, otherwise)) for gap in report.gaps),
    )


def _why(gap: Gap) -> str:
    return gap.detail.removeprefix("CUDA: ")


def _told(gap: Gap, why: str) -> Gap:
    return msgspec.structs.replace(gap, detail=gap.detail.replace(NOT_ASKED, why))


def _tried_in_vain(report: Report, check: str) -> Gap | None:
    return next((gap for gap in _gaps(report, check) if gap.reason in UNANSWERED), None)


def _machine(report: Report) -> Machine:
    facts = report.facts
    cpu, silent = facts.cpu, facts.gpu.state not in (None, "ok", "missing")
    unseen = silent or any(gap.check == "gpu" and gap.field == "*" for gap in report.gaps)
    return Machine(
        cpu=(cpu.brand, cpu.family, cpu.model, cpu.stepping, cpu.x86_64_level, cpu.logical_cpus),
        total_bytes=facts.memory.total_bytes,
        driver=facts.gpu.driver_version,
        cards=None if unseen else tuple(sorted(gpu.pci_address or gpu.label for gpu in facts.gpus)),
    )


def _recent(part: Memory | Cuda, report: Report, most_seconds: float) -> bool:
    age = (in_utc(report.time) - in_utc(part.time)).total_seconds()
    return -MISDATED_SECONDS <= age <= most_seconds


def _same_memory(was: Machine, now: Machine) -> bool:
    same = all(_agree(one, other) for one, other in zip(was.cpu, now.cpu, strict=True))
    if was.total_bytes is None or now.total_bytes is None:
        return same
    return same and abs(now.total_bytes - was.total_bytes) <= RAM_ALIKE_SHARE * was.total_bytes


def _same_cards(was: Machine, now: Machine) -> bool:
    return _agree(was.cards, now.cards) and _agree(was.driver, now.driver)


def _agree(one: object, other: object) -> bool:
    return one is None or other is None or one == other


def _gaps(report: Report, check: str) -> tuple[Gap, ...]:
    return tuple(gap for gap in report.gaps if gap.check == check)


def _with(gaps: tuple[Gap, ...], check: str, those: tuple[Gap, ...]) -> tuple[Gap, ...]:
    return (*(gap for gap in gaps if gap.check != check), *those)
