"""The history's file as SQLite opens it, to be read or written. The only importer of sqlite3.

Whatever goes wrong is a HistoryError.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from nodecheck.records.snapshots import place
from nodecheck.records.snapshots.packing import PackingError
from nodecheck.records.snapshots.place import PlaceError
from nodecheck.report import ReportError

Connection = sqlite3.Connection
DatabaseError = sqlite3.DatabaseError
"""What SQLite fails with: the database is held or damaged, the disk is full."""

BUSY_SECONDS = 10.0
"""How long others may write before we give up; a write takes milliseconds."""


class HistoryError(Exception):
    """A history that cannot be read or written; the message is one line."""


SCHEMAS = (
    """
    CREATE TABLE snapshots (
      id INTEGER PRIMARY KEY, time INTEGER NOT NULL, status TEXT NOT NULL,
      state INTEGER NOT NULL, layout INTEGER NOT NULL, figures BLOB NOT NULL);
    CREATE INDEX snapshots_time ON snapshots (time);
    CREATE INDEX snapshots_state ON snapshots (state);
    CREATE INDEX snapshots_layout ON snapshots (layout);
    CREATE TABLE shared (id INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE INDEX shared_checksum ON shared (checksum);
    CREATE TABLE reports (id INTEGER PRIMARY KEY, base INTEGER NOT NULL, changes BLOB NOT NULL);
    CREATE INDEX reports_base ON reports (base);
    CREATE TABLE bases (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
    """,
)
"""What makes each version of the database of the one before; they are numbered from 1.

Ids of snapshots are in the order in which they were stored. What changes, drifts and forecasts are
found from is kept thin; states and layouts of figures lie once in `shared` (JSON, compressed), and
a report as changes to a base, which has the id of the snapshot that it was made of.
"""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Whatever fails is a HistoryError that names the file."""
    try:
        yield
    except ReportError as error:  # it names the file itself
        raise HistoryError(str(error)) from error
    except (sqlite3.Error, OSError, PlaceError, PackingError, msgspec.MsgspecError) as error:
        raise HistoryError(f"{path}: {in_words(error, path)}") from error


_NONE_YET = "no history yet; nodecheck snapshot begins one"
_FULL = "no space is left on its file system"
_DAMAGED = "damaged; move it away, and the next snapshot begins a new one"
_WORDS = {
    "disk is full": _FULL,
    "readonly": "it or its folder is read-only",
    "unable to open": "it or its folder cannot be opened for writing",
    "disk I/O": "its file system fails: it is over a quota, or broken",
    "locked": f"another program has held it for {BUSY_SECONDS:g} s",
    "malformed": _DAMAGED,
    "not a database": _DAMAGED,
    "unsupported file format": _DAMAGED,
    "constraint failed": _DAMAGED,
}
"""What SQLite says, and what that means to who runs us."""


def in_words(error: Exception, path: Path) -> str:
    said = str(error)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, sqlite3.Error):
        if ("disk I/O" in said or "unable to open" in said) and _is_full(path):
            return _FULL
        return next((words for part, words in _WORDS.items() if part in said), said)
    return said if isinstance(error, PlaceError) else f"a snapshot in it is damaged: {said}"


def _is_full(path: Path) -> bool:
    found = os.statvfs(path.parent)
    return not found.f_bavail or bool(found.f_files and not found.f_favail)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Connection]:
    """As it is now, whatever is written meanwhile. Raises HistoryError."""
    with told(path):
        path = path.absolute()
        if not place.look(path).size_bytes:
            raise HistoryError(f"{path}: {_NONE_YET}")
        with contextlib.closing(_open_to_read(path)) as db:
            version = _version(db, path)
            if version < len(SCHEMAS):
                older = "of an older nodecheck; nodecheck snapshot renews it"
                raise HistoryError(f"{path}: {older if version else _NONE_YET}")
            db.execute("BEGIN")
            if db.execute("SELECT 1 FROM snapshots LIMIT 1").fetchone() is None:
                raise HistoryError(f"{path}: {_NONE_YET}")
            yield db


def _open_to_read(path: Path) -> Connection:
    """Where no file can be made beside it, SQLite cannot share it: then it is taken as it lies."""
    db = _connect(path, "mode=ro")
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        db.close()
        if "locked" in str(error):
            raise
        return _open_unshared(path)
    return db


def _open_unshared(path: Path) -> Connection:
    """Alone, where some of it lies in the log still; else it needs no lock, as nobody can write."""
    log = path.with_name(f"{path.name}-wal")
    if not (log.exists() and log.stat().st_size):
        return _connect(path, "mode=ro&immutable=1")
    db = _connect(path, "mode=rw")
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    return db


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Connection]:
    """Made where it is not there, and of this version. Raises HistoryError."""
    with told(path):
        path = path.absolute()
        found = place.look(path)
        if found.size_bytes is None:
            place.make(path)
        elif not found.is_ours:
            raise HistoryError(f"{path}: it belongs to another user")
        with contextlib.closing(_connect(path, "mode=rw")) as db:
            db.execute("PRAGMA synchronous = FULL")  # what was told to be stored outlives a crash
            version = _version(db, path)
            if version == 0:  # SQLite takes it before the first table alone
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            if version < len(SCHEMAS):
                _migrate(db, path)
            _use_wal(db, path)
            yield db


@contextlib.contextmanager
def transaction(db: Connection) -> Iterator[None]:
    """All of it or nothing, alone: the others wait, as we do for them."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        yield


def pragma(db: Connection, name: str) -> int:
    """One of SQLite's numbers: page_count, page_size, freelist_count."""
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _connect(path: Path, query: str) -> Connection:
    address = f"{path.as_uri()}?{query}"
    return sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _version(db: Connection, path: Path) -> int:
    version = pragma(db, "user_version")
    if version > len(SCHEMAS):
        raise HistoryError(
            f"{path}: written by a newer nodecheck, of version {version} where this one knows "
            f"{len(SCHEMAS)}; use that one, or name another file with NODECHECK_HISTORY"
        )
    return version


def _migrate(db: Connection, path: Path) -> None:
    """All at once: a database is of one version or of another, whenever we are killed."""
    with transaction(db):
        version = _version(db, path)
        if not version and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise PlaceError(place.OF_OTHERS)
        db.execute(f"PRAGMA application_id = {place.APPLICATION_ID}")
        for schema in SCHEMAS[version:]:
            for statement in schema.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(SCHEMAS)}")


def _use_wal(db: Connection, path: Path) -> None:
    """Then readers and the writer do not wait for each other. SQLite does not wait to change it."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= end:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise HistoryError(f"{path}: its file system has no shared memory for SQLite")
        return
