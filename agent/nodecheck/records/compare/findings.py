"""What became of the findings of two reports."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.model import Finding
from nodecheck.records.compare.comparison import FindingPair, Outcome
from nodecheck.records.differences import Difference
from nodecheck.report import Report


def findings(one: Report, other: Report, found: tuple[Difference, ...]) -> Iterator[FindingPair]:
    """Those of both, the gravest first."""
    told = {(d.name, d.where) for d in found if d.kind == "finding"}
    earlier, later = _by_subject(one), _by_subject(other)
    pairs = (
        _finding(earlier.get(key), later.get(key), seen=key in told)
        for key in dict.fromkeys([*earlier, *later])
    )
    yield from sorted(pairs, key=lambda pair: -_rank(pair))


def _by_subject(report: Report) -> dict[tuple[str, str], Finding]:
    return {(f.id, f.subject): f for f in report.findings}


def _finding(before: Finding | None, after: Finding | None, *, seen: bool) -> FindingPair:
    last = after or before
    assert last is not None
    return FindingPair(
        id=last.id,
        subject=last.subject,
        outcome=_outcome(before, after, seen=seen),
        before=before.severity if before else None,
        after=after.severity if after else None,
        summary=last.summary,
        waived=last.waived,
    )


def _outcome(before: Finding | None, after: Finding | None, *, seen: bool) -> Outcome:
    if before and after:
        return Outcome.SAME if before.severity is after.severity else Outcome.SEVERITY
    if not seen:
        return Outcome.UNSEEN
    return Outcome.APPEARED if after else Outcome.CLEARED


def _rank(pair: FindingPair) -> int:
    return max(each.rank for each in (pair.before, pair.after) if each)
