"""How much of a file lies in the page cache, asked without touching a page of it."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from collections.abc import Iterator

SYS_CACHESTAT = 451
"""The same on every architecture. Source: Linux 6.5, scripts/syscall.tbl."""

WINDOW_BYTES = 64 << 20
SAMPLED_BYTES = 8 << 30
"""Of a file that mincore(2) is asked about: a byte of answer and some 10 ns for each page."""

_PROT_READ, _MAP_SHARED = 1, 1
_PAGE = mmap.PAGESIZE


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    )  # fmt: skip
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    return libc


def cached_bytes(fd: int, offset: int, length: int) -> int | None:
    """Bytes of a part of a file that are in memory; `offset` is a page's begin.

    None where the kernel does not say: to who neither owns the file nor may write it, or where the
    file system maps no files. Of a large part only samples are asked about before Linux 6.5.
    """
    if length <= 0:
        return 0
    found = _cachestat(fd, offset, length)
    if found is None:
        found = _sampled(fd, offset, length)
    return None if found is None else min(found, length)


def _cachestat(fd: int, offset: int, length: int) -> int | None:
    """cachestat(2)."""
    part = (ctypes.c_uint64 * 2)(offset, length)
    answer = (ctypes.c_uint64 * 5)()
    call = _libc().syscall
    if call(ctypes.c_long(SYS_CACHESTAT), ctypes.c_uint(fd), part, answer, ctypes.c_uint(0)):
        return None
    return int(answer[0]) * _PAGE


def _sampled(fd: int, offset: int, length: int) -> int | None:
    """mincore(2) over all of it, or over windows at equal distances."""
    if not _is_told(fd):
        return None
    asked = resident = 0
    for begin, size in _windows(offset, length):
        pages = _mincore(fd, begin, size)
        if pages is None:
            return None
        asked += -(-size // _PAGE)
        resident += pages
    return resident * -(-length // _PAGE) // asked * _PAGE if asked else None


def _windows(offset: int, length: int) -> Iterator[tuple[int, int]]:
    count = -(-length // WINDOW_BYTES)
    step = max(1, -(-count * WINDOW_BYTES // SAMPLED_BYTES))
    for number in range(0, count, step):
        begin = number * WINDOW_BYTES
        yield offset + begin, min(WINDOW_BYTES, length - begin)


def _is_told(fd: int) -> bool:
    """To others mincore(2) says that every page is there. Source: Linux, mm/mincore.c."""
    if os.geteuid() in (0, os.fstat(fd).st_uid):
        return True
    return os.access(f"/proc/self/fd/{fd}", os.W_OK)


def _mincore(fd: int, offset: int, length: int) -> int | None:
    """Pages in memory of a part that begins with a page."""
    libc = _libc()
    address = libc.mmap(None, length, _PROT_READ, _MAP_SHARED, fd, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        answer = ctypes.create_string_buffer(-(-length // _PAGE))
        if libc.mincore(address, length, answer):
            return None
        return len(answer.raw) - answer.raw.count(0)
    finally:
        libc.munmap(address, length)
