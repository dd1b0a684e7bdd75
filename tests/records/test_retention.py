"""What is too old or too much goes, the oldest first, in bounded time; the newest always stays."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from nodecheck.policy import Retention
from nodecheck.records.snapshots import database, retention
from nodecheck.records.snapshots.sqlite import Connection, pragma, transaction, writing
from tests.records.histories import DAY, NOON, report

YEAR = 366 * DAY
MIB = 1 << 20
ANY_SIZE = 1 << 40


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture(autouse=True)
def _long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is let go must not depend on how fast this machine is."""
    monkeypatch.setattr(retention, "RUN_SECONDS", 60.0)


def fill(db: Connection, times: Iterable[int]) -> None:
    """Snapshots made at these times, stored in this order."""
    with transaction(db):
        for number, moment in enumerate(times):
            database._insert(db, report(moment, free_gib=50 + number % 9))


def pruned(
    history: Path, times: Iterable[int], now: int, *, age: int = YEAR, size: int = ANY_SIZE
) -> list[int]:
    """The times of what is left, in the order in which it was stored."""
    with writing(history) as db:
        fill(db, times)
        retention.prune(db, Retention(age_seconds=age, size_bytes=size), now)
        return moments(db)


def moments(db: Connection) -> list[int]:
    return rows(db, "SELECT time FROM snapshots ORDER BY id")


def rows(db: Connection, query: str) -> list[int]:
    return [each for (each,) in db.execute(query)]


def daily(days: int, until: int = NOON) -> list[int]:
    return [until - day * DAY for day in reversed(range(days))]


def test_what_is_older_than_the_policy_says_goes(history: Path) -> None:
    assert pruned(history, daily(40), NOON, age=30 * DAY) == daily(31)


def test_an_age_below_the_distance_of_snapshots_leaves_the_newest(history: Path) -> None:
    assert pruned(history, daily(9), NOON, age=3600) == [NOON]


def test_nothing_goes_that_is_neither_old_nor_too_much(history: Path) -> None:
    assert pruned(history, daily(40), NOON) == daily(40)


def test_the_newest_stays_however_old_it_is(history: Path) -> None:
    assert pruned(history, [NOON], NOON + 20 * DAY, age=DAY) == [NOON]


def test_with_the_last_that_needs_them_bases_and_states_go(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BASE_SNAPSHOTS", 2)
    with writing(history) as db:
        with transaction(db):
            for day, avx2 in ((9, True), (8, True), (7, True), (1, False), (0, False)):
                database._insert(db, report(NOON - day * DAY, avx2=avx2))
        assert rows(db, "SELECT id FROM bases") == [1, 3, 5]
        retention.prune(db, Retention(age_seconds=5 * DAY), NOON)
        assert rows(db, "SELECT id FROM snapshots") == [4, 5]
        assert rows(db, "SELECT id FROM bases") == [3, 5]
        assert rows(db, "SELECT count(*) FROM shared") == [2]
    assert database.read_report(history, "@4") == report(NOON - DAY)


@pytest.mark.parametrize("ahead", [73 * YEAR, 3 * YEAR])
def test_a_clock_that_jumped_ahead_empties_nothing(ahead: int, history: Path) -> None:
    """As with an empty battery: it is believed only when it has gone on for half a day."""
    wrong = [NOON + ahead + minute * 60 for minute in range(5)]
    assert pruned(history, daily(9) + wrong, wrong[-1]) == daily(9) + wrong


def test_a_clock_that_goes_on_so_is_believed(history: Path) -> None:
    """As on a node that was off for years."""
    later = [NOON + 3 * YEAR, NOON + 3 * YEAR + DAY]
    assert pruned(history, daily(9) + later, later[-1]) == later


def test_a_clock_that_is_behind_removes_nothing(history: Path) -> None:
    assert pruned(history, [*daily(9), 5], 5) == [*daily(9), 5]


def test_a_snapshot_of_a_clock_that_was_behind_goes_as_one_of_that_time(history: Path) -> None:
    assert pruned(history, [*daily(3), 5, NOON + 60], NOON + 60) == [*daily(3), NOON + 60]


def test_what_was_stored_first_goes_first_where_it_is_too_much(history: Path) -> None:
    times = daily(600)
    with writing(history) as db:
        fill(db, times)
        size = pragma(db, "page_count") * pragma(db, "page_size")
        retention.prune(db, Retention(age_seconds=9 * YEAR, size_bytes=size // 2), NOON)
        left = moments(db)
        assert left == times[-len(left) :]
        assert 200 < len(left) < 300
    assert history.stat().st_size <= size / 2 + (retention.FREE_PAGES + 1) * 4096
    assert database.read_report(history, "@-1").time == report(NOON).time


def test_the_file_shrinks_by_many_pages_at_a_time(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FREE_PAGES", 0)
    statements: list[str] = []
    with writing(history) as db:
        fill(db, daily(400))
        before = pragma(db, "page_count")
        db.set_trace_callback(statements.append)
        retention.prune(db, Retention(age_seconds=9 * DAY), NOON)
        assert pragma(db, "freelist_count") == 0
        assert pragma(db, "page_count") < before - 20
    assert len([each for each in statements if "incremental_vacuum" in each]) == 1


def test_a_policy_made_much_tighter_is_met_over_several_runs(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them takes its time and no more."""
    monkeypatch.setattr(retention, "RUN_SECONDS", 0.05)
    monkeypatch.setattr(retention, "ROWS", 50)
    kept = Retention(age_seconds=9 * DAY)
    with writing(history) as db:
        fill(db, daily(400))
        removed: list[int] = []
        longest = 0.0
        while not removed or removed[-1]:
            start = time.monotonic()
            removed.append(retention.prune(db, kept, NOON))
            longest = max(longest, time.monotonic() - start)
        assert moments(db) == daily(10)
        assert len(removed) > 2
        assert sum(removed) == 390
    assert longest < 5


def test_a_small_size_is_held_while_the_history_goes_on(history: Path) -> None:
    with writing(history) as db:
        for turn in range(4):
            fill(db, daily(200, NOON + turn * 200 * DAY))
            retention.prune(db, Retention(age_seconds=9 * YEAR, size_bytes=100_000), NOON)
            used = pragma(db, "page_count") - pragma(db, "freelist_count")
            assert used * pragma(db, "page_size") <= 100_000
            assert len(moments(db)) > 20
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
