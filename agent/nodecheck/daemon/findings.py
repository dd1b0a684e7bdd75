"""What /api/v1/findings answers: the verdict and what it rests on, without the facts."""

from __future__ import annotations

import msgspec

from nodecheck.model import Finding, Gap, Status, Struct

SCHEMA_VERSION = 1


class Findings(Struct, frozen=True, kw_only=True):
    """The findings of the report of `time`.

    Where it is `stale` they tell nothing of now, and `status` is unknown.
    """

    schema_version: int = SCHEMA_VERSION
    time: str
    host: str | None = None
    status: Status
    headline: str
    stale: bool = False
    findings: tuple[Finding, ...] = ()
    gaps: tuple[Gap, ...] = ()


def staled(findings: bytes) -> bytes:
    """The same answer once its report is too old to stand for now."""
    last = msgspec.json.decode(findings, type=Findings)
    old = msgspec.structs.replace(
        last,
        status=Status.UNKNOWN,
        headline=f"The last report is of {last.time}: nothing is known of now.",
        stale=True,
    )
    return msgspec.json.encode(old)
