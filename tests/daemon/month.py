"""A history of a month, made at once: some judged reports in turn, at other times each."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from nodecheck.model import Measurement
from nodecheck.records.snapshots import database
from nodecheck.records.snapshots.sqlite import Connection, transaction, writing
from nodecheck.report import Report

DAY = 86_400
VARIANTS = 24
"""Reports that differ in their figures: enough for a line that is none."""


def fill(path: Path, report: Report, end: int, days: int = 30, step_seconds: int = 60) -> int:
    """Put a snapshot every `step_seconds` there, the last at `end`; how many."""
    times = range(end - days * DAY, end + 1, step_seconds)
    variants = itertools.islice(moved(report), VARIANTS)
    with writing(path) as db, transaction(db):
        ids = [database._insert(db, dated(each, times[0])) for each in variants]
        for start, number in enumerate(ids):
            _copies(db, number, times[start + 1 :: len(ids)])
        db.execute("DELETE FROM snapshots WHERE id <= ?", (ids[-1],))
        _in_order(db)
    return len(times) - 1


def _copies(db: Connection, number: int, times: Iterable[int]) -> None:
    """The same snapshot at other times."""
    columns = "SELECT ?, status, state, layout, figures FROM snapshots WHERE id = ?"
    into = "INSERT INTO snapshots (time, status, state, layout, figures) "
    db.executemany(into + columns, ((time, number) for time in times))


def _in_order(db: Connection) -> None:
    """Ids as the times are, each with the first report: none of them is looked into but for words.

    Their bases stay.
    """
    rows = db.execute(
        "SELECT time, status, state, layout, figures FROM snapshots ORDER BY time"
    ).fetchall()
    base, changes = db.execute("SELECT base, changes FROM reports ORDER BY id").fetchone()
    db.execute("DELETE FROM snapshots")
    db.execute("DELETE FROM reports")
    db.executemany("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?)",
                   ((number, *row) for number, row in enumerate(rows, 1)))  # fmt: skip
    db.executemany("INSERT INTO reports VALUES (?, ?, ?)",
                   ((number, base, changes) for number in range(1, len(rows) + 1)))  # fmt: skip


def moved(report: Report) -> Iterator[Report]:
    """The report with figures that stray, without end."""
    chance = random.Random(3)
    while True:
        by = chance.gauss(1, 0.01)
        disks = tuple(
            replace(each, available_bytes=int(each.available_bytes * by))
            if each.available_bytes else each
            for each in report.facts.disk.filesystems
        )  # fmt: skip
        facts = replace(report.facts, disk=replace(report.facts.disk, filesystems=disks))
        yield replace(
            report, facts=facts, measurements=tuple(_stray(m, by) for m in report.measurements)
        )


def _stray(each: Measurement, by: float) -> Measurement:
    return replace(each, median_bytes_per_second=each.median_bytes_per_second * by)


def dated(report: Report, time: int) -> Report:
    """The report as of then."""
    when = datetime.datetime.fromtimestamp(time, datetime.timezone.utc)
    return replace(report, time=when.isoformat(timespec="seconds"))
