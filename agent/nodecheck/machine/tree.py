"""Where files come from: a directory (the live machine is `/`) or a packed capture."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from pathlib import Path
from typing import Protocol

from nodecheck.model import Reason

FILE_LIMIT_BYTES = 8 << 20
"""Longest file that is read; /proc/cpuinfo of 2,048 CPUs is about 4 MB."""

ARCHIVE_LIMIT_BYTES = 256 << 20
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

    def read(self, path: str) -> bytes:
        """The content of a regular file, at most FILE_LIMIT_BYTES. Raises UnreadableError."""

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
        except OSError:
            return None

    def read(self, path: str) -> bytes:
        try:
            # O_NONBLOCK: opening a FIFO must not wait for a writer
            fd = os.open(self._root + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UnreadableError.from_os(error, path) from error
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise UnreadableError(Reason.FAILED, f"{path}: not a regular file")
            return _read_all(fd, path)
        except OSError as error:
            raise UnreadableError.from_os(error, path) from error
        finally:
            os.close(fd)

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self._root + path)))
        except OSError as error:
            raise UnreadableError.from_os(error, path) from error

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(self._root + path)

    def is_file(self, path: str) -> bool:
        return os.path.isfile(self._root + path)


def _read_all(fd: int, path: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    while block := os.read(fd, 1 << 16):
        parts.append(block)
        size += len(block)
        if size > FILE_LIMIT_BYTES:
            raise UnreadableError(Reason.FAILED, f"{path}: longer than {FILE_LIMIT_BYTES} bytes")
    return b"".join(parts)


class ArchiveTree:
    """A packed capture (`root.tar.gz`), held in memory and never unpacked to disk."""

    def __init__(self, archive: Path) -> None:
        self._files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._children: dict[str, set[str]] = {"/": set()}
        try:
            with tarfile.open(archive) as packed:
                self._load(packed)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise UnreadableError(
                Reason.FAILED, f"{archive}: not a tar archive: {error}"
            ) from error

    def _load(self, packed: tarfile.TarFile) -> None:
        total = 0
        for member in packed:
            path = os.path.normpath("/" + member.name)
            self._add_parents(path)
            if member.isdir():
                self._children.setdefault(path, set())
            elif member.issym():
                self._links[path] = member.linkname
            elif member.isreg():
                total += member.size
                if member.size > FILE_LIMIT_BYTES or total > ARCHIVE_LIMIT_BYTES:
                    raise UnreadableError(
                        Reason.FAILED, f"{packed.name}: {member.name} is too large"
                    )
                content = packed.extractfile(member)
                self._files[path] = content.read() if content else b""

    def _add_parents(self, path: str) -> None:
        while path != "/":
            parent = os.path.dirname(path)
            self._children.setdefault(parent, set()).add(os.path.basename(path))
            path = parent

    def link(self, path: str) -> str | None:
        return self._links.get(path)

    def read(self, path: str) -> bytes:
        try:
            return self._files[path]
        except KeyError:
            raise UnreadableError(Reason.ABSENT, f"{path}: not in the capture") from None

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(self._children[path]))
        except KeyError:
            raise UnreadableError(Reason.ABSENT, f"{path}: not in the capture") from None

    def is_dir(self, path: str) -> bool:
        return path in self._children

    def is_file(self, path: str) -> bool:
        return path in self._files


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

    def read(self, path: str) -> bytes:
        return self._holder(path).read(path)

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
