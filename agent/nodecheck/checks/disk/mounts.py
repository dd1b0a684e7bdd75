"""The mount table: what is mounted where, what can be seen of it, what of that can hold a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nodecheck.model import Struct

ROOT = "/"

NETWORK_TYPES = frozenset(
    {
        "nfs",
        "nfs3",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "afs",
        "coda",
        "glusterfs",
        "orangefs",
        "pvfs2",
        "panfs",
        "wekafs",
        "ocfs2",
        "gfs2",
        "9p",
        "virtiofs",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.ceph-fuse",
    }
)

LOCAL_TYPES = frozenset(
    {
        "overlay",
        "aufs",
        "zfs",
        "btrfs",
        "bcachefs",
        "ubifs",
        "fuseblk",
        "fuse.fuse-overlayfs",
        "vboxsf",
        "prl_fs",
        "vmhgfs",
    }
)
"""Local file systems that may stand on no block device number of their own."""

NO_ROOM_TYPES = frozenset(
    {"squashfs", "iso9660", "udf", "erofs", "cramfs", "romfs", "vfat", "msdos"}
)
"""On block devices, but read-only by nature or, as FAT, unable to hold a file of 4 GiB."""

POOL_TYPES = frozenset({"btrfs", "bcachefs"})
"""On block devices, yet mounted under an anonymous device number."""

FUSE_HELPERS = frozenset(
    {
        "fuse.lxcfs",
        "fuse.gvfsd-fuse",
        "fuse.portal",
        "fuse.snapfuse",
        "fuse.squashfuse",
        "fuse.vmware-vmblock",
    }
)
"""Mounts of desktops, containers and packages, which hold no models."""

FILE_MOUNTS = frozenset(
    (
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
        "/dev/termination-log",
        "/run/.containerenv",
    )
)
"""Single files that container engines bind from the host's disk: nothing can be stored there."""

FIRMWARE_POINTS = ("/boot", "/efi")
SNAP_POINTS = ("/snap", "/var/lib/snapd")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount point that is judged, not written
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - mount points that are judged, not written

_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")


class Mount(Struct, frozen=True):
    """A line of the mount table: `parent` -1 and `device_number` empty where it tells neither."""

    id: int
    parent: int
    device_number: str
    point: str
    options: tuple[str, ...]
    fstype: str
    source: str
    super_options: tuple[str, ...]

    @property
    def key(self) -> str:
        """What tells one file system from another."""
        return self.device_number or f"{self.fstype} {self.source}"

    @property
    def writable(self) -> bool:
        """Whether this mount is meant to be written."""
        return "rw" in self.options

    @property
    def failed(self) -> bool:
        """Whether the file system refuses writes although it is mounted for writing."""
        return self.writable and not {"ro", "emergency_ro"}.isdisjoint(self.super_options)

    @property
    def network(self) -> bool:
        """Whether a server answers for it."""
        return self.fstype in NETWORK_TYPES

    @property
    def fuse(self) -> bool:
        """Whether a process of this machine answers for it."""
        return self.fstype == "fuse" or self.fstype.startswith("fuse.")

    @property
    def on_block_device(self) -> bool:
        """Whether it stands on a block device and is written as such."""
        if self.fstype in NO_ROOM_TYPES or self.fuse:
            return False
        if self.device_number and self.fstype not in POOL_TYPES:
            return not self.device_number.startswith("0:")
        return self.source.startswith("/dev/")

    @property
    def persistent(self) -> bool:
        """Whether a model could be kept there."""
        kind = self.on_block_device or self.network or self.fstype in LOCAL_TYPES
        return kind and self.writable and not self.failed and not self._apart

    @property
    def asked(self) -> bool:
        """Whether its size, or whether it answers at all, matters."""
        if self.fstype == "tmpfs":
            return self.point == SHARED_MEMORY or self.point in TEMPORARY
        distant = self.network or (self.fuse and self.fstype not in FUSE_HELPERS)
        return self.persistent or (distant and not self._apart)

    @property
    def _apart(self) -> bool:
        places = (*FIRMWARE_POINTS, *SNAP_POINTS)
        return self.point in FILE_MOUNTS or any(is_within(self.point, place) for place in places)


def is_within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies below it."""
    return directory in (ROOT, path) or path.startswith(directory + "/")


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """The lines of /proc/PID/mountinfo (proc_pid_mountinfo(5)), but for those of another form."""
    return tuple(mount for line in text.splitlines() if (mount := _mountinfo_line(line)))


def _mountinfo_line(line: str) -> Mount | None:
    fields = line.split(" ")
    try:
        dash = fields.index("-", 6)  # optional fields (shared:1, master:2) end at a lone dash
        fstype, source, super_options = fields[dash + 1 : dash + 4]
        return Mount(
            id=int(fields[0]),
            parent=int(fields[1]),
            device_number=fields[2],
            point=_unescaped(fields[4]),
            options=tuple(fields[5].split(",")),
            fstype=fstype,
            source=_unescaped(source),
            super_options=tuple(super_options.split(",")),
        )
    except ValueError:
        return None


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """The lines of /proc/mounts (fstab(5)).

    It merges the options of mount and file system: `ro` may be either's, and counts as both's.
    """
    mounts = []
    for number, line in enumerate(text.splitlines()):
        fields = line.split(" ")
        if len(fields) < 4 or not fields[1].startswith("/"):
            continue
        options = tuple(fields[3].split(","))
        mounts.append(
            Mount(
                id=number,
                parent=-1,
                device_number="",
                point=_unescaped(fields[1]),
                options=options,
                fstype=fields[2],
                source=_unescaped(fields[0]),
                super_options=options,
            )
        )
    return tuple(mounts)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)


def visible(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """The mounts that their mount point leads to: not those that a later mount lies over."""
    reached = _Reached(mounts)
    return tuple(mount for at, mount in enumerate(mounts) if reached.visible(at))


class _Reached:
    """Path lookup over the mount tree.

    A mount is out of reach where a later one with the same parent lies on its mount point or above
    it, or where its parent is out of reach. Where a mount lies on its root it is hidden, but what
    lies on it is not.
    """

    def __init__(self, mounts: tuple[Mount, ...]) -> None:
        self._mounts = mounts
        self._by_id = {mount.id: at for at, mount in enumerate(mounts)}
        self._last: dict[tuple[int, str], int] = {}
        for at, mount in enumerate(mounts):
            self._last[self._parent(mount), mount.point] = at
        self._known: dict[int, bool] = {}

    def _parent(self, mount: Mount) -> int:
        """The parent's id; mounts whose parent is not in the table share none."""
        return mount.parent if mount.parent in self._by_id and mount.parent != mount.id else -1

    def visible(self, at: int) -> bool:
        mount = self._mounts[at]
        over = self._last.get((mount.id, mount.point), at)
        return (over == at or self._mounts[over] is mount) and self._reached(at)

    def _reached(self, at: int) -> bool:
        chain = []
        while at not in self._known:
            self._known[at] = not self._covered(at)
            chain.append(at)
            parent = self._by_id.get(self._parent(self._mounts[at]))
            if parent is None or not self._known[at]:
                break
            at = parent
        for child in reversed(chain):
            self._known[child] = self._known[child] and self._known[at]
        return self._known[chain[0] if chain else at]

    def _covered(self, at: int) -> bool:
        mount = self._mounts[at]
        parent = self._parent(mount)
        places = [mount.point, *_above(mount.point)]
        return any(self._last.get((parent, place), -1) > at for place in places)


def _above(point: str) -> Iterator[str]:
    """The directories above, but the root: a mount there came with the mounts below it."""
    while (point := point.rpartition("/")[0]) != "":
        yield point


def holder(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    """The visible mount that `path` lies on, links aside."""
    around = [mount for mount in mounts if is_within(path, mount.point)]
    return max(around, key=lambda mount: len(mount.point), default=None)


def file_systems(mounts: tuple[Mount, ...]) -> tuple[tuple[Mount, ...], ...]:
    """The visible mounts by file system, the best to ask first: writable, of the shortest path."""
    groups: dict[str, list[Mount]] = {}
    for mount in mounts:
        groups.setdefault(mount.key, []).append(mount)
    order = [sorted(group, key=_rank) for group in groups.values()]
    return tuple(tuple(group) for group in order if not _borrowed(group[0], mounts))


def _rank(mount: Mount) -> tuple[bool, bool, int]:
    return (not mount.persistent, not mount.asked, len(mount.point))


def _borrowed(mount: Mount, mounts: tuple[Mount, ...]) -> bool:
    """Whether an overlay's space is that of a mount beside it: a container's root, on its host.

    In the container itself the upper directory is not to be seen.
    """
    if mount.fstype != "overlay" or mount.point == ROOT:
        return False
    upper = next((o[9:] for o in mount.super_options if o.startswith("upperdir=/")), None)
    below = holder(mounts, upper) if upper else None
    return below is not None and below.persistent and below.fstype != "overlay"
