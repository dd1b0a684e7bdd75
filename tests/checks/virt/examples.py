"""For each finding of virtualization a node that raises it and one that does not."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from tests.checks.cpu.cpus import KVM64, XEON
from tests.trees import Tree

ON_DISK = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
LXC: Tree = {
    "proc/self/mountinfo": (
        "500 400 0:50 / / rw - btrfs /dev/sdb rw\n"
        "510 500 0:60 /proc/meminfo /proc/meminfo rw,nosuid - fuse.lxcfs lxcfs rw\n"
    )
}

RAISES: dict[str, Tree | Seen] = {"virt.guest": KVM64, "virt.container": LXC}
SILENT: dict[str, Tree | Seen] = {
    "virt.guest": XEON,
    "virt.container": {"proc/self/mountinfo": ON_DISK},
}
