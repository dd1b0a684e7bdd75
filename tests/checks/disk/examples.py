"""One input that raises each finding, and one that does not."""

from __future__ import annotations

from nodecheck.checks.seen import Seen
from tests.checks.disk.table import HUNG, ROOT, sizes, tree
from tests.trees import Tree

SHM = "30 22 0:62 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k"
TMP = "31 22 0:63 / /tmp rw,nosuid - tmpfs tmpfs rw"
NFS = "40 22 0:50 / /mnt/models rw,relatime - nfs4 192.0.2.1:/export rw,vers=4.2,hard"
BTRFS = "22 1 0:30 /@ / rw,relatime shared:1 - btrfs /dev/sda2 rw,ssd,subvol=/@"
MAPPED = "22 1 253:3 / / rw,relatime shared:1 - ext4 /dev/mapper/pve-root rw"

USAGE = """Overall:
    Device size:\t\t 465.26GiB
    Device allocated:\t\t {allocated}
    Device unallocated:\t\t {unallocated}
    Device missing:\t\t     0.00B
    Used:\t\t\t 390.00GiB
    Free (estimated):\t\t  73.00GiB\t(min: 73.00GiB)

Data,single: Size:460.00GiB, Used:387.00GiB (84.13%)
   /dev/sda2\t 460.00GiB

Metadata,DUP: Size:2.50GiB, Used:{metadata}
   /dev/sda2\t   5.00GiB

System,DUP: Size:32.00MiB, Used:64.00KiB (0.20%)
   /dev/sda2\t  64.00MiB

Unallocated:
   /dev/sda2\t   1.00MiB
"""

LVS = """  LV            VG  Attr       LSize   Pool Origin Data%  Meta%  Move Log Cpy%Sync Convert
  data          pve twi-aotz-- 794.30g             {data}  {meta}
  root          pve -wi-ao----  96.00g
  vm-100-disk-0 pve Vwi-aotz-- 200.00g data        61.20
  snap          pve Vwi---tz-k 200.00g data root
"""


def btrfs(unallocated: str, metadata: str) -> Tree:
    usage = USAGE.format(allocated="465.26GiB", unallocated=unallocated, metadata=metadata)
    return tree([BTRFS], {"/": sizes(465, 300)}) | {"cmd/btrfs_filesystem_usage.txt": usage}


def lvm(data: str, meta: str) -> Tree:
    return tree([MAPPED], {"/": sizes(940, 600)}) | {
        "cmd/lvs.txt": LVS.format(data=data, meta=meta)
    }


HEALTHY = tree(
    [ROOT, SHM, TMP], {"/": sizes(950, 500), "/dev/shm": sizes(64, 64), "/tmp": sizes(8, 7)}
)

RAISES: dict[str, Tree | Seen] = {
    "disk.low": tree([ROOT], {"/": sizes(950, 57)}),
    "disk.headroom": tree([ROOT], {"/": sizes(274, 64)}),
    "disk.inodes": tree([ROOT], {"/": sizes(950, 500, inodes=(64, 0))}),
    "disk.readonly_after_error": tree([ROOT.removesuffix("rw") + "rw,emergency_ro"]),
    "disk.unresponsive": tree([ROOT, NFS], {"/": sizes(950, 500), "/mnt/models": HUNG}),
    "disk.tmp_full": tree([ROOT, TMP], {"/": sizes(950, 500), "/tmp": sizes(8, 0.1)}),
    "disk.shm_small": tree([ROOT, SHM], {"/": sizes(950, 500), "/dev/shm": sizes(0.0625, 0.05)}),
    "disk.btrfs_unallocated": btrfs("1.00MiB", "2.30GiB (92.00%)"),
    "disk.thin_pool_full": lvm("88.50", "12.30"),
}

SILENT: dict[str, Tree | Seen] = {
    **dict.fromkeys(RAISES, HEALTHY),
    "disk.low": tree([ROOT], {"/": sizes(8000, 300)}),
    "disk.inodes": tree([ROOT], {"/": sizes(950, 500, inodes=(0, 0))}),
    "disk.readonly_after_error": tree([ROOT.replace("rw", "ro")]),
    "disk.unresponsive": tree([ROOT, NFS], {"/": sizes(950, 500), "/mnt/models": sizes(9000, 900)}),
    "disk.btrfs_unallocated": btrfs("1.00MiB", "1.20GiB (48.00%)"),
    "disk.thin_pool_full": lvm("60.00", "12.30"),
}
