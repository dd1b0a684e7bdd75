"""Where a model's files lie: file system, what of them is in memory, how fast they are read.

May hang where a server does not answer: call it in a child that can be killed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from nodecheck.machine import page_cache
from nodecheck.serving import Storage

MOST_BYTES = 256 << 20
"""Read to measure the rate: enough to get past what a disk's own cache holds of recent reads."""

BLOCK_BYTES = 8 << 20
FIRST_BLOCK_BYTES = 1 << 20
WINDOW_BYTES = 16 << 20
"""Reads follow each other within a window; the windows are spread over the files."""

ALIGNMENT_BYTES = 1 << 20
"""A multiple of every logical block size, as O_DIRECT wants it."""

LOOKED_AT = 256
"""Windows that are looked at for parts that can be read from the disk."""

IN_MEMORY = frozenset(("tmpfs", "ramfs", "devtmpfs", "hugetlbfs"))

OWN_CACHE = frozenset(("zfs",))
"""Answers direct reads from a cache of its own, which no call shows."""

NEVER_CACHING = frozenset(("ext4", "xfs", "nfs", "nfs4"))
"""Direct reads ask the disk whatever lies in memory, and leave no page behind. Others, as btrfs
where it compresses, read on as usual: only what is not in memory is read of them."""


def look(path: Path, files: Sequence[Path], *, seconds: float = 0.5) -> Storage:
    """What can be seen of a model's files; for the rate at most `seconds` and MOST_BYTES are read.

    Where `seconds` is 0 nothing is read. Nothing is brought into the page cache or driven out of
    it. What cannot be seen is None.
    """
    opened = [fd for file in files if (fd := _open(file)) is not None]
    try:
        fstype, mount = _mount(opened[0] if opened else None, files[0] if files else path)
        sizes = [os.fstat(fd) for fd in opened]
        complete = len(opened) == len(files) and bool(files)
        rate, detail = _rate(opened, fstype, seconds)
        return Storage(
            path=str(path),
            fstype=fstype,
            mount=mount,
            size_bytes=sum(s.st_size for s in sizes) if complete else None,
            allocated_bytes=sum(s.st_blocks * 512 for s in sizes) if complete else None,
            cached_bytes=_cached(opened) if complete else None,
            sequential_bytes_per_second=rate,
            detail=detail,
        )
    finally:
        for fd in opened:
            os.close(fd)


def _open(file: Path) -> int | None:
    """A descriptor of a regular file, None where there is none to be had."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _cached(opened: Sequence[int]) -> int | None:
    sizes = [page_cache.cached_bytes(fd, 0, os.fstat(fd).st_size) for fd in opened]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")


def _mount(fd: int | None, path: Path) -> tuple[str | None, str | None]:
    """The type and mount point of the file system that a file lies on.

    By the mount's number, which the kernel tells of a descriptor; else by the longest mount point
    that leads to it. Device numbers do not tell: btrfs gives files others than the mount has.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return None, None
    number = mount_number(fd)
    best: tuple[str, str] | None = None
    for line in lines:
        fields = line.split(" ")
        if "-" not in fields[6:] or len(fields) < 9:
            continue
        fstype = fields[fields.index("-", 6) + 1]
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4])
        if fields[0] == number:
            return fstype, point
        holds = point in ("/", real) or real.startswith(point + "/")
        if holds and (best is None or len(point) >= len(best[1])):
            best = fstype, point
    return best if best is not None else (None, None)


def mount_number(fd: int | None) -> str | None:
    """The kernel's number of the mount that a descriptor lies on."""
    try:
        text = Path(f"/proc/self/fdinfo/{fd}").read_text()
    except OSError:
        return None
    found = re.search(r"^mnt_id:\s*(\d+)$", text, re.MULTILINE)
    return found[1] if found else None


def _rate(
    opened: Sequence[int], fstype: str | None, seconds: float
) -> tuple[float | None, str | None]:
    """Bytes per second of sequential reads past the page cache, or why it is not known."""
    if not opened:
        return None, "the files cannot be opened"
    if fstype in IN_MEMORY:
        return None, f"{fstype} keeps files in memory"
    if fstype in OWN_CACHE:
        return None, f"{fstype} answers direct reads from its own cache"
    if seconds <= 0:
        return None, "not asked for"
    try:
        windows, direct = _windows(opened, fstype), fstype in NEVER_CACHING
        return _read(windows, time.monotonic() + seconds, direct=direct)
    except OSError as error:
        return None, f"it cannot be read past the page cache: {error.strerror}"


Window = tuple[int, int, int]
"""A descriptor, an offset and a length."""


def _windows(opened: Sequence[int], fstype: str | None) -> Iterator[Window]:
    """Parts that can be read from the disk, at equal distances over all files."""
    counts = [-(-os.fstat(fd).st_size // WINDOW_BYTES) for fd in opened]
    total = sum(counts)
    looked_at = min(total, LOOKED_AT)
    for place in range(looked_at):
        number, file = place * total // looked_at, 0
        while number >= counts[file]:
            number, file = number - counts[file], file + 1
        fd, offset = opened[file], number * WINDOW_BYTES
        left = os.fstat(fd).st_size - offset
        length = min(WINDOW_BYTES, left) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        if length <= 0 or not _is_allocated(fd, offset, length):
            continue
        if fstype in NEVER_CACHING or page_cache.cached_bytes(fd, offset, length) == 0:
            yield fd, offset, length


def _is_allocated(fd: int, offset: int, length: int) -> bool:
    """Whether a part has no hole; file systems that know of none say so of every part."""
    try:
        data = os.lseek(fd, offset, os.SEEK_DATA)
        return data == offset and os.lseek(fd, offset, os.SEEK_HOLE) >= offset + length
    except OSError:  # ENXIO: nothing but a hole from here on
        return False


def _read(
    windows: Iterator[Window], deadline: float, *, direct: bool
) -> tuple[float | None, str | None]:
    """The rate of reads past the cache; the first of them tells how long they may be.

    It also tells whether they are `direct`, where that is not known.
    """
    buffer = memoryview(mmap.mmap(-1, BLOCK_BYTES))  # O_DIRECT wants whole pages
    size = FIRST_BLOCK_BYTES
    reads: list[tuple[int, float]] = []
    for fd, at, length in windows:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
        offset, end = at, at + length
        while offset < end and sum(n for n, _ in reads) < MOST_BYTES:
            begin = time.monotonic()
            if reads and begin >= deadline:
                return _per_second(reads), None
            read = os.preadv(fd, [buffer[: min(size, end - offset)]], offset)
            reads.append((read, time.monotonic() - begin))
            if len(reads) == 1 and not direct and page_cache.cached_bytes(fd, offset, read):
                return None, "direct reads go through the page cache there"
            if not read:
                break
            size = _next_size(*reads[-1])
            offset += read
    if not reads:
        return None, "every stretch of it has holes or lies in memory"
    return _per_second(reads), None


def _next_size(read: int, taken: float) -> int:
    """A block that takes a tenth of a second at most, that a slow disk may keep to its time."""
    blocks = int(read / max(taken, 1e-6) * 0.1) // ALIGNMENT_BYTES
    return max(1, min(blocks, BLOCK_BYTES // ALIGNMENT_BYTES)) * ALIGNMENT_BYTES


def _per_second(reads: Sequence[tuple[int, float]]) -> float | None:
    """Without the first, which may wait for a disk to wake."""
    counted = reads[1:] or reads
    taken = sum(seconds for _, seconds in counted)
    return sum(size for size, _ in counted) / taken if taken else None
