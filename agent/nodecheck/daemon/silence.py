"""Faults whose source fell silent: they are not known to be gone until it answers again. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nodecheck.checks import CHECKS
from nodecheck.daemon.carry import CUDA, DRAM, measured, why_not_measured
from nodecheck.daemon.passes import FULL
from nodecheck.diagnose import findings, what_rules_see
from nodecheck.model import UNANSWERED, Struct, faults
from nodecheck.policy import Policy
from nodecheck.report import Report


class Source(Struct, frozen=True, kw_only=True):
    """A check that a fault rested on when it last answered.

    `unanswered` are those of its fields that were silent then too: they told nothing of it.
    """

    check: str
    unanswered: tuple[str, ...] = ()
    is_silent: bool = False


def sources(report: Report, policy: Policy) -> tuple[Source, ...]:
    """The checks without whose answers one of the report's faults would not be there."""
    if not faults(report.findings):
        return ()
    there = _faults(report, policy)
    return tuple(
        Source(check=check, unanswered=tuple(sorted(_unanswered(report, check))))
        for check in CHECKS
        if there - _faults(_without(report, check), policy)
    )


def fallen_silent(earlier: Iterable[Source], report: Report, kind: str) -> tuple[Source, ...]:
    """Those of the earlier that do not answer now, or were silent and were not asked again."""
    unasked = _unasked(report, kind)
    return tuple(
        replace(source, is_silent=True)
        for source in earlier
        if _unanswered(report, source.check) - set(source.unanswered)
        or (source.is_silent and source.check in unasked)
    )


def handed_on(silent: tuple[Source, ...], now: tuple[Source, ...]) -> tuple[Source, ...]:
    """What the passes that follow are to be told."""
    still = {source.check for source in silent}
    return (*silent, *(source for source in now if source.check not in still))


def _unasked(report: Report, kind: str) -> frozenset[str]:
    """What only full passes ask, where this one did not."""
    if kind == FULL and why_not_measured(report) is None:
        return frozenset()
    own = measured(report)
    parts = {DRAM: own.memory, CUDA: own.cuda}
    return frozenset(check for check, part in parts.items() if part is None)


def _unanswered(report: Report, check: str) -> set[str]:
    return {gap.field for gap in report.gaps if gap.check == check and gap.reason in UNANSWERED}


def _faults(report: Report, policy: Policy) -> set[tuple[str, str]]:
    found = findings(what_rules_see(report, policy), report.time)
    return {(finding.id, finding.subject) for finding in faults(found)}


def _without(report: Report, check: str) -> Report:
    """The report as it would be had this check not answered."""
    facts = replace(report.facts, **{check: type(getattr(report.facts, check))()})
    if check == "gpu":
        facts = replace(facts, gpus=())
    if check == DRAM:
        report = replace(report, measurements=(), latencies=())
    if check == CUDA:
        report = replace(report, transfers=())
    return replace(report, facts=facts)
