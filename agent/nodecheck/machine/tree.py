"""Where files come from: a directory (the live machine is `/`), or several places as one."""

# Paths here are those of a node, which need not be this one.
# ruff: noqa: PTH115, PTH116, PTH118, PTH120, PTH208

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from nodecheck.model import Reason

FILE_LIMIT_BYTES = 8 << 20
"""Longest file that is read; /proc/cpuinfo of 2,048 CPUs is about 4 MB."""

LINK_LIMIT = 40

_REASONS = {
    errno.ENOENT: Reason.ABSENT,
    errno.ENOTDIR: Reason.ABSENT,
    errno.EACCES: Reason.DENIED,
    errno.EPERM: Reason.DENIED,
    errno.EOPNOTSUPP: Reason.UNSUPPORTED,
    errno.EINVAL: Reason.UNSUPPORTED,
    errno.ENODEV: Reason.UNSUPPORTED,
}


class UnreadableError(Exception):
    """A file, directory or command could not be read; `reason` says in which way."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail

    @classmethod
    def from_os(cls, error: OSError, path: str) -> UnreadableError:
        """The failure of a system call on `path`."""
        reason = _REASONS.get(error.errno or 0, Reason.FAILED)
        return cls(reason, f"{path}: {error.strerror or error}")


class Tree(Protocol):
    """Paths are absolute and start with `/`. Links are not followed."""

    def link(self, path: str) -> str | None:
        """Where a symbolic link points, None for anything else."""

    def read(self, path: str, *, tail: bool = False) -> bytes:
        """The content of a regular file. Raises UnreadableError.

        One longer than FILE_LIMIT_BYTES is refused, or with `tail` only its end is taken.
        """

    def names(self, path: str) -> tuple[str, ...]:
        """The sorted names in a directory. Raises UnreadableError."""

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a directory."""

    def is_file(self, path: str) -> bool:
        """Whether `path` is a regular file."""


class DirectoryTree:
    """A directory as the root of a node."""

    def __init__(self, root: Path) -> None:
        self._root = "" if root == Path("/") else str(root)

    def link(self, path: str) -> str | None:
        try:
            return os.readlink(self._root + path)
        except (OSError, ValueError):  # ValueError: a NUL in the path
            return None

    def read(self, path: str, *, tail: bool = False) -> bytes:
        place = self._root + path
        try:
            # looked at before it is opened: opening a device or a FIFO has effects
            if not stat.S_ISREG(os.stat(place).st_mode):
                raise UnreadableError(Reason.FAILED, f"{path}: not a regular file")
            fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UnreadableError.from_os(error, path) from error
        except ValueError as error:
            raise UnreadableError(Reason.ABSENT, f"{path!r}: {error}") from error
        try:
            return _read_all(fd, path, tail=tail)
        except OSError as error:
            raise UnreadableError.from_os(error, path) from error
        finally:
            os.close(fd)

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self._root + path)))
        except OSError as error:
            raise UnreadableError.from_os(error, path) from error
        except ValueError as error:
            raise UnreadableError(Reason.ABSENT, f"{path!r}: {error}") from error

    def is_dir(self, path: str) -> bool:
        return _has_kind(self._root + path, stat.S_ISDIR)

    def is_file(self, path: str) -> bool:
        return _has_kind(self._root + path, stat.S_ISREG)


def _has_kind(place: str, is_kind: Callable[[int], bool]) -> bool:
    try:
        return is_kind(os.stat(place).st_mode)
    except (OSError, ValueError):
        return False


def _read_all(fd: int, path: str, *, tail: bool) -> bytes:
    if tail:
        os.lseek(fd, max(0, os.fstat(fd).st_size - FILE_LIMIT_BYTES), os.SEEK_SET)
    parts: list[bytes] = []
    size = 0
    while block := os.read(fd, 1 << 16):
        parts.append(block)
        size += len(block)
        if size > FILE_LIMIT_BYTES:
            raise UnreadableError(Reason.FAILED, f"{path}: longer than {FILE_LIMIT_BYTES} bytes")
    return b"".join(parts)


class LayeredTree:
    """A capture of which some files lie loose and the rest is packed: the loose ones win."""

    def __init__(self, layers: tuple[Tree, ...]) -> None:
        self._layers = layers

    def _holder(self, path: str) -> Tree:
        for layer in self._layers:
            if layer.is_file(path) or layer.is_dir(path) or layer.link(path) is not None:
                return layer
        return self._layers[0]

    def link(self, path: str) -> str | None:
        return self._holder(path).link(path)

    def read(self, path: str, *, tail: bool = False) -> bytes:
        return self._holder(path).read(path, tail=tail)

    def names(self, path: str) -> tuple[str, ...]:
        holders = [layer for layer in self._layers if layer.is_dir(path)] or [self._layers[0]]
        return tuple(sorted({name for layer in holders for name in layer.names(path)}))

    def is_dir(self, path: str) -> bool:
        return any(layer.is_dir(path) for layer in self._layers)

    def is_file(self, path: str) -> bool:
        return self._holder(path).is_file(path)


def resolve(tree: Tree, path: str) -> str:
    """`path` with every link followed, never leaving the tree. Raises UnreadableError on a loop.

    A regular file that stands where a directory should and holds a relative path is a link whose
    kind was lost on the way here (some archivers and file systems keep links as text).
    """
    done = "/"
    todo = [part for part in reversed(path.split("/")) if part]
    follows = 0
    while todo:
        part = todo.pop()
        if part in (".", ".."):
            done = os.path.dirname(done) if part == ".." else done
            continue
        here = os.path.join(done, part)
        target = tree.link(here) or (_textual_link(tree, here) if _may_be_link(here) else None)
        if target is None:
            done = here
            continue
        follows += 1
        if follows > LINK_LIMIT:
            raise UnreadableError(Reason.FAILED, f"{path}: links go round in a circle")
        done = "/" if target.startswith("/") else done
        todo.extend(piece for piece in reversed(target.split("/")) if piece)
    return done


def _may_be_link(path: str) -> bool:
    return os.path.dirname(path) == "/sys/bus/pci/devices"


def _textual_link(tree: Tree, path: str) -> str | None:
    if not tree.is_file(path):
        return None
    text = tree.read(path).decode(errors="replace").strip()
    return text if text.startswith("../") and "\n" not in text else None
