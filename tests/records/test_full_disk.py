"""A file system that is full, or read-only: one line, and what was stored can be read."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.model import pretty_json
from nodecheck.records.snapshots import database
from tests.cli.test_commands import failed, run
from tests.records.histories import NOON, report

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("mkfs.ext4"), reason="needs root and mkfs.ext4"
    ),
]

BLOCK_BYTES = 4096
INODES = 32


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An ext4 of 8 MB on a loop device, with nothing reserved."""
    image, point = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(8 << 20)
    make = ["mkfs.ext4", "-q", "-m", "0", "-b", str(BLOCK_BYTES), "-N", str(INODES), str(image)]
    subprocess.run(make, check=True)
    point.mkdir()
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(point)], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no loop device to be had: {mounted.stderr.strip()}")
    monkeypatch.setenv("NODECHECK_HISTORY", str(point / "state" / "history.db"))
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    (tmp_path / "report.json").write_bytes(pretty_json(report(NOON)))
    return str(tmp_path / "report.json")


def history() -> Path:
    return database.path()


def store(saved: str, number: int) -> None:
    for _ in range(number):
        assert run("snapshot", "--from", saved).returncode == 0


def fill(disk: Path) -> Path:
    """Take what is left, to the last byte."""
    filler = disk / "filler"
    for size in (1 << 16, BLOCK_BYTES, 1):
        with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"\0" * size):
                pass
    os.sync()
    return filler


def readable(*ids: int) -> None:
    """Each of them by the real command, and SQLite finds nothing wrong."""
    assert database.read_window(history(), None).ids == ids
    for each in ids:
        done = run("--from", f"@{each}", "--json")
        assert (done.returncode, done.stderr) == (0, "")
    address = f"file://{history()}?mode=ro&immutable=1"
    db = sqlite3.connect(address, uri=True)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_it_fails_in_one_line_and_goes_on_when_there_is_room(disk: Path, saved: str) -> None:
    store(saved, 3)
    filler = fill(disk)
    for _ in range(3):
        failed(run("snapshot", "--from", saved), str(history()), "no space is left")
        readable(1, 2, 3)
    filler.unlink()
    store(saved, 1)
    readable(1, 2, 3, 4)


def test_at_whatever_write_the_room_ends_nothing_is_lost(disk: Path, saved: str) -> None:
    """The room grows block by block, until a snapshot fits."""
    store(saved, 3)
    filler = fill(disk)
    size, refused = filler.stat().st_size, 0
    for blocks in range(40):
        os.truncate(filler, size - blocks * BLOCK_BYTES)
        done = run("snapshot", "--from", saved)
        if done.returncode == 0:
            break
        refused += 1
        failed(done, "no space is left")
        readable(1, 2, 3)
    assert refused > 3
    readable(1, 2, 3, 4)


def test_without_a_history_yet_a_full_disk_is_one_line(disk: Path, saved: str) -> None:
    filler = fill(disk)
    failed(run("snapshot", "--from", saved), "No space left on device")
    os.truncate(filler, filler.stat().st_size - 2 * BLOCK_BYTES)
    failed(run("snapshot", "--from", saved), "no space is left")
    filler.unlink()
    store(saved, 1)
    readable(1)


def test_without_a_free_inode_it_is_one_line(disk: Path, saved: str) -> None:
    store(saved, 2)
    with contextlib.suppress(OSError):
        for number in range(INODES):
            (disk / str(number)).touch()
    failed(run("snapshot", "--from", saved), "no space is left")
    readable(1, 2)


@pytest.mark.parametrize("shared", [True, False])
def test_what_a_killed_writer_left_in_the_log_is_read(shared: bool, disk: Path, saved: str) -> None:
    store(saved, 1)
    script = (
        "import os, signal, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('INSERT INTO reports SELECT 2, base, changes FROM reports')\n"
        "db.execute('INSERT INTO snapshots SELECT 2, time, status, state, layout, figures"
        " FROM snapshots')\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(["python3", "-c", script, str(history())], check=False)
    assert done.returncode == -signal.SIGKILL
    if not shared:  # as a power cut may leave it
        Path(f"{history()}-shm").write_bytes(b"")
    fill(disk)
    assert database.read_window(history(), None).ids == (1, 2)
    readable(1, 2)


def test_read_only_it_can_be_read(disk: Path, saved: str) -> None:
    store(saved, 2)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    readable(1, 2)
    done = run("snapshot", "--from", saved)
    failed(done, str(history()), "no snapshot was stored")
    assert "read-only" in done.stderr or "cannot be opened for writing" in done.stderr
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    store(saved, 1)
    readable(1, 2, 3)
