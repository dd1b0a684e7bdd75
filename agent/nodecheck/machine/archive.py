"""A packed capture, held in memory and never unpacked to disk."""

# Paths here are those of a node, which need not be this one.
# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from pathlib import Path
from typing import IO

from nodecheck.machine.tree import FILE_LIMIT_BYTES, UnreadableError
from nodecheck.model import Reason

ARCHIVE_LIMIT_BYTES = 256 << 20
"""Longest archive that is unpacked, headers included."""

ARCHIVE_LIMIT_MEMBERS = 1 << 18

_COMPRESSIONS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ", lzma.open))
_BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError, ValueError, IndexError)
"""What reading a damaged archive may raise."""

_Stream = IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile


class ArchiveTree:
    """A packed capture (`root.tar.gz`), held in memory and never unpacked to disk."""

    def __init__(self, archive: Path) -> None:
        self._files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._children: dict[str, set[str]] = {"/": set()}
        try:
            # a stream is read in order and in blocks, so that the limit holds for headers too
            with (
                _unpacked(archive) as stream,
                tarfile.open(fileobj=_Limited(stream), mode="r|") as packed,
            ):
                self._load(packed)
        except _BROKEN as error:
            detail = f"{archive}: not a usable tar archive: {error}"
            raise UnreadableError(Reason.FAILED, detail) from error

    def _load(self, packed: tarfile.TarFile) -> None:
        for number, member in enumerate(packed):
            if member.size > FILE_LIMIT_BYTES or number >= ARCHIVE_LIMIT_MEMBERS:
                raise tarfile.ReadError(f"{member.name}: too large, or one of too many")
            path = _inside(member.name)
            self._add_parents(path)
            if member.isdir():
                self._children.setdefault(path, set())
            elif member.issym():
                self._links[path] = member.linkname
            elif member.islnk():
                self._files[path] = self._files.get(_inside(member.linkname), b"")
            elif member.isreg() and (content := packed.extractfile(member)) is not None:
                self._files[path] = content.read()
            packed.members = []  # type: ignore[attr-defined] # it would keep every header

    def _add_parents(self, path: str) -> None:
        while path != "/":
            parent = os.path.dirname(path)
            self._children.setdefault(parent, set()).add(os.path.basename(path))
            path = parent

    def link(self, path: str) -> str | None:
        return self._links.get(path)

    def read(self, path: str, *, tail: bool = False) -> bytes:  # noqa: ARG002 - all are short
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


def _inside(name: str) -> str:
    """The path of a member, which never leads out: `..` stops at the root."""
    return os.path.normpath("/" + name.lstrip("/"))


def _unpacked(archive: Path) -> _Stream:
    with archive.open("rb") as file:
        start = file.read(8)
    for magic, opener in _COMPRESSIONS:
        if start.startswith(magic):
            return opener(archive, "rb")
    return archive.open("rb")


class _Limited(io.RawIOBase):
    """A stream that ends in an error where an archive unpacks to too much."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._left = ARCHIVE_LIMIT_BYTES

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise tarfile.ReadError(f"it unpacks to over {ARCHIVE_LIMIT_BYTES} bytes")
        return block
