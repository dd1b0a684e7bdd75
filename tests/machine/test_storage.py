"""Where files lie, what of them is in memory, and how fast they are read past it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.machine import child, page_cache, storage
from nodecheck.machine.storage import look
from nodecheck.serving import Storage

MIB = 1 << 20
SHARED_MEMORY = Path("/dev/shm")


def written(path: Path, size: int = 8 * MIB) -> Path:
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())
    return path


def cached(path: Path) -> int | None:
    with path.open("rb") as file:
        return page_cache.cached_bytes(file.fileno(), 0, path.stat().st_size)


def forgotten(path: Path) -> Path:
    """Driven out of the page cache, where its file system does so."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached(path) != 0:
        pytest.skip("this file system keeps pages that are not needed")
    return path


def findmnt(path: Path) -> tuple[str, str] | None:
    """What util-linux says of the same."""
    try:
        done = subprocess.run(
            ["findmnt", "-n", "-o", "FSTYPE,TARGET", "--target", str(path)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    fstype, _, target = done.stdout.strip().partition(" ")
    return fstype, target.strip()


@pytest.mark.parametrize("by", ["number", "path"])
def test_the_file_system_is_that_of_the_mount(tmp_path: Path, by: str) -> None:
    for path in (written(tmp_path / "m", MIB), Path("/proc/cpuinfo"), Path("/dev/null")):
        wanted = findmnt(path)
        if wanted is None:
            pytest.skip("no findmnt to compare with")
        with path.open("rb") as file:
            found = storage._mount(file.fileno() if by == "number" else None, path)
        assert found == wanted


def test_links_lead_to_the_file_system_of_what_they_name(tmp_path: Path) -> None:
    (tmp_path / "m").symlink_to("/proc/cpuinfo")
    assert look(tmp_path / "m", [tmp_path / "m"]).fstype == "proc"
    assert storage._mount(None, tmp_path / "m") == ("proc", "/proc")


def test_files_in_memory_are_not_measured() -> None:
    if not os.access(SHARED_MEMORY, os.W_OK):
        pytest.skip("no shared memory")
    path = written(SHARED_MEMORY / f"nodecheck-test-{os.getpid()}")
    try:
        seen = look(path, [path])
    finally:
        path.unlink()
    assert (seen.fstype, seen.mount) == ("tmpfs", str(SHARED_MEMORY))
    assert seen.cached_bytes == seen.size_bytes == 8 * MIB
    assert seen.sequential_bytes_per_second is None
    assert seen.detail == "tmpfs keeps files in memory"


def test_what_was_just_written_lies_in_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "m")
    seen = look(path, [path])
    assert seen.size_bytes == 8 * MIB
    assert seen.cached_bytes == 8 * MIB
    assert (seen.sequential_bytes_per_second is None) == (seen.detail is not None)


def test_a_hole_is_neither_on_disk_nor_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.touch()
    os.truncate(path, 1 << 40)
    seen = look(path, [path])
    assert (seen.size_bytes, seen.cached_bytes) == (1 << 40, 0)
    assert seen.allocated_bytes is not None
    assert seen.allocated_bytes < MIB
    assert seen.sequential_bytes_per_second is None


def test_reads_past_the_page_cache_and_leaves_nothing_there(tmp_path: Path) -> None:
    paths = [forgotten(written(tmp_path / name, 24 * MIB)) for name in "ab"]
    seen = look(tmp_path, paths)
    assert seen.path == str(tmp_path)
    assert seen.size_bytes == 48 * MIB
    assert seen.cached_bytes == 0
    assert (seen.sequential_bytes_per_second is None) == (seen.detail is not None)
    if seen.sequential_bytes_per_second is None:
        pytest.skip(f"no direct reads here: {seen.detail}")
    assert seen.sequential_bytes_per_second > MIB
    assert [cached(path) for path in paths] == [0, 0]


def test_reads_no_longer_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = forgotten(written(tmp_path / "m", 32 * MIB))
    read: list[int] = []
    preadv = os.preadv

    def counted(fd: int, buffers: list[memoryview], offset: int) -> int:
        read.append(preadv(fd, buffers, offset))
        return read[-1]

    monkeypatch.setattr(os, "preadv", counted)
    seen = look(path, [path], seconds=0)
    assert (seen.detail, read) == ("not asked for", [])
    seen = look(path, [path], seconds=1e-9)
    if seen.sequential_bytes_per_second is None:
        pytest.skip(f"no direct reads here: {seen.detail}")
    assert read == [storage.FIRST_BLOCK_BYTES]


def test_what_is_missing_is_not_known(tmp_path: Path) -> None:
    seen = look(tmp_path, [tmp_path / "gone"])
    assert (seen.size_bytes, seen.cached_bytes, seen.allocated_bytes) == (None, None, None)
    assert seen.detail == "the files cannot be opened"
    assert look(tmp_path, []).size_bytes is None


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m")
    assert look(tmp_path / "m", [tmp_path / "m"]).size_bytes is None


def test_a_part_of_a_file_is_not_all_of_it(tmp_path: Path) -> None:
    path = written(tmp_path / "m")
    assert look(tmp_path, [path, tmp_path / "gone"]).size_bytes is None


def test_crosses_from_a_child(tmp_path: Path) -> None:
    path = written(tmp_path / "m", MIB)
    outcome = child.call(lambda: look(path, [path]), Storage, 5)
    assert outcome.error is None
    assert outcome.value is not None
    assert outcome.value.size_bytes == MIB


@pytest.fixture
def half_cached(tmp_path: Path) -> Iterator[Path]:
    path = forgotten(written(tmp_path / "m", 16 * MIB))
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(8):
            file.read(MIB)
        yield path


def test_cachestat_and_mincore_agree(half_cached: Path) -> None:
    with half_cached.open("rb") as file:
        fd, size = file.fileno(), 16 * MIB
        counted, sampled = page_cache._cachestat(fd, 0, size), page_cache._sampled(fd, 0, size)
        assert sampled is not None
        assert 8 * MIB <= sampled < 16 * MIB
        assert counted in (None, sampled)
        assert page_cache._sampled(fd, 12 * MIB, 4 * MIB) == 0


def test_large_files_are_sampled(half_cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "WINDOW_BYTES", MIB)
    monkeypatch.setattr(page_cache, "SAMPLED_BYTES", 4 * MIB)
    assert len(list(page_cache._windows(0, 16 * MIB))) == 4
    with half_cached.open("rb") as file:
        assert page_cache._sampled(file.fileno(), 0, 16 * MIB) == 8 * MIB


def test_odd_sizes_are_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"x" * 5001)
    assert cached(path) == 5001
    (tmp_path / "empty").touch()
    assert cached(tmp_path / "empty") == 0


def test_asking_takes_no_memory(tmp_path: Path) -> None:
    """A file of 8 TiB has two billion pages."""
    path = tmp_path / "m"
    path.touch()
    try:
        os.truncate(path, 1 << 43)
    except OSError:
        pytest.skip("this file system holds no file as large")
    program = (
        "import sys; from pathlib import Path; from nodecheck.machine.storage import look\n"
        "p = Path(sys.argv[1]); print(look(p, [p]).cached_bytes)\n"
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    known, peak_kib = done.stdout.split()
    assert known == "0"
    assert int(peak_kib) < 60_000
