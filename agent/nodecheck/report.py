"""The report: what was seen, what it means, what is not known. Reads and writes JSON."""

from __future__ import annotations

import datetime

import msgspec

from nodecheck.checks.seen import Facts, Past
from nodecheck.model import (
    Finding,
    Gap,
    Latency,
    Measurement,
    Status,
    Strategy,
    Struct,
    Transfer,
    Verdict,
)
from nodecheck.ranges import absurd
from nodecheck.serving import Workload

SCHEMA_VERSION = 1


class ReportError(ValueError):
    """A saved report that cannot be used; the message is one line."""


class HostInfo(Struct, frozen=True, kw_only=True):
    """What a report was made of. `source` is live or captured.

    `holds` are the subjects whose primary input was there: a capture is required to tell no others.
    """

    source: str
    holds: tuple[str, ...]
    name: str | None = None
    kernel: str | None = None


class Report(Struct, frozen=True, kw_only=True):
    """Everything about one node at one time. `time` is UTC, ISO 8601.

    `workload` is the model that the strategies are judged for: the user's, or the policy's.
    `policy` is the label of the policy that it was judged by, `past` what the history tells.
    `measured_time` is set where measurements, or CUDA's answer, are older than the rest: the oldest
    of them is of that time.
    """

    schema_version: int = SCHEMA_VERSION
    nodecheck_version: str
    time: str
    measured_time: str | None = None
    policy: str | None = None
    host: HostInfo
    facts: Facts
    measurements: tuple[Measurement, ...] = ()
    latencies: tuple[Latency, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    past: Past | None = None
    workload: Workload | None = None
    findings: tuple[Finding, ...] = ()
    strategies: tuple[Strategy, ...] = ()
    verdict: Verdict = Verdict(status=Status.UNKNOWN, headline="Not judged.")
    gaps: tuple[Gap, ...] = ()
    elapsed_seconds: float | None = None


def from_json(text: bytes, name: str) -> Report:
    """The report in `text`; `name` is its file, for messages. Raises ReportError."""
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version == SCHEMA_VERSION:
            report = msgspec.json.decode(text, type=Report)
            in_utc(report.time)
            in_utc(report.measured_time or report.time)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ReportError(f"{name}: not a nodecheck report: {error}") from error
    if version != SCHEMA_VERSION:
        raise ReportError(
            f"{name}: report schema {version}, this nodecheck reads {SCHEMA_VERSION}; "
            "make the report again"
        )
    if wrong := absurd(report):
        raise ReportError(f"{name}: not a nodecheck report: {wrong[:200]}, which cannot be")
    return report


def in_utc(time: str) -> datetime.datetime:
    """A report's time. Raises ValueError where it is none that UTC has."""
    when = datetime.datetime.fromisoformat(time)
    aware = when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)
    try:
        return aware.astimezone(datetime.timezone.utc)
    except OverflowError as error:
        raise ValueError(f"time {time}: {error}") from error


class _Versioned(msgspec.Struct):
    schema_version: int
