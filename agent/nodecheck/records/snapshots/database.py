"""The history of a node: snapshots of its reports, stored and read. Every failure: HistoryError."""

from __future__ import annotations

import contextlib
import datetime
import functools
import re
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from nodecheck.machine import state as directories
from nodecheck.model import Struct
from nodecheck.policy import Retention
from nodecheck.records.figures import Metric, figures
from nodecheck.records.series import Listed, Spell, Window, pack, packed_bytes
from nodecheck.records.snapshots import packing, place
from nodecheck.records.snapshots.retention import prune
from nodecheck.records.snapshots.sqlite import (
    Connection,
    DatabaseError,
    HistoryError,
    in_words,
    pragma,
    reading,
    told,
    transaction,
    writing,
)
from nodecheck.records.state import State, state
from nodecheck.report import Report, from_json
from nodecheck.units import count

__all__ = [
    "HistoryError",
    "Written",
    "add",
    "check",
    "path",
    "read_latest",
    "read_pieces",
    "read_report",
    "read_reports",
    "read_spells",
    "read_window",
]

T = TypeVar("T")

MISDATED_SECONDS = 86_400
"""A snapshot dated further ahead of the clock, and of the one stored last, was made while the clock
was wrong: windows leave it out. Source: more than any time zone or drift."""


PIECE_SNAPSHOTS = 2000
"""Some hundred bytes each."""

SPELLS = 1000
"""As many are read: a node that changes more often tells no more by it."""

_Time = Annotated[int, msgspec.Meta(ge=-62_135_596_800, le=253_402_300_799)]
"""Seconds since 1970 of the years 1 to 9999, which are those that datetime knows."""

_ROWS = (
    "SELECT id, time, status, state, layout, figures FROM snapshots"
    " WHERE time BETWEEN ? AND ? ORDER BY time, id"
)


class Written(Struct, frozen=True, kw_only=True):
    """What `add` did: the snapshot's id, how many old ones went, how large the history is now.

    `not_pruned` tells why more that is too old or too much could not go.
    """

    id: int
    removed: int
    size_bytes: int
    not_pruned: str | None = None


def path() -> Path:
    """Where this user's history lies; it need not exist."""
    return directories.history()


def check(path: Path) -> None:
    """Raise HistoryError where no history can lie, or the file system hangs."""
    with told(path):
        place.look(path.absolute())


def add(path: Path, report: Report, retention: Retention) -> Written:
    """Store a report, then let go of what is too old or too much. Raises HistoryError."""
    with writing(path) as db:
        with transaction(db):
            added = _insert(db, report)
        removed, not_pruned = 0, None
        try:
            removed = prune(db, retention, int(time.time()))
        except DatabaseError as error:  # it is stored; the next run makes up for it
            not_pruned = in_words(error, path)
        size = pragma(db, "page_count") * pragma(db, "page_size")
        return Written(id=added, removed=removed, size_bytes=size, not_pruned=not_pruned)


def read_window(path: Path, since: int | None) -> Window:
    """All snapshots from `since` (seconds since 1970) on, by their times. Raises HistoryError."""
    with reading(path) as db:
        rows = db.execute(_ROWS, _span(db, since)).fetchall()
        states = {row[3] for row in rows}
        layouts = {row[4] for row in rows}
        return _window(
            rows,
            {each: _shared(db, each, State) for each in states},
            {each: _shared(db, each, tuple[Metric, ...]) for each in layouts},
        )


def read_pieces(path: Path, since: int | None) -> Iterator[Window]:
    """The same piece by piece, without the states; each piece has the layouts of all.

    Raises HistoryError, also while it is iterated over.
    """
    with reading(path) as db:
        span = _span(db, since)
        query = "SELECT DISTINCT layout FROM snapshots WHERE time BETWEEN ? AND ? ORDER BY layout"
        layouts = [each for (each,) in db.execute(query, span)]
        known = {each: _shared(db, each, tuple[Metric, ...]) for each in layouts}
        found = db.execute(_ROWS, span)
        while rows := found.fetchmany(PIECE_SNAPSHOTS):
            yield _window(rows, {}, known)


def _window(
    rows: list[tuple[Any, ...]], states: dict[int, State], layouts: dict[int, tuple[Metric, ...]]
) -> Window:
    if not rows:
        return Window()
    stored = msgspec.convert(rows, list[tuple[int, _Time, str, int, int, bytes]])
    ids, times, statuses, of_states, of_layouts, packed = zip(*stored, strict=True)
    for layout, size in set(zip(of_layouts, map(len, packed), strict=True)):
        if size != packed_bytes(len(layouts[layout])):
            raise packing.PackingError(f"figures of layout {layout} in {size} bytes")
    return Window(
        ids=ids,
        times=times,
        statuses=statuses,
        states=of_states,
        layouts=of_layouts,
        packed=packed,
        state_by_id=states,
        layout_by_id=layouts,
    )


def read_spells(path: Path, since: int) -> tuple[Spell, ...]:
    """The states from `since` (seconds since 1970) on, oldest first. Raises HistoryError."""
    with reading(path) as db:
        query = "SELECT time, state FROM snapshots WHERE time BETWEEN ? AND ? ORDER BY time, id"
        rows = msgspec.convert(
            db.execute(query, _span(db, since)).fetchall(), list[tuple[_Time, int]]
        )
        spells = [(number, [row[0] for row in of]) for number, of in groupby(rows, itemgetter(1))]
        state_of = functools.cache(lambda number: _shared(db, number, State))
        return tuple(
            Spell(first=times[0], last=times[-1], state=state_of(number))
            for number, times in spells[-SPELLS:]
        )


def read_report(path: Path, reference: str) -> Report:
    """The report of "@-1" (stored last), "@17" (by id), "@2026-11-29" or "@2026-11-29T10:00".

    By a date: the newest at the end of that day or minute (UTC). Raises HistoryError.
    """
    with reading(path) as db:
        found = db.execute(*_query(reference)).fetchone()
        if found is None:
            raise HistoryError(f"{path}: there is no {reference}; {_extent(db)}")
        text = msgspec.json.encode(_contents(db)(found[0]))
        return from_json(text, f"{path}: snapshot {found[0]}")


def read_reports(path: Path, since: int | None) -> Iterator[bytes]:
    """The reports from `since` on as JSON, each on one line, by their times.

    Raises HistoryError, also while it is iterated over.
    """
    with reading(path) as db:
        content = _contents(db)
        for (each,) in db.execute(
            "SELECT id FROM snapshots WHERE time BETWEEN ? AND ? ORDER BY time, id",
            _span(db, since),
        ):
            yield msgspec.json.encode(content(each)) + b"\n"


def read_latest(path: Path, number: int) -> tuple[Listed, ...]:
    """The snapshots that were stored last, the last first. Raises HistoryError."""
    with reading(path) as db:
        content = _contents(db)
        rows = db.execute(
            "SELECT id, time, status FROM snapshots ORDER BY id DESC LIMIT ?", (number,)
        ).fetchall()
        return tuple(
            Listed(id=each, time=when, status=status, headline=_headline(content, each))
            for each, when, status in msgspec.convert(rows, list[tuple[int, _Time, str]])
        )


def _headline(content: Callable[[int], Any], snapshot: int) -> str:
    try:
        return str(content(snapshot)["verdict"]["headline"])
    except packing.PackingError:
        return "Its report is damaged."


def _insert(db: Connection, report: Report) -> int:
    """Within a transaction; the new snapshot's id."""
    layout, packed = pack(figures(report))
    row = (
        _seconds(report.time),
        report.verdict.status.value,
        _share(db, state(report)),
        _share(db, layout),
        packed,
    )
    added = db.execute(
        "INSERT INTO snapshots (time, status, state, layout, figures) VALUES (?, ?, ?, ?, ?)", row
    ).lastrowid
    assert added is not None
    base, changes = _changes(db, added, packing.whole(msgspec.json.encode(report)))
    db.execute("INSERT INTO reports VALUES (?, ?, ?)", (added, base, changes))
    return added


def _seconds(iso: str) -> int:
    return int(_in_utc(datetime.datetime.fromisoformat(iso)).timestamp())


def _in_utc(when: datetime.datetime) -> datetime.datetime:
    return when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)


def _share(db: Connection, content: object) -> int:
    """The id of this content, which is stored once. The checksum finds it, the bytes decide."""
    body = zlib.compress(msgspec.json.encode(content), 9)
    key = (zlib.crc32(body), body)
    found = db.execute("SELECT id FROM shared WHERE checksum = ? AND body = ?", key).fetchone()
    if found is None:
        made = db.execute("INSERT INTO shared (checksum, body) VALUES (?, ?)", key)
        found = (made.lastrowid,)
    return int(found[0])


def _shared(db: Connection, number: int, kind: type[T]) -> T:
    query = "SELECT body FROM shared WHERE id = ? AND typeof(body) = 'blob'"
    found = db.execute(query, (number,)).fetchone()
    if found is None:
        raise packing.PackingError(f"what it shares with others, {number}, is missing")
    try:
        return msgspec.json.decode(zlib.decompress(found[0]), type=kind)
    except zlib.error as error:
        raise packing.PackingError(f"what it shares with others, {number}: {error}") from error


BASES = 4
"""How many a report is held against, the newest: full and quick ones differ, and come by turns."""

BASE_SHARE = 0.75
"""Of the size of a base: a report whose changes take more differs in kind, and becomes one. A full
report's take 0.25 beside a full one, 0.35 beside a quick one, 0.7 where 64 pairs of NUMA nodes were
measured."""

BASE_SNAPSHOTS = 1000
"""After as many there is a new one: no more are lost with it. That costs 5 bytes a snapshot."""


def _changes(db: Connection, snapshot: int, report: packing.Whole) -> tuple[int, bytes]:
    """The id of the report's base, and its changes to it."""
    query = "SELECT id, body FROM bases WHERE typeof(body) = 'blob' ORDER BY id DESC LIMIT ?"
    newest = db.execute(query, (BASES,)).fetchall()
    bases: list[tuple[int, int, packing.Whole]] = []
    for number, body in newest:
        with contextlib.suppress(packing.PackingError):  # broken: what is new does without it
            bases.append((number, len(body), packing.unpack_whole(body)))
    if bases and snapshot - bases[0][0] < BASE_SNAPSHOTS:
        nearest, changes = packing.pack(report, [base for _, _, base in bases])
        number, size, _ = bases[nearest]
        if len(changes) <= BASE_SHARE * size:
            return number, changes
    db.execute("INSERT INTO bases VALUES (?, ?)", (snapshot, packing.pack_whole(report)))
    return snapshot, packing.pack(report, [report])[1]


def _contents(db: Connection) -> Callable[[int], Any]:
    """What gives the report of a snapshot, decoded; bases are unpacked once."""

    @functools.lru_cache(maxsize=2 * BASES)
    def base(number: int) -> packing.Whole:
        query = "SELECT body FROM bases WHERE id = ? AND typeof(body) = 'blob'"
        found = db.execute(query, (number,)).fetchone()
        if found is None:
            raise packing.PackingError(f"its base {number} is missing")
        return packing.unpack_whole(found[0])

    def content(snapshot: int) -> Any:
        query = "SELECT base, changes FROM reports WHERE id = ? AND typeof(changes) = 'blob'"
        found = db.execute(query, (snapshot,)).fetchone()
        if found is None:
            raise packing.PackingError(f"@{snapshot}: its report is missing")
        try:
            return packing.unpack(found[1], base(found[0]))
        except packing.PackingError as error:
            raise packing.PackingError(f"@{snapshot}: {error}") from error

    return content


def _span(db: Connection, since: int | None) -> tuple[int, int]:
    """The first and the last time that a window reaches over."""
    ends = "SELECT min(time), (SELECT time FROM snapshots ORDER BY id DESC LIMIT 1) FROM snapshots"
    first, last = msgspec.convert(db.execute(ends).fetchone(), tuple[_Time, _Time])
    return first if since is None else since, max(int(time.time()), last) + MISDATED_SECONDS


_DATE = re.compile(r"@(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d))?")


def _query(reference: str) -> tuple[str, tuple[int]]:
    """What finds the id that a reference means. Raises HistoryError."""
    if found := re.fullmatch(r"@-([1-9]\d{0,8})", reference, re.ASCII):
        return "SELECT id FROM snapshots ORDER BY id DESC LIMIT 1 OFFSET ?", (int(found[1]) - 1,)
    if found := re.fullmatch(r"@(\d{1,18})", reference, re.ASCII):
        return "SELECT id FROM snapshots WHERE id = ?", (int(found[1]),)
    newest = "SELECT id FROM snapshots WHERE time <= ? ORDER BY time DESC, id DESC LIMIT 1"
    with contextlib.suppress(ValueError):  # the 30th of February
        if found := re.fullmatch(_DATE, reference):
            return newest, (_seconds(f"{found[1]}T{found[2] or '23:59'}") + 59,)
    raise HistoryError(
        f"{reference}: no snapshot is meant by that; write @-1 for the one stored last, @17, "
        "@2026-11-29 or @2026-11-29T10:00"
    )


def _extent(db: Connection) -> str:
    """What there is, for who asked for something else."""
    number, first, last, oldest = db.execute(
        "SELECT count(*), min(id), max(id), strftime('%Y-%m-%dT%H:%M', min(time), 'unixepoch')"
        " FROM snapshots"
    ).fetchone()
    ids = " to ".join(dict.fromkeys((f"@{first}", f"@{last}")))
    return f"it holds {count(number, 'snapshot')}, {ids}, the oldest @{oldest}"
