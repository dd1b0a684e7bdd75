"""The mounted file systems."""

from __future__ import annotations

from nodecheck.model import Struct


class Filesystem(Struct, frozen=True, kw_only=True):
    """A mounted file system, once per device number. Sizes in bytes, None where it did not answer.

    `available_bytes` is f_bavail, `free_bytes` f_bfree, which holds what is reserved for others
    (root, a quota's owner) as well. `used_share` is used/(used + available) as df prints it.
    `persistent` says that a model could be kept there; `network` that a server answers for it.
    `hung` that statvfs did not answer within its deadline. `failed_mounts` are the mount points
    that are mounted for writing while a block device's file system refuses it; `kernel_device` is
    the device's name in the kernel log and in /sys/fs.
    """

    mount: str
    fstype: str
    device: str
    device_number: str
    options: tuple[str, ...] = ()
    super_options: tuple[str, ...] = ()
    persistent: bool = False
    network: bool = False
    total_bytes: int | None = None
    available_bytes: int | None = None
    free_bytes: int | None = None
    used_share: float | None = None
    inodes_total: int | None = None
    inodes_free: int | None = None
    errors_count: int | None = None
    hung: bool = False
    failed_mounts: tuple[str, ...] = ()
    kernel_device: str | None = None


class Btrfs(Struct, frozen=True, kw_only=True):
    """Allocation of one btrfs file system, in bytes."""

    mount: str
    unallocated_bytes: int
    metadata_used_share: float


class ThinPool(Struct, frozen=True, kw_only=True):
    """An LVM thin pool; shares are 0 to 1."""

    name: str
    data_share: float
    metadata_share: float


class DiskFacts(Struct, frozen=True, kw_only=True):
    """The file systems, and how btrfs and LVM have allocated the space below them.

    `kubelet_mounts` are the mounts that hold /var/lib/kubelet or container images on a kubelet
    node; `image_mounts` those of them that hold images only, where kubelet evicts earlier.
    """

    filesystems: tuple[Filesystem, ...] = ()
    kubelet_mounts: tuple[str, ...] = ()
    image_mounts: tuple[str, ...] = ()
    btrfs: tuple[Btrfs, ...] = ()
    thin_pools: tuple[ThinPool, ...] = ()
