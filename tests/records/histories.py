"""Histories to test with: reports of one node at different times, stored."""

from __future__ import annotations

import datetime
import functools
from pathlib import Path

from msgspec.structs import replace

from nodecheck.diagnose import diagnose
from nodecheck.policy import Policy, Retention
from nodecheck.records.snapshots import database
from nodecheck.report import HostInfo, Report
from nodecheck.units import GIB
from tests.nodes import AVX2, SSE2, root, three_l40

NOON = int(datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc).timestamp())
DAY = 86_400

KEPT = Retention(age_seconds=100 * 365 * DAY)
"""Nothing that a test stores is too old."""


def report(time: int = NOON, *, free_gib: int = 57, avx2: bool = False) -> Report:
    """The node of three L40 at that time, judged."""
    moment = datetime.datetime.fromtimestamp(time, datetime.timezone.utc)
    return replace(_judged(free_gib, avx2), time=moment.isoformat())


@functools.cache
def _judged(free_gib: int, avx2: bool) -> Report:
    seen = three_l40(AVX2 if avx2 else SSE2)
    room = replace(seen.facts.disk, filesystems=(root(free_gib * GIB, 950 * GIB),))
    made = Report(
        nodecheck_version="1",
        time="2026-03-01T12:00:00+00:00",
        host=HostInfo(source="live", holds=("cpu", "memory", "disk")),
        facts=replace(seen.facts, disk=room),
        measurements=seen.measurements,
    )
    return diagnose(made, Policy())


def stored(path: Path, *reports: Report, retention: Retention = KEPT) -> list[int]:
    """Store them in this order; their ids."""
    return [database.add(path, each, retention).id for each in reports]
