"""What is let go of a history: bounded work a run, so that nobody waits for it long."""

from __future__ import annotations

import time

from nodecheck.policy import Retention
from nodecheck.records.snapshots.sqlite import Connection, pragma, transaction

RUN_SECONDS = 0.5
"""The most that a run spends on it; the next runs go on."""

ROWS = 200
PAGES = 200
"""In one transaction: other writers wait for it, some ten milliseconds."""

PAUSE_SECONDS = 0.02
"""Between transactions, in which those who wait come to their turn."""

FREE_PAGES = 64
"""As many the file keeps: the next snapshots fill them. Source: nodecheck's own judgement."""

SETTLED_SECONDS = 12 * 3600
APART_SECONDS = 31 * 86_400
"""The clock is believed half a day after it last jumped further ahead than snapshots are apart, a
month at most. With an empty battery it may be years ahead, and all that there is too old."""


def prune(db: Connection, retention: Retention, now: int) -> int:
    """Remove what exceeds age or size, the oldest first; how many snapshots went."""
    end, removed = time.monotonic() + RUN_SECONDS, 0
    while True:
        with transaction(db):
            ids = _too_old(db, retention.age_seconds, now) or _too_much(db, retention.size_bytes)
            _remove(db, ids)
        removed += len(ids)
        if not ids or time.monotonic() >= end:
            break
        time.sleep(PAUSE_SECONDS)
    while time.monotonic() < end and pragma(db, "freelist_count") > FREE_PAGES:
        # not execute: of a statement without columns it takes one step, which is one page
        db.executescript(f"PRAGMA incremental_vacuum({PAGES})")
        time.sleep(PAUSE_SECONDS)
    return removed


def _too_old(db: Connection, age: int, now: int) -> list[int]:
    """Ids, by their times; not that of the snapshot that was stored last."""
    settled = (now - 2 * age - APART_SECONDS, now - SETTLED_SECONDS)
    earlier = "SELECT 1 FROM snapshots WHERE time BETWEEN ? AND ? LIMIT 1"
    if db.execute(earlier, settled).fetchone() is None:
        return []
    rows = db.execute(
        "SELECT id FROM snapshots WHERE time < ? AND id < (SELECT max(id) FROM snapshots)"
        " ORDER BY time LIMIT ?",
        (now - age, ROWS),
    )
    return [each for (each,) in rows]


def _too_much(db: Connection, most_bytes: int) -> list[int]:
    """Ids in the order in which they were stored, about as many as exceed it; not the last."""
    used = (pragma(db, "page_count") - pragma(db, "freelist_count")) * pragma(db, "page_size")
    if used <= most_bytes:
        return []
    first, last = db.execute("SELECT min(id), max(id) FROM snapshots").fetchone()
    excess = int((used - most_bytes) / used * (last - first)) + 1
    rows = db.execute(
        "SELECT id FROM snapshots WHERE id < ? ORDER BY id LIMIT ?", (last, min(excess, ROWS))
    )
    return [each for (each,) in rows]


def _remove(db: Connection, ids: list[int]) -> None:
    """These, and what no other needs."""
    shared: set[int] = set()
    bases: set[int] = set()
    for each in ids:
        row = db.execute("SELECT state, layout FROM snapshots WHERE id = ?", (each,)).fetchone()
        shared.update(row)
        bases.update(db.execute("SELECT base FROM reports WHERE id = ?", (each,)).fetchone() or ())
    gone = [(each,) for each in ids]
    db.executemany("DELETE FROM snapshots WHERE id = ?", gone)
    db.executemany("DELETE FROM reports WHERE id = ?", gone)
    db.executemany(
        "DELETE FROM shared WHERE id = :id"
        " AND NOT EXISTS (SELECT 1 FROM snapshots WHERE state = :id)"
        " AND NOT EXISTS (SELECT 1 FROM snapshots WHERE layout = :id)",
        [{"id": each} for each in shared],
    )
    db.executemany(
        "DELETE FROM bases WHERE id = :id AND NOT EXISTS (SELECT 1 FROM reports WHERE base = :id)",
        [{"id": each} for each in bases],
    )
