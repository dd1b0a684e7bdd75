"""What was stored is read back, by every way to name it; what cannot be is one line."""

from __future__ import annotations

import datetime
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nodecheck.machine import child
from nodecheck.records.figures import figures
from nodecheck.records.series import Window, pack
from nodecheck.records.snapshots import database, place, sqlite
from nodecheck.records.snapshots.database import HistoryError
from nodecheck.records.state import state
from tests.records.histories import DAY, KEPT, NOON, report, stored


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "state" / "nodecheck" / "history.db"


def ask(history: Path, query: str) -> list[tuple[object, ...]]:
    """What SQLite itself finds there."""
    db = sqlite3.connect(history)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def told(history: Path, *words: str) -> str:
    """What reading says: one line with these words."""
    with pytest.raises(HistoryError) as caught:
        database.read_report(history, "@-1")
    return one_line(caught.value, *words)


def refused(history: Path, *words: str) -> str:
    """What storing says: one line with these words."""
    with pytest.raises(HistoryError) as caught:
        database.add(history, report(), KEPT)
    return one_line(caught.value, *words)


def one_line(error: HistoryError, *words: str) -> str:
    line = str(error)
    assert "\n" not in line
    for word in words:
        assert word in line
    return line


def test_a_report_comes_back_as_it_was(history: Path) -> None:
    made = [report(NOON), report(NOON + 60, free_gib=3), report(NOON + 120, avx2=True)]
    assert stored(history, *made) == [1, 2, 3]
    assert [database.read_report(history, f"@{number}") for number in (1, 2, 3)] == made


@pytest.mark.parametrize(
    ("reference", "number"),
    [
        ("@-1", 4),
        ("@-4", 1),
        ("@2", 2),
        ("@2026-03-01", 2),
        ("@2026-03-01T12:00", 1),
        ("@2026-03-01T12:01", 2),
        ("@2026-03-01T23:59", 2),
        ("@2026-03-02", 4),
        ("@2030-01-01", 4),
    ],
)
def test_a_snapshot_is_named_by_place_by_id_or_by_time(
    reference: str, number: int, history: Path
) -> None:
    times = (NOON, NOON + 90, NOON + DAY - 1, NOON + DAY)
    stored(history, *(report(time) for time in times))
    found = database.read_report(history, reference)
    assert found == report(times[number - 1])


@pytest.mark.parametrize("reference", ["@-3", "@3", "@2026-02-28", "@0", "@999999999999999999"])
def test_what_is_not_there_is_told_with_what_is(reference: str, history: Path) -> None:
    stored(history, report(), report())
    with pytest.raises(HistoryError) as caught:
        database.read_report(history, reference)
    one_line(caught.value, str(history), reference, "2 snapshots, @1 to @2", "2026-03-01T12:00")


@pytest.mark.parametrize("reference", ["@", "@-0", "@x", "@2026-02-30", "@2026-1-1", "@1.5", "@٣"])
def test_what_names_no_snapshot_is_told_how_it_could(reference: str, history: Path) -> None:
    stored(history, report())
    with pytest.raises(HistoryError) as caught:
        database.read_report(history, reference)
    one_line(caught.value, "@-1", "@17", "@2026-11-29T10:00")


def test_a_window_holds_figures_and_states_and_each_state_once(history: Path) -> None:
    made = [report(NOON + minute * 60, free_gib=57 - minute) for minute in range(5)]
    made += [report(NOON + 300, avx2=True)]
    stored(history, *made)
    window = database.read_window(history, None)
    assert window.ids == (1, 2, 3, 4, 5, 6)
    assert window.times == tuple(NOON + minute * 60 for minute in range(6))
    assert window.statuses == tuple(each.verdict.status.value for each in made)
    assert [window.state_by_id[key] for key in window.states] == [state(each) for each in made]
    assert len(set(window.states)) == 2
    for each, layout, packed in zip(made, window.layouts, window.packed, strict=True):
        assert (window.layout_by_id[layout], packed) == pack(figures(each))


def test_a_window_begins_where_it_is_asked_to(history: Path) -> None:
    stored(history, *(report(NOON + day * DAY) for day in range(4)))
    assert database.read_window(history, NOON + 2 * DAY).ids == (3, 4)
    assert database.read_window(history, NOON + 9 * DAY) == Window()
    lines = list(database.read_reports(history, NOON + 2 * DAY))
    made = [report(NOON + day * DAY) for day in (2, 3)]
    assert lines == [msgspec.json.encode(each) + b"\n" for each in made]


def test_the_latest_come_first_with_what_they_said(history: Path) -> None:
    made = [report(NOON), report(NOON + 60, free_gib=3)]
    stored(history, *made)
    newest, before = database.read_latest(history, 5)
    assert (newest.id, newest.time, newest.headline) == (2, NOON + 60, made[1].verdict.headline)
    assert (before.id, before.status) == (1, made[0].verdict.status.value)
    assert [each.id for each in database.read_latest(history, 1)] == [2]


def test_a_clock_that_was_wrong_once_is_in_no_window(history: Path) -> None:
    """2099 for one snapshot, 1970 for another: the others keep their order."""
    year_2099 = int(datetime.datetime(2099, 1, 1, tzinfo=datetime.timezone.utc).timestamp())
    stored(history, *(report(time) for time in (NOON, year_2099, 5, NOON + 60)))
    assert database.read_window(history, NOON).ids == (1, 4)
    assert database.read_window(history, None).ids == (3, 1, 4)
    assert database.read_report(history, "@-1") == report(NOON + 60)
    assert database.read_report(history, "@2026-03-01") == report(NOON + 60)


def test_reports_that_are_stored_later_find_their_place_in_time(history: Path) -> None:
    stored(history, report(NOON + DAY), report(NOON))
    assert database.read_window(history, None).ids == (2, 1)
    first = next(database.read_reports(history, None))
    assert first == msgspec.json.encode(report(NOON)) + b"\n"


def test_reading_sees_one_moment_while_others_write(history: Path) -> None:
    stored(history, report(NOON), report(NOON + 60))
    reading = database.read_reports(history, None)
    first = next(reading)
    stored(history, report(NOON + 120))
    assert len([first, *reading]) == 2


def test_what_is_alike_is_stored_once_and_the_rest_is_small(history: Path) -> None:
    stored(history, *(report(NOON + minute * 60, free_gib=minute) for minute in range(1, 13)))
    assert ask(history, "SELECT count(*) FROM bases") == [(1,)]
    (largest,) = ask(history, "SELECT max(length(changes)) FROM reports WHERE id > 1")[0]
    assert isinstance(largest, int)
    assert largest < 700


def test_a_new_base_comes_after_so_many_snapshots(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BASE_SNAPSHOTS", 3)
    stored(history, *(report(NOON + minute) for minute in range(7)))
    assert ask(history, "SELECT id FROM bases") == [(1,), (4,), (7,)]


def test_a_report_of_another_kind_becomes_a_base(history: Path) -> None:
    other = msgspec.structs.replace(report(), facts=type(report().facts)(), measurements=())
    words = tuple(f"{number**9:x}" for number in range(500))
    other = msgspec.structs.replace(
        other, verdict=msgspec.structs.replace(other.verdict, not_checked=words)
    )
    stored(history, report(), report(), other, other, report())
    assert ask(history, "SELECT id, base FROM reports ORDER BY id") == [
        (1, 1),
        (2, 1),
        (3, 3),
        (4, 3),
        (5, 1),
    ]


# where it lies


@pytest.mark.parametrize("mask", [0, 0o777])
def test_it_is_for_nobody_else_whatever_the_umask(mask: int, history: Path) -> None:
    before = os.umask(mask)
    try:
        stored(history, report())
    finally:
        os.umask(before)
    for folder in (history.parent, history.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_it_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NODECHECK_HISTORY", str(tmp_path / "mine.db"))
    assert database.path() == tmp_path / "mine.db"
    monkeypatch.delenv("NODECHECK_HISTORY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert database.path() == tmp_path / "nodecheck" / "history.db"


def test_a_name_may_hold_what_an_address_may_not(tmp_path: Path) -> None:
    history = tmp_path / "a?b#c%41 \udcff" / "h&i=j.db"
    stored(history, report())
    assert database.read_report(history, "@-1") == report()
    assert history.is_file()


def test_without_a_history_the_way_to_one_is_told(history: Path) -> None:
    told(history, "no history yet", "nodecheck snapshot")
    assert not history.parent.exists()
    with pytest.raises(HistoryError, match="no history yet"):
        next(database.read_reports(history, None))


def test_a_history_that_holds_nothing_yet_is_none(history: Path) -> None:
    """As a disk leaves it that took the tables, and then no snapshot."""
    stored(history, report())
    change(history, "DELETE FROM snapshots")
    told(history, "no history yet", "nodecheck snapshot")
    with pytest.raises(HistoryError, match="no history yet"):
        database.read_latest(history, 1)


def foreign(history: Path, *, wal: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(history)
    if wal:
        db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    return db


def lay(kind: str, history: Path) -> None:
    history.parent.mkdir(parents=True)
    if kind == "link":
        (history.parent / "real").write_bytes(b"")
        history.symlink_to("real")
    elif kind == "fifo":
        os.mkfifo(history)
    elif kind == "folder":
        history.mkdir()
    elif kind == "text":
        history.write_text("SQLite is not what this is\n" * 9)
    else:
        foreign(history, wal=kind == "WAL of others").close()


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("link", "symbolic link"),
        ("fifo", "not a regular file"),
        ("folder", "not a regular file"),
        ("text", "no SQLite database"),
        ("database of others", "another program"),
        ("WAL of others", "another program"),
    ],
)
def test_what_is_no_history_is_refused_and_left_as_it_is(
    kind: str, word: str, history: Path
) -> None:
    lay(kind, history)
    before = [(f.name, f.read_bytes() if f.is_file() else b"") for f in history.parent.iterdir()]
    refused(history, str(history), word)
    told(history, str(history), word)
    after = [(f.name, f.read_bytes() if f.is_file() else b"") for f in history.parent.iterdir()]
    assert sorted(after) == sorted(before)


def test_what_others_have_in_their_log_alone_is_not_taken_for_nothing(history: Path) -> None:
    history.parent.mkdir(parents=True)
    theirs = foreign(history, wal=True)
    assert history.stat().st_size == 4096
    refused(history, "another program")
    assert theirs.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    theirs.close()


@pytest.mark.parametrize("pages", [1, 2])
def test_a_making_that_was_cut_short_is_made_good(pages: int, history: Path) -> None:
    """As kill -9 leaves it: an empty database, or one of which the first pages were written."""
    history.parent.mkdir(parents=True)
    db = sqlite3.connect(history, isolation_level=None)
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA cache_spill = 1")
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN IMMEDIATE")
    if pages > 1:
        db.execute(f"PRAGMA application_id = {place.APPLICATION_ID}")
        for number in range(99):
            db.execute(f"CREATE TABLE t{number} (x)")
    left = {f.name: f.read_bytes() for f in history.parent.iterdir()}
    db.close()
    for name, content in left.items():
        (history.parent / name).write_bytes(content)
    told(history, str(history))
    assert stored(history, report()) == [1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody")
def test_a_file_of_another_user_is_not_written(history: Path) -> None:
    stored(history, report())
    os.chown(history, 65534, 65534)
    refused(history, "belongs to another user")
    assert database.read_report(history, "@-1") == report()


def as_nobody(history: Path, task: str) -> str:
    """What comes of it for a user without rights: an error's line, or the report's time."""

    def work() -> str:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        try:
            if task == "add":
                return str(database.add(history, report(NOON + 60), KEPT).id)
            return database.read_report(history, "@-1").time
        except HistoryError as error:
            return str(error)

    outcome = child.call(work, str, 30)
    assert outcome.value is not None, outcome.error
    return outcome.value


@pytest.fixture
def lent() -> Iterator[Path]:
    """A history of a user without rights, in a folder that others may enter."""
    folder = Path(tempfile.mkdtemp())  # pytest's own lie where others may not enter
    stored(folder / "history.db", report())
    for each in (folder, folder / "history.db"):
        if os.geteuid() == 0:
            os.chown(each, 65534, 65534)
    yield folder / "history.db"
    folder.chmod(0o700)
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()


def test_a_folder_that_cannot_be_written_can_be_read(lent: Path) -> None:
    lent.parent.chmod(0o500)
    assert as_nobody(lent, "read") == report().time
    line = as_nobody(lent, "add")
    assert "cannot be opened for writing" in line or "read-only" in line
    lent.parent.chmod(0o700)
    assert as_nobody(lent, "add") == "2"


def test_a_file_that_cannot_be_written_can_be_read(lent: Path) -> None:
    lent.chmod(0o400)
    assert as_nobody(lent, "read") == report().time
    assert "read-only" in as_nobody(lent, "add")
    lent.chmod(0)
    assert as_nobody(lent, "read") == f"{lent}: Permission denied"


def test_a_folder_that_cannot_be_made_is_one_line(lent: Path) -> None:
    lent.parent.chmod(0o500)
    assert as_nobody(lent.parent / "sub" / "history.db", "add") == (
        f"{lent.parent}/sub/history.db: Permission denied"
    )
    assert as_nobody(lent / "history.db", "add") == f"{lent}/history.db: Not a directory"


# versions


def test_an_empty_file_becomes_a_history(history: Path) -> None:
    history.parent.mkdir(parents=True)
    history.touch()
    told(history, "no history yet")
    assert stored(history, report()) == [1]


def test_an_older_one_is_renewed_by_the_next_snapshot(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(history, report())
    later = "ALTER TABLE snapshots ADD COLUMN more TEXT; CREATE TABLE another (x)"
    monkeypatch.setattr(sqlite, "SCHEMAS", (*sqlite.SCHEMAS, later))
    told(history, "older nodecheck", "nodecheck snapshot")
    assert stored(history, report(NOON + 60)) == [2]
    assert ask(history, "SELECT more FROM snapshots") == [(None,), (None,)]
    assert ask(history, "PRAGMA user_version") == [(2,)]
    assert database.read_report(history, "@1") == report()


def test_a_change_of_version_happens_whole_or_not_at_all(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(history, report())
    broken = "CREATE TABLE another (x); CREATE TABLE snapshots (x)"
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "SCHEMAS", (*sqlite.SCHEMAS, broken))
        refused(history, "already exists")
    assert ask(history, "SELECT name FROM sqlite_master WHERE name = 'another'") == []
    assert stored(history, report(NOON + 60)) == [2]


def test_a_newer_one_is_refused_and_kept(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "SCHEMAS", (*sqlite.SCHEMAS, "CREATE TABLE another (x)"))
        stored(history, report())
    before = history.read_bytes()
    refused(history, "newer nodecheck", "version 2", "NODECHECK_HISTORY")
    told(history, "newer nodecheck")
    assert history.read_bytes() == before


# damage, and others at work


def test_a_broken_base_costs_its_own_snapshots_alone(history: Path) -> None:
    stored(history, report(NOON), report(NOON + 60))
    change(history, "UPDATE bases SET body = x'0101'")
    told(history, str(history), "damaged")
    assert stored(history, report(NOON + 120)) == [3]
    assert database.read_report(history, "@-1") == report(NOON + 120)
    assert database.read_window(history, None).ids == (1, 2, 3)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM bases",
        "DELETE FROM reports",
        "UPDATE reports SET changes = x''",
        "UPDATE reports SET base = 9",
    ],
)
def test_a_lost_report_is_one_line(damage: str, history: Path) -> None:
    stored(history, report(NOON), report(NOON + 60))
    change(history, damage)
    told(history, str(history), "damaged")
    with pytest.raises(HistoryError):
        list(database.read_reports(history, None))
    assert database.read_latest(history, 1)[0].headline == "Its report is damaged."


@pytest.mark.parametrize("damage", ["UPDATE shared SET body = x'00'", "DELETE FROM shared"])
def test_a_lost_state_is_one_line(damage: str, history: Path) -> None:
    stored(history, report())
    change(history, damage)
    with pytest.raises(HistoryError, match="damaged"):
        database.read_window(history, None)


@pytest.mark.parametrize(
    "damage",
    [
        "snapshots SET time = 'noon'",
        "snapshots SET time = 9e17",
        "snapshots SET status = x''",
        "snapshots SET layout = 'x'",
        "snapshots SET figures = x''",
        "snapshots SET figures = 5",
        "shared SET body = 5",
    ],
)
def test_a_column_of_something_else_is_one_line(damage: str, history: Path) -> None:
    """As pages come back that the disk took for one another."""
    stored(history, report(NOON), report(NOON + 60))
    table, _ = damage.split(maxsplit=1)
    change(history, f"UPDATE {damage} WHERE id = (SELECT max(id) FROM {table})")
    for read in (database.read_window, lambda *of: list(database.read_pieces(*of))):
        with pytest.raises(HistoryError, match="damaged") as caught:
            read(history, None)
        one_line(caught.value, str(history))


@pytest.mark.parametrize("damage", ["bases SET body = 5", "reports SET changes = 5"])
def test_a_report_that_is_a_number_costs_its_own_snapshots_alone(
    damage: str, history: Path
) -> None:
    stored(history, report(NOON))
    change(history, f"UPDATE {damage}")
    told(history, str(history), "damaged", "@1: ")
    assert stored(history, report(NOON + 60)) == [2]
    assert database.read_report(history, "@2") == report(NOON + 60)


def test_a_number_that_is_given_twice_is_damage(history: Path) -> None:
    stored(history, report(NOON), report(NOON + 60))
    change(history, "DELETE FROM snapshots WHERE id = 2")
    refused(history, "damaged", "move it away")


def test_a_snapshot_that_was_stored_is_told_so_whatever_fails_after_it(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> int:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(database, "prune", damaged)
    written = database.add(history, report(), KEPT)
    assert written.not_pruned is not None
    assert written.not_pruned.startswith("damaged")
    assert database.read_report(history, f"@{written.id}") == report()


def test_a_damaged_report_hides_no_other_in_the_list(history: Path) -> None:
    stored(history, report(NOON), report(NOON + 60))
    change(history, "UPDATE reports SET changes = x'00' WHERE id = 1")
    headlines = [listed.headline for listed in database.read_latest(history, 9)]
    assert headlines == [report().verdict.headline, "Its report is damaged."]


def change(history: Path, statement: str) -> None:
    db = sqlite3.connect(history)
    db.execute(statement)
    db.commit()
    db.close()


def test_overwritten_pages_are_one_line(history: Path) -> None:
    stored(history, *(report(NOON + minute) for minute in range(9)))
    size = history.stat().st_size
    with history.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    told(history, "damaged")
    refused(history, "damaged", "move it away")


def test_a_program_that_holds_it_for_long_is_one_line(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.2)
    stored(history, report())
    holder = sqlite3.connect(history, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    refused(history, "another program has held it")
    assert database.read_report(history, "@-1") == report()
    holder.execute("ROLLBACK")
    holder.close()
    assert stored(history, report()) == [2]


def test_many_begin_it_and_write_at_once(history: Path) -> None:
    def write(number: int) -> int:
        for turn in range(5):
            database.add(history, report(NOON + number * 100 + turn), KEPT)
        return number

    tasks = {str(number): lambda number=number: write(number) for number in range(4)}
    outcomes = child.gather(tasks, int, 60)
    assert [outcome.error for outcome in outcomes.values()] == [None] * 4
    assert sorted(database.read_window(history, None).ids) == list(range(1, 21))
    assert ask(history, "PRAGMA integrity_check") == [("ok",)]


def test_pieces_are_the_window_cut_and_know_all_layouts(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = msgspec.structs.replace(report(NOON + 180), measurements=())
    stored(history, *(report(NOON + 60 * number) for number in range(3)), bare)
    monkeypatch.setattr(database, "PIECE_SNAPSHOTS", 2)
    whole = database.read_window(history, NOON)
    pieces = list(database.read_pieces(history, NOON))
    assert [piece.ids for piece in pieces] == [(1, 2), (3, 4)]
    for column in ("times", "statuses", "layouts", "packed"):
        cut = [each for piece in pieces for each in getattr(piece, column)]
        assert tuple(cut) == getattr(whole, column)
    assert len(whole.layout_by_id) == 2
    assert all(piece.layout_by_id == whole.layout_by_id for piece in pieces)
    assert list(database.read_pieces(history, NOON + DAY)) == []
