"""Opening what a path names: regular files alone, and a clear word on what only looks like a model.

The messages name no path but where a file is found in a folder: who was given the path adds it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import final

from nodecheck.workload.errors import NotEnoughMetadata, WorkloadError, shown

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a block device",
}

SECTOR_BYTES = 512
"""Unit of st_blocks. Source: stat(2)."""


@final
class RegularFile:
    """An open regular file: `device` is "major:minor" of the file system, `inode` its number there.

    `size` and `allocated_bytes` are those at the time it was opened; fewer bytes are allocated than
    its size where it has holes. Every failure to read is a WorkloadError.
    """

    def __init__(self, path: Path, fd: int) -> None:
        """Take over the descriptor; WorkloadError where it is no regular file."""
        self.path = path
        self.name = path.name
        self._fd = fd
        status = os.fstat(fd)
        _refuse_irregular(status)
        self.size = status.st_size
        self.allocated_bytes = status.st_blocks * SECTOR_BYTES
        self.device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        self.inode = status.st_ino

    def __enter__(self) -> RegularFile:
        """The file itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let go of the descriptor; a second time does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def read_at(self, offset: int, length: int) -> bytes:
        """As many bytes as there are, `length` at most: fewer at the end of the file.

        Never more is asked for than the file held when it was opened.
        """
        end = min(offset + length, self.size)
        blocks = []
        try:
            while offset < end and (block := os.pread(self._fd, end - offset, offset)):
                blocks.append(block)
                offset += len(block)
        except OSError as error:
            raise WorkloadError(f"cannot be read at byte {offset}: {_reason(error)}") from error
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def open_regular(path: Path) -> RegularFile:
    """The file at `path`, links followed. Never waits for the other end of a FIFO or a device.

    WorkloadError where there is none, it may not be read, or it is something else than a file.
    """
    fd = -1
    try:
        _refuse_irregular(path.stat())
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        return RegularFile(path, fd)
    except (OSError, ValueError) as error:
        if fd >= 0:
            os.close(fd)
        if isinstance(error, WorkloadError):
            raise
        raise WorkloadError(_reason(error)) from error


def _refuse_irregular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise WorkloadError(f"{kind}, not a regular file")


def _reason(error: OSError | ValueError) -> str:
    """What went wrong; ValueError is a path with a NUL in it."""
    if not isinstance(error, OSError):
        return f"no path: {shown(error)}"
    if error.errno == errno.ELOOP:
        return "a symbolic link that leads to itself"
    return error.strerror or os.strerror(error.errno or errno.EIO)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Name the file, one of several, in the WorkloadErrors that come of it.

    Not where metadata is missing: that is said of the model.
    """
    try:
        yield
    except NotEnoughMetadata:
        raise
    except WorkloadError as error:
        raise WorkloadError(f"{shown(name)}: {error}") from error


GGUF_MAGIC = b"GGUF"
HEAD_BYTES = 64
"""What is looked at to tell one kind of file from another."""

UNFINISHED = (".part", ".partial", ".incomplete", ".crdownload", ".aria2", ".download", ".tmp")
"""Endings that downloaders give to a file until it is whole."""

_PIECE = re.compile(r"\.gguf[.-](part|split)[-_]?[0-9a-z]+(of[0-9]+)?$")
_WEB_PAGE = re.compile(rb"\s*<(!doctype|html|head|\?xml|!--)", re.IGNORECASE)
_LFS_POINTER = b"version https://git-lfs"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


def refuse_other_kinds(head: bytes, name: str) -> None:
    """WorkloadError for what is often found in the place of a model, by its first HEAD_BYTES.

    What is neither this nor known is let through.
    """
    lower = name.lower()
    if head.startswith(_LFS_POINTER):
        raise WorkloadError("a Git LFS pointer, not the file itself: run git lfs pull")
    if _WEB_PAGE.match(head):
        raise WorkloadError("a web page (HTML), not a model: download the file again")
    is_header = head[8:9] == b"{"  # of safetensors, whose length may look like a pickle's opcodes
    if head.startswith(_ZIP) or (_PICKLE.match(head) and not is_header):
        raise WorkloadError("a PyTorch pickle, which is not read: convert it to safetensors")
    if _PIECE.search(lower):
        raise WorkloadError("a piece of a file that was cut: join the pieces with cat")
    if lower.endswith(UNFINISHED):
        ending = lower[lower.rindex(".") :]
        raise WorkloadError(f"not whole yet by its name ({ending}): wait for the download")
