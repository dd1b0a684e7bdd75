"""Rules about file systems in RAM: for temporary files and for shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.disk.mounts import SHARED_MEMORY, TEMPORARY
from nodecheck.checks.disk.words import df_percent, first_few, free_of, names, room_on
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import gib


def tmp_full(seen: Seen) -> Iterator[Finding]:
    """disk.tmp_full: a tmpfs for temporary files that has none left."""
    limit = seen.policy.thresholds.tmp_full_share
    full = [
        s
        for s in seen.facts.disk.filesystems
        if s.fstype == "tmpfs" and s.mount in TEMPORARY and (s.used_share or 0) >= limit
    ]
    if not full:
        return
    yield Finding(
        id="disk.tmp_full",
        severity=Severity.WARNING,
        subject=names(s.mount for s in full),
        summary=f"The tmpfs for temporary files is full: {free_of(full[0])}",
        evidence=first_few(
            room_on(s, f"under {df_percent(limit)} used", "policy tmp_full_share") for s in full
        ),
        impact=(
            f"Downloads and conversions that unpack in {full[0].mount} fail above "
            f"{gib(full[0].available_bytes or 0)}, whatever the disks hold"
        ),
        remedy=Remedy(
            text="Set TMPDIR to a directory on a disk for the engine, or empty the tmpfs",
            action=Action.CHANGE_SETTING,
            commands=(
                f"du -xh --max-depth=1 {full[0].mount} | sort -h | tail",
                "TMPDIR=/var/lib/<engine>/tmp <engine>",
            ),
            cost="A restart of the engine; its files in a tmpfs also take RAM",
        ),
        owner=Owner.USER,
    )


def shm_small(seen: Seen) -> Iterator[Finding]:
    """disk.shm_small: too little shared memory for what several processes share."""
    limit = seen.policy.thresholds.shm_min_bytes
    small = [
        s
        for s in seen.facts.disk.filesystems
        if s.mount == SHARED_MEMORY
        and s.fstype == "tmpfs"
        and s.total_bytes is not None
        and s.total_bytes < limit
    ]
    if not small:
        return
    shm, gpus = small[0], sum(map(seen.facts.grants, seen.facts.gpus))
    size = gib(shm.total_bytes or 0)
    yield Finding(
        id="disk.shm_small",
        severity=Severity.CRITICAL if gpus >= 2 else Severity.WARNING,
        subject=shm.mount,
        summary=f"{shm.mount} holds {size} in all"
        + (f": too little for {gpus} GPUs to exchange tensors" if gpus >= 2 else ""),
        evidence=(
            Evidence(
                value=f"{size}, {gib(shm.available_bytes or 0)} of it free",
                source="statvfs /dev/shm",
                expected=f"{gib(limit)} or more",
                basis="policy shm_min_bytes",
            ),
        ),
        impact=(
            f"NCCL and worker processes that share more than {size} fail with 'No space left on "
            "device'; one process on one GPU does not need it"
        ),
        remedy=Remedy(
            text=(
                "Start the container with more shared memory, or with the host's; in Kubernetes "
                "mount an emptyDir with medium Memory at /dev/shm"
            ),
            action=Action.RESTART_CONTAINER,
            commands=("docker run --shm-size=16g ...", "docker run --ipc=host ..."),
            cost="A restart of the container; what is used of it counts as RAM",
        ),
        owner=Owner.USER,
    )
