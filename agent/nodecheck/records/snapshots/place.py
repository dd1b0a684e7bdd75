"""The file that a history lies in: looked at before SQLite may touch it, and made for us alone."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from nodecheck.checks.disk.mounts import LOCAL_TYPES, Mount, parse_mountinfo
from nodecheck.machine import child
from nodecheck.machine.storage import mount_number
from nodecheck.model import Struct

ANSWER_SECONDS = 10.0
TURN_SECONDS = 5.0
"""How long an earlier look may take that is not over; one takes milliseconds."""

APPLICATION_ID = 0x4E4F4443
"""NODC: what tells a history from other SQLite databases. Source: PRAGMA application_id."""

_MAGIC = b"SQLite format 3\0"
_APPLICATION_ID_AT, _TABLES_AT, _HEADER_BYTES = 68, 103, 105
"""Source: SQLite's file format; the last is the count of the schema's entries on the first page."""

OF_OTHERS = "not a history: a database of another program, and was left as it is"
_ELSEWHERE = "name a file on a local disk with NODECHECK_HISTORY"


class Place(Struct, frozen=True, kw_only=True):
    """What was found: `size_bytes` is None where there is no file yet."""

    size_bytes: int | None = None
    is_ours: bool = True


class PlaceError(Exception):
    """No place for a history; the message is one line without the path."""


class _Answer(Struct, frozen=True, kw_only=True):
    place: Place = Place()
    refused: str | None = None


def look(path: Path) -> Place:
    """The file at `path`, if a history can lie there. Raises PlaceError.

    SQLite locks with what network file systems do not keep, and would make files beside a database
    of somebody else's. It is found out in a child: the file system may hang. Our memory of stuck
    children lies beside the history, and is of no use here.
    """
    outcome = child.call(lambda: _answer(path), _Answer, ANSWER_SECONDS)
    if outcome.value is None:
        raise PlaceError(f"{outcome.error}: its file system hangs" if outcome.hung
                         else str(outcome.error))  # fmt: skip
    if outcome.value.refused:
        raise PlaceError(outcome.value.refused)
    return outcome.value.place


def make(path: Path) -> None:
    """An empty file, and the folders that lead to it, for us alone whatever the umask.

    Raises OSError.
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
            folder.chmod(0o700)
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o600)
        finally:
            os.close(fd)


def _answer(path: Path) -> _Answer:
    try:
        with _in_turn(path):
            return _Answer(place=_place(path))
    except PlaceError as error:
        return _Answer(refused=str(error))
    except OSError as error:
        return _Answer(refused=error.strerror or type(error).__name__)


@contextlib.contextmanager
def _in_turn(path: Path) -> Iterator[None]:
    """Hold a name for as long as this child lives: one that hangs for good gets no company.

    A name that another user holds keeps nobody out.
    """
    name = f"\0nodecheck.history.{zlib.crc32(os.fsencode(path)):08x}"
    end = time.monotonic() + TURN_SECONDS
    with socket.socket(socket.AF_UNIX) as held:
        if not _hold(held, name) and _is_ours(name):
            while not _hold(held, name):
                if time.monotonic() >= end:
                    raise PlaceError("an earlier run still hangs on it")
                time.sleep(0.005)
        yield


def _hold(held: socket.socket, name: str) -> bool:
    try:
        held.bind(name)
        held.listen()
    except OSError:
        return False
    return True


def _is_ours(name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        try:
            asking.connect(name)
        except OSError:  # not listening yet, gone since, or asked by many: waiting tells
            return True
        peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return bool(struct.unpack("3i", peer)[1] == os.geteuid())


def _place(path: Path) -> Place:
    for folder in path.parents:
        with contextlib.suppress(FileNotFoundError), _opened(folder, os.O_PATH) as fd:
            _check_mount(fd)
            break
    try:
        with _opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY) as fd:
            return _look_into(fd)
    except FileNotFoundError:
        return Place()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PlaceError("a symbolic link; name the file itself") from error
        raise


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _check_mount(fd: int) -> None:
    """Raise PlaceError on a file system whose locks or shared memory may not hold."""
    try:
        text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:  # without /proc nothing is known against it
        return
    number = mount_number(fd)
    mount = next((m for m in parse_mountinfo(text) if str(m.id) == number), None)
    if mount is not None and _is_distant(mount):
        raise PlaceError(f"it lies on {mount.fstype}, where SQLite is not safe; {_ELSEWHERE}")


def _is_distant(mount: Mount) -> bool:
    return mount.network or (mount.fuse and mount.fstype not in LOCAL_TYPES)


def _look_into(fd: int) -> Place:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise PlaceError("not a regular file")
    _check_mount(fd)
    header = os.read(fd, _HEADER_BYTES)
    if header and not header.startswith(_MAGIC):
        raise PlaceError("not a history: it is no SQLite database, and was left as it is")
    if header and not _is_history(header):
        raise PlaceError(OF_OTHERS)
    return Place(size_bytes=found.st_size, is_ours=found.st_uid == os.geteuid())


def _is_history(header: bytes) -> bool:
    """Ours by its mark, or a database without a table: a history whose making was cut short."""
    mark = int.from_bytes(header[_APPLICATION_ID_AT:][:4], "big")
    tables = int.from_bytes(header[_TABLES_AT:], "big")
    return mark == APPLICATION_ID or mark == tables == 0
