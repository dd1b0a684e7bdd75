"""What the gate answers to each thing that it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodecheck.model import Reason, Status, Struct
from nodecheck.report import Report

WORST_FIRST = (Status.CRITICAL, Status.WARNING, Status.UNKNOWN, Status.OK)


class Answer(Struct, frozen=True, kw_only=True):
    """Whether one requirement is met: `name` is its label, `text` a few words with the reason.

    `value` is None where it is not known, or no number. It is in `unit`: B (bytes) or empty.
    Below `warning_below` or `critical_below` it does not do.
    """

    name: str
    status: Status
    text: str
    value: float | None = None
    warning_below: float | None = None
    critical_below: float | None = None
    unit: str = ""


def worst(statuses: Iterable[Status]) -> Status:
    """The status that counts of several."""
    return min(statuses, key=WORST_FIRST.index, default=Status.OK)


def why_unknown(report: Report, check: str, *fields: str) -> str:
    """Why these fields of a check are not known, in the words of the gap."""
    gaps = [gap for gap in report.gaps if gap.check == check and gap.field in ("*", *fields)]
    loud = [gap for gap in gaps if gap.reason is not Reason.ABSENT]
    return next((gap.detail for gap in (*loud, *gaps)), "not read")


def sign(value: float, least: float, write: Callable[[float], str]) -> str:
    """How a value lies to the least that does, where both are told by `write`."""
    relation = ">=" if value >= least else "<"
    hidden = value != least and write(value) == write(least)
    return f"just {relation}" if hidden else relation
