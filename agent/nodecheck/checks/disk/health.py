"""Rules about file systems that fail although they have room: read-only, silent, out of chunks."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.disk.facts import Btrfs, Filesystem, ThinPool
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gib, percent

LOG_LINES_AT_MOST = 3


def readonly_after_error(seen: Seen) -> Iterator[Finding]:
    """disk.readonly_after_error: mounted for writing, yet the file system refuses it."""
    failed = [s for s in seen.facts.disk.filesystems if s.failed_mounts]
    if not failed:
        return
    mounts = tuple(mount for system in failed for mount in system.failed_mounts)
    yield Finding(
        id="disk.readonly_after_error",
        severity=Severity.CRITICAL,
        subject=", ".join(mounts[:3]),
        summary=f"{', '.join(mounts[:3])} turned read-only after an error",
        evidence=tuple(
            piece for system in failed[:4] for piece in _readonly_evidence(system, seen)
        ),
        impact=(
            f"Every write to {failed[0].device} fails with 'Read-only file system', and its data "
            "may be damaged"
        ),
        remedy=Remedy(
            text=(
                "Check the device before the file system: replace it if it reports errors. Then "
                "check the file system offline and mount it again"
            ),
            action=Action.REBOOT,
            commands=(
                f"sudo smartctl -a {failed[0].device}",
                f"sudo umount {mounts[0]}; {_check_command(failed[0])}; sudo mount {mounts[0]}",
            ),
            cost=(
                "The file system is offline for minutes to hours; the root file system needs a "
                "reboot"
            ),
        ),
        owner=Owner.OPERATOR,
    )


def _check_command(system: Filesystem) -> str:
    if system.fstype == "xfs":
        return f"sudo xfs_repair {system.device}"
    if system.fstype == "btrfs":
        return f"sudo btrfs check --readonly {system.device}"
    return f"sudo fsck -f {system.device}"


def _readonly_evidence(system: Filesystem, seen: Seen) -> Iterator[Evidence]:
    state = next((o for o in ("emergency_ro", "ro") if o in system.super_options), "ro")
    yield Evidence(
        value=f"{system.failed_mounts[0]} is mounted rw, its file system is {state}",
        source="/proc/self/mountinfo",
        expected="rw in both places, or ro in both where it is meant",
        basis="an error makes the file system read-only and leaves the mount as it was",
    )
    if system.errors_count:
        yield Evidence(
            value=f"{count(system.errors_count, 'error')} since the last check",
            source=f"/sys/fs/ext4/{system.kernel_device}/errors_count",
            expected="0",
        )
    lines = [
        line for line in seen.facts.kernel_log.filesystem_errors if _names_device(line, system)
    ]
    for line in lines[:LOG_LINES_AT_MOST]:
        yield Evidence(value=line, source=seen.facts.kernel_log.source or "kernel log")


def _names_device(line: str, system: Filesystem) -> bool:
    """Whether a message is about this device, whatever else it quotes."""
    device = system.kernel_device
    if device is None:
        return False
    place = line.replace("(device ", "(", 1)
    return any(
        mark in place
        for mark in (f"({device})", f"({device} ", f"({device}:", f" {device}-", f"dev {device},")
    )


def unresponsive(seen: Seen) -> Iterator[Finding]:
    """disk.unresponsive: a mount that does not answer, and hangs who touches it."""
    hung = [s for s in seen.facts.disk.filesystems if s.hung]
    if not hung:
        return
    names = ", ".join(s.mount for s in hung[:3]) + (
        f" and {len(hung) - 3} more" if len(hung) > 3 else ""
    )
    first = hung[0]
    yield Finding(
        id="disk.unresponsive",
        severity=Severity.CRITICAL if any(s.mount == "/" for s in hung) else Severity.WARNING,
        subject=names,
        summary=f"{names} did not answer ({first.fstype}, {first.device})",
        evidence=tuple(
            Evidence(
                value=f"{s.mount} ({s.fstype} from {s.device}): no answer",
                source=f"statvfs {s.mount}",
                expected="an answer within the probe's deadline",
            )
            for s in hung[:6]
        ),
        impact=(
            "A process that touches it waits in the kernel and cannot be killed; an engine that "
            "keeps its models there does not start"
        ),
        remedy=Remedy(
            text=(
                "Bring its server, its daemon or the network back; the waiting processes then "
                "go on. Where it is not needed, detach it"
            ),
            action=Action.CHANGE_SETTING,
            commands=(f"sudo umount -l {first.mount}", *_who_answers(first)),
            cost="Programs that have files open there lose them",
        ),
        owner=Owner.OPERATOR,
    )


def _who_answers(system: Filesystem) -> tuple[str, ...]:
    server = system.device.split(":")[0].strip("/")
    if system.fstype.startswith("nfs") and server:
        return (f"rpcinfo -t {server} nfs",)
    return ()


def btrfs_unallocated(seen: Seen) -> Iterator[Finding]:
    """disk.btrfs_unallocated: metadata about to need a chunk that is not there."""
    limits = seen.policy.thresholds
    short = [
        b
        for b in seen.facts.disk.btrfs
        if b.unallocated_bytes < limits.btrfs_unallocated_min_bytes
        and b.metadata_used_share >= limits.btrfs_metadata_share
    ]
    if not short:
        return
    first = short[0]
    yield Finding(
        id="disk.btrfs_unallocated",
        severity=Severity.CRITICAL,
        subject=", ".join(b.mount for b in short[:3]),
        summary=(
            f"btrfs on {first.mount} has {gib(first.unallocated_bytes)} left to allocate and "
            f"{percent(first.metadata_used_share)} of its metadata used"
        ),
        evidence=tuple(_btrfs_evidence(b, seen) for b in short[:6]),
        impact="Writes fail with 'No space left on device' although df shows free space",
        remedy=Remedy(
            text=(
                "Give chunks that are nearly empty back, or add a device. Raise the share step "
                "by step: a balance needs a chunk to work with"
            ),
            action=Action.FREE_DISK,
            commands=(
                f"sudo btrfs balance start -dusage=0 {first.mount}",
                f"sudo btrfs balance start -dusage=10 {first.mount}",
                f"sudo btrfs filesystem usage {first.mount}",
            ),
            cost="Minutes to hours of disk load, no restart",
        ),
        owner=Owner.OPERATOR,
    )


def _btrfs_evidence(seen_btrfs: Btrfs, seen: Seen) -> Evidence:
    limits = seen.policy.thresholds
    return Evidence(
        value=(
            f"{seen_btrfs.mount}: {gib(seen_btrfs.unallocated_bytes)} unallocated, metadata "
            f"{percent(seen_btrfs.metadata_used_share)} used"
        ),
        source=f"btrfs filesystem usage {seen_btrfs.mount} or /sys/fs/btrfs",
        expected=(
            f"{gib(limits.btrfs_unallocated_min_bytes)} unallocated, or metadata under "
            f"{percent(limits.btrfs_metadata_share)} used"
        ),
        basis="policy btrfs_unallocated_min_bytes and btrfs_metadata_share",
    )


def thin_pool_full(seen: Seen) -> Iterator[Finding]:
    """disk.thin_pool_full: a pool that gives out more than it has."""
    limits = seen.policy.thresholds
    near = sorted(
        (p for p in seen.facts.disk.thin_pools if _fullest(p) >= limits.thin_pool_warning_share),
        key=_fullest,
        reverse=True,
    )
    if not near:
        return
    first = near[0]
    part = "metadata" if first.metadata_share > first.data_share else "data"
    critical = _fullest(first) >= limits.thin_pool_critical_share
    yield Finding(
        id="disk.thin_pool_full",
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        subject=", ".join(p.name for p in near[:3]),
        summary=f"The {part} of thin pool {first.name} is {percent(_fullest(first))} used",
        evidence=tuple(
            Evidence(
                value=(
                    f"{p.name}: data {percent(p.data_share)}, metadata "
                    f"{percent(p.metadata_share)} used"
                ),
                source="lvs",
                expected=f"under {percent(limits.thin_pool_warning_share)}",
                basis="policy thin_pool_warning_share",
            )
            for p in near[:6]
        ),
        impact=(
            "When it is full every volume in it stops taking writes, whatever space their own "
            "file systems show"
        ),
        remedy=Remedy(
            text="Extend the pool, or delete volumes and snapshots in it and trim the others",
            action=Action.FREE_DISK,
            commands=(
                f"sudo lvextend -L +100G {first.name}",
                f"sudo lvextend --poolmetadatasize +1G {first.name}",
                "sudo fstrim -av",
            ),
            cost="Free space in the volume group; no restart",
        ),
        owner=Owner.OPERATOR,
    )


def _fullest(pool: ThinPool) -> float:
    return max(pool.data_share, pool.metadata_share)
