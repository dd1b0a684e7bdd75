"""What a process has mapped and open, from /proc: files, device files, where its memory lies."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Struct

_MAPPING = re.compile(
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) [r-][w-](.)[sp] [0-9a-f]{1,16} "
    rb"([0-9a-f]{1,8}):([0-9a-f]{1,8}) (\d{1,20}) +(/.*)$",
    re.MULTILINE,
)
_DELETED = b" (deleted)"
_PLACED = re.compile(r" N(\d{1,4})=(\d{1,15})\b")
_PAGE = re.compile(r" kernelpagesize_kB=(\d{1,9})\b")
_CARD = re.compile(r"/dev/(?:nvidia\d{1,3}|kfd|dri/renderD\d{1,3}|accel/accel\d{1,3})")
"""NVIDIA's others (nvidiactl, nvidia-uvm) are opened by who only asks for cards, too."""

_LOCKED = re.compile(r"^Max locked memory +(\d{1,19}|unlimited) ", re.MULTILINE)


class Mapped(Struct, frozen=True, kw_only=True):
    """A file that a process maps.

    `path` is as maps has it, `place` where we open it. `mapped_bytes` are those of all its
    mappings together; one of them can be executed where `is_code`. `device` is major and minor.
    """

    path: str
    place: str
    device: tuple[int, int]
    inode: int
    mapped_bytes: int
    is_code: bool
    is_deleted: bool

    @property
    def key(self) -> tuple[int, int, int]:
        """The same for the same file, whatever it is called and whoever maps it."""
        return (*self.device, self.inode)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def mapped(reader: Reader, pid: int) -> tuple[Mapped, ...]:
    """Files that a process maps, each once. Raises UnreadableError."""
    found: dict[tuple[int, int, int], Mapped] = {}
    root = _root(reader, pid)
    for line in _MAPPING.finditer(reader.host.read_bytes(f"/proc/{pid}/maps")):
        each = _mapped(pid, root, line)
        before = found.get(each.key)
        if before is None:
            found[each.key] = each
        else:
            found[each.key] = Mapped(
                path=before.path,
                place=before.place,
                device=before.device,
                inode=before.inode,
                mapped_bytes=before.mapped_bytes + each.mapped_bytes,
                is_code=before.is_code or each.is_code,
                is_deleted=before.is_deleted,
            )
    return tuple(found.values())


def _root(reader: Reader, pid: int) -> bytes:
    """Where a chroot lies, seen from our root as mapped files are; b"" where there is none."""
    link = _link(reader, f"/proc/{pid}/root")
    is_known = link is not None and link != f"/proc/{pid}/root"  # a capture may lack it
    return os.fsencode(link or "").rstrip(b"/") if is_known else b""


def _mapped(pid: int, root: bytes, line: re.Match[bytes]) -> Mapped:
    start, end = int(line[1], 16), int(line[2], 16)
    written = line[7].replace(rb"\012", b"\n")  # the one character that the kernel rewrites
    path = written.removesuffix(_DELETED)
    is_deleted = path != written
    place = f"/proc/{pid}/map_files/{start:x}-{end:x}"
    if path.startswith(root + b"/") and not is_deleted:
        place = f"/proc/{pid}/root{os.fsdecode(path[len(root) :])}"
    return Mapped(
        path=shown(path),
        place=place,
        device=(int(line[4], 16), int(line[5], 16)),
        inode=int(line[6]),
        mapped_bytes=max(0, end - start),
        is_code=line[3] == b"x",
        is_deleted=is_deleted,
    )


def shown(text: bytes) -> str:
    """As it can be printed and written as JSON: what is no text becomes U+FFFD."""
    decoded = text.decode(errors="replace")
    return "".join(c if c.isprintable() else "\ufffd" for c in decoded)


@contextmanager
def opened(file: Mapped) -> Iterator[int]:
    """A descriptor of the file itself. Never waits for a FIFO or device. Raises OSError.

    A file that came to lie in its place since is not it: ENOENT.
    """
    if not stat.S_ISREG(os.stat(file.place).st_mode):  # noqa: PTH116 - may not be UTF-8
        raise OSError(errno.EINVAL, "not a regular file")
    fd = os.open(file.place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        device = (os.major(status.st_dev), os.minor(status.st_dev))
        # btrfs and overlayfs show one device in maps and another in stat: those prove nothing
        if device == file.device and status.st_ino != file.inode:
            raise OSError(errno.ENOENT, "replaced since it was mapped")
        yield fd
    finally:
        os.close(fd)


def gpu_files(reader: Reader, pid: int) -> tuple[str, ...]:
    """Device files of accelerators that a process has open. Raises UnreadableError."""
    links = (
        _link(reader, f"/proc/{pid}/fd/{name}") for name in reader.host.names(f"/proc/{pid}/fd")
    )
    return tuple(sorted({link for link in links if link and _CARD.fullmatch(link)}))


def _link(reader: Reader, path: str) -> str | None:
    try:
        if reader.host.live:
            return os.readlink(path)  # noqa: PTH115 - where it leads is not to be looked at
        return reader.host.real_path(path)
    except (OSError, UnreadableError):  # closed since
        return None


def numa_bytes(reader: Reader, pid: int) -> dict[int, int]:
    """Where a process's memory lies, by NUMA node. Raises UnreadableError."""
    placed: dict[int, int] = {}
    for line in reader.host.read(f"/proc/{pid}/numa_maps").splitlines():
        if (page := _PAGE.search(line)) is None:
            continue
        for node, pages in _PLACED.findall(line):
            placed[int(node)] = placed.get(int(node), 0) + (int(pages) * int(page[1]) << 10)
    return placed


def locked_limit_bytes(reader: Reader, pid: int) -> int | None:
    """What a process may lock into memory, None where it may lock all. Raises UnreadableError."""
    limit = _LOCKED.search(reader.host.read(f"/proc/{pid}/limits"))
    return int(limit[1]) if limit and limit[1] != "unlimited" else None


def once(lists: Iterable[Iterable[Mapped]]) -> tuple[Mapped, ...]:
    """The files of several processes, each once, as the one that maps most of it does."""
    found: dict[tuple[int, int, int], Mapped] = {}
    for file in (file for each in lists for file in each):
        before = found.get(file.key)
        if before is None or before.mapped_bytes < file.mapped_bytes:
            found[file.key] = file
    return tuple(found.values())
