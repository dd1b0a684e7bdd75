"""The report: what was seen, what it means, what is not known. Reads and writes JSON."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from nodecheck.checks.seen import Facts
from nodecheck.model import Finding, Gap, Latency, Measurement, Status, Strategy, Struct, Verdict
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
    """

    schema_version: int = SCHEMA_VERSION
    nodecheck_version: str
    time: str
    host: HostInfo
    facts: Facts
    measurements: tuple[Measurement, ...] = ()
    latencies: tuple[Latency, ...] = ()
    workload: Workload | None = None
    findings: tuple[Finding, ...] = ()
    strategies: tuple[Strategy, ...] = ()
    verdict: Verdict = Verdict(status=Status.UNKNOWN, headline="Not judged.")
    gaps: tuple[Gap, ...] = ()
    elapsed_seconds: float | None = None


def to_json(report: Report) -> bytes:
    """The report as one JSON object, indented, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def from_json(text: bytes, name: str) -> Report:
    """The report in `text`; `name` is its file, for messages. Raises ReportError."""
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version == SCHEMA_VERSION:
            report = msgspec.json.decode(text, type=Report)
            datetime.datetime.fromisoformat(report.time)
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


class _Versioned(msgspec.Struct):
    schema_version: int


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) that every report is valid against."""
    return msgspec.json.schema(Report)
