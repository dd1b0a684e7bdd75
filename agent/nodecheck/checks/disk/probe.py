"""Reads the mount table and asks every file system that matters how much it holds."""

from __future__ import annotations

import posixpath

from nodecheck.checks.disk import allocation
from nodecheck.checks.disk.facts import DiskFacts, Filesystem
from nodecheck.checks.disk.mounts import (
    Mount,
    file_systems,
    holder,
    parse_mountinfo,
    parse_mounts,
    visible,
)
from nodecheck.machine.host import Statvfs
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Struct

STATVFS_SECONDS = 2.0
"""A healthy server answers within milliseconds; two seconds leave room for a busy one."""

ALTERNATIVES = 4
"""How many mounts of one file system are tried, where the first ones are not there."""

SIZE_LIMIT_BYTES = 1 << 62
"""File systems that claim more than this make their figures up."""

KUBELET = "/var/lib/kubelet"
IMAGE_STORES = (
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/containers",
    "/var/lib/rancher/k3s/agent/containerd",
    "/var/lib/rancher/rke2/agent/containerd",
)

Answers = dict[str, Statvfs | UnreadableError]
Group = tuple[Mount, ...]


def probe(reader: Reader) -> DiskFacts:
    """The mounted file systems of the node, their sizes and what is told of their allocation."""
    mounts = visible(_mount_table(reader))
    groups = [group for group in file_systems(mounts) if _matters(group)]
    answers = _sizes(reader, groups)
    systems = tuple(_filesystem(reader, group, answers) for group in groups)
    _note_gaps(reader, groups, answers)
    if mounts and not any(system.persistent for system in systems):
        reader.gap("filesystems", Reason.ABSENT, "no file system that can keep a model is mounted")
    hung = {system.mount for system in systems if system.hung}
    kubelet, images = _kubelet_mounts(reader, mounts, {g[0].key: g[0].point for g in groups}, hung)
    return DiskFacts(
        filesystems=systems,
        kubelet_mounts=kubelet,
        image_mounts=images,
        btrfs=allocation.btrfs(reader, systems),
        thin_pools=allocation.thin_pools(reader, mounts),
    )


def _mount_table(reader: Reader) -> tuple[Mount, ...]:
    text = reader.text("/proc/self/mountinfo", None)
    if text and (mounts := parse_mountinfo(text)):
        return mounts
    text = reader.text("/proc/mounts", "filesystems")
    mounts = parse_mounts(text or "")
    if text is not None and not mounts:
        reader.gap("filesystems", Reason.FAILED, "/proc/mounts: holds no mount")
    return mounts


def _matters(group: Group) -> bool:
    return group[0].asked or any(mount.on_block_device for mount in group)


def _sizes(reader: Reader, groups: list[Group]) -> Answers:
    """What each file system answers, by the mount point that was asked.

    Where that is not there, its other mounts are asked, all file systems at once again.
    """
    answers: Answers = {}
    for attempt in range(ALTERNATIVES):
        points = tuple(
            group[attempt].point
            for group in groups
            if attempt < len(group) and group[attempt].asked and _is_open(group[:attempt], answers)
        )
        if not points:
            break
        answers |= reader.host.statvfs(points, STATVFS_SECONDS)
    return answers


def _is_open(asked: Group, answers: Answers) -> bool:
    seen = [answers[mount.point] for mount in asked if mount.point in answers]
    return all(isinstance(s, UnreadableError) and s.reason is Reason.ABSENT for s in seen)


def _answer(group: Group, answers: Answers) -> tuple[Mount, Statvfs | UnreadableError | None]:
    """The mount of a file system that answered, else its representative."""
    for mount in group[:ALTERNATIVES]:
        answer = answers.get(mount.point)
        if isinstance(answer, Statvfs) or (answer is not None and answer.reason is Reason.TIMEOUT):
            return mount, answer
    return group[0], answers.get(group[0].point)


class _Sizes(Struct, frozen=True, kw_only=True):
    total_bytes: int | None = None
    available_bytes: int | None = None
    free_bytes: int | None = None
    used_share: float | None = None
    inodes_total: int | None = None
    inodes_free: int | None = None


def _filesystem(reader: Reader, group: Group, answers: Answers) -> Filesystem:
    mount, answer = _answer(group, answers)
    device = _kernel_device(reader, mount)
    sizes = _believed(answer) if isinstance(answer, Statvfs) else _Sizes()
    failed = sorted({m.point for m in group if m.failed}) if mount.on_block_device else []
    counter = f"/sys/fs/ext4/{device}/errors_count"
    return Filesystem(
        mount=mount.point,
        fstype=mount.fstype,
        device=mount.source,
        device_number=mount.device_number,
        options=mount.options,
        super_options=mount.super_options,
        persistent=mount.persistent,
        network=mount.network,
        total_bytes=sizes.total_bytes,
        available_bytes=sizes.available_bytes,
        free_bytes=sizes.free_bytes,
        used_share=sizes.used_share,
        inodes_total=sizes.inodes_total,
        inodes_free=sizes.inodes_free,
        errors_count=_count(reader, counter) if device and mount.fstype.startswith("ext") else None,
        hung=isinstance(answer, UnreadableError) and answer.reason is Reason.TIMEOUT,
        failed_mounts=tuple(failed),
        kernel_device=device,
    )


def _count(reader: Reader, path: str) -> int | None:
    number = reader.integer(path, None)
    return number if number is not None and number >= 0 else None


def _believed(seen: Statvfs) -> _Sizes:
    """The figures of statvfs(3), None for those that contradict themselves or are all zero."""
    total = seen.f_blocks * seen.f_frsize
    used, available = seen.f_blocks - seen.f_bfree, seen.f_bavail
    if not 0 < total <= SIZE_LIMIT_BYTES or used < 0 or not 0 <= available <= seen.f_blocks:
        return _Sizes()
    inodes = 0 <= seen.f_ffree <= seen.f_files <= SIZE_LIMIT_BYTES
    return _Sizes(
        total_bytes=total,
        available_bytes=available * seen.f_frsize,
        free_bytes=max(0, seen.f_bfree) * seen.f_frsize,
        used_share=used / (used + available) if used + available else None,
        inodes_total=seen.f_files if inodes else None,
        inodes_free=seen.f_ffree if inodes else None,
    )


def _note_gaps(reader: Reader, groups: list[Group], answers: Answers) -> None:
    """One gap a reason: a capture without statvfs.json is not missing once a mount."""
    details: dict[str, Reason] = {}
    for group in groups:
        mount, answer = _answer(group, answers)
        if isinstance(answer, UnreadableError) and not (
            mount.fuse and answer.reason is Reason.DENIED
        ):
            details.setdefault(answer.detail, answer.reason)
        if (
            isinstance(answer, Statvfs)
            and _believed(answer).total_bytes is None
            and mount.persistent
        ):
            details.setdefault(f"{mount.point}: statvfs tells no usable size", Reason.UNSUPPORTED)
    for detail, reason in details.items():
        reader.gap("filesystems", reason, detail)


def _kernel_device(reader: Reader, mount: Mount) -> str | None:
    """The kernel's name of the block device: `dm-0`, `nvme0n1p1`."""
    if not mount.on_block_device:
        return None
    number = mount.device_number
    paths = [f"/sys/dev/block/{number}"] if number and not number.startswith("0:") else []
    for path in (*paths, *([mount.source] if mount.source.startswith("/dev/") else [])):
        try:
            name = posixpath.basename(reader.host.real_path(path))
        except UnreadableError:
            continue
        if name and name != number:
            return name
    return None


def _kubelet_mounts(
    reader: Reader, mounts: Group, representative: dict[str, str], hung: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The mounts that hold kubelet's files and images, and those of images alone."""
    node = _held(reader, mounts, representative, hung, (KUBELET,))
    if not node:
        return (), ()
    images = _held(reader, mounts, representative, hung, IMAGE_STORES)
    own = tuple(mount for mount in images if mount not in node)
    return (*node, *own), own


def _held(
    reader: Reader,
    mounts: Group,
    representative: dict[str, str],
    hung: set[str],
    directories: tuple[str, ...],
) -> tuple[str, ...]:
    """Where those of the directories lie that are there. A mount that hangs is not looked into."""
    found: list[str] = []
    for directory in directories:
        below = holder(mounts, directory)
        mount = representative.get(below.key) if below else None
        if mount is None or mount in hung:
            continue
        mounted = any(m.point.startswith(directory + "/") or m.point == directory for m in mounts)
        if mounted or reader.host.exists(directory):
            found.append(mount)
    return tuple(dict.fromkeys(found))
