"""Which findings about disks there are."""

from __future__ import annotations

from nodecheck.checks.disk import health, room, tmpfs
from nodecheck.checks.seen import Rule

RULES: tuple[Rule, ...] = (
    Rule("disk.low", "A disk is nearly full, or none has room for a model", room.low),
    Rule("disk.headroom", "The largest model that fits on a disk", room.headroom),
    Rule("disk.inodes", "A file system can hardly make new files", room.inodes),
    Rule(
        "disk.readonly_after_error",
        "A file system turned read-only after an error",
        health.readonly_after_error,
    ),
    Rule("disk.unresponsive", "A mounted file system does not answer", health.unresponsive),
    Rule("disk.tmp_full", "The tmpfs for temporary files is full", tmpfs.tmp_full),
    Rule("disk.shm_small", "Shared memory is too small for several GPUs", tmpfs.shm_small),
    Rule(
        "disk.btrfs_unallocated",
        "btrfs has no room for another metadata chunk",
        health.btrfs_unallocated,
    ),
    Rule("disk.thin_pool_full", "An LVM thin pool is nearly full", health.thin_pool_full),
)
