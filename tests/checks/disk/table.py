"""Mount tables and file system sizes, as a node has them."""

from __future__ import annotations

import json
from collections.abc import Callable

from nodecheck.checks.disk.facts import DiskFacts
from nodecheck.checks.disk.probe import probe
from nodecheck.checks.disk.rules import RULES
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Finding, Gap
from nodecheck.policy import Policy
from nodecheck.serving import Workload
from tests.trees import Tree

GIB = 1 << 30
Node = Callable[[Tree], CapturedHost]
Sizes = dict[str, int]

ROOT = "22 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw"
PROC = "23 22 0:21 / /proc rw,nosuid - proc proc rw"


def sizes(
    total: float, free: float, reserved: float = 0, inodes: tuple[int, int] = (1000, 900)
) -> Sizes:
    """statvfs members from GiB: in all, free to a user, kept for root; inodes in all and free."""
    blocks = [round(gib * GIB / 4096) for gib in (total, free + reserved, free)]
    members = ("f_blocks", "f_bfree", "f_bavail")
    files = {"f_files": inodes[0], "f_ffree": inodes[1], "f_favail": inodes[1]}
    return {"f_frsize": 4096, "f_bsize": 4096, **dict(zip(members, blocks, strict=True)), **files}


HUNG = {"hang": True}


def tree(mountinfo: str | list[str], statvfs: dict[str, object] | None = None) -> Tree:
    text = mountinfo if isinstance(mountinfo, str) else "\n".join(mountinfo) + "\n"
    made: Tree = {"proc/self/mountinfo": text}
    return made if statvfs is None else made | {"statvfs.json": json.dumps(statvfs)}


def disk(node: Node, made: Tree) -> tuple[DiskFacts, list[Gap]]:
    reader = Reader(node(made), "disk")
    return probe(reader), reader.gaps


def seen(
    facts: DiskFacts,
    workload: Workload | None = None,
    gpus: int = 0,
    log: KernelLogFacts | None = None,
    platform: str | None = None,
) -> Seen:
    return Seen(
        facts=Facts(
            disk=facts,
            gpus=tuple(Gpu(index=n) for n in range(gpus)),
            kernel_log=log or KernelLogFacts(),
            virt=VirtFacts(platform=platform, guest=platform is not None),
        ),
        policy=Policy(),
        workload=workload,
    )


def findings(what: Seen) -> dict[str, Finding]:
    found = [finding for rule in RULES for finding in rule.judge(what)]
    by_id = {finding.id: finding for finding in found}
    assert len(by_id) == len(found)
    return by_id


def raised(what: Seen) -> dict[str, str]:
    return {id_: finding.severity.value for id_, finding in findings(what).items()}
