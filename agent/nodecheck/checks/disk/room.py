"""Rules about room on disks: for a model, and for new files."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.disk.facts import Filesystem
from nodecheck.checks.disk.words import df_percent, first_few, free_of, names, room_on
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.serving import Workload
from nodecheck.units import gib

CONVERSION_COPIES = 3
"""A conversion may hold the source, a 16-bit copy and the result at once."""

_LEAST = "the least that a useful model takes"

GROW = {
    "proxmox": "qm disk resize <VMID> scsi0 +200G  # Proxmox, on its host",
    "libvirt": "virsh blockresize <domain> vda 1T  # libvirt, on its host",
    "kubevirt": "kubectl edit pvc <claim>  # spec.resources.requests.storage",
    "openstack": "openstack volume set --size <GiB> <volume>  # OpenStack",
    "ec2": "aws ec2 modify-volume --volume-id <volume> --size <GiB>",
    "gce": "gcloud compute disks resize <disk> --size <GiB>GB",
    "azure": "az disk update --resource-group <group> --name <disk> --size-gb <GiB>",
}
"""How a guest's disk is made larger, in the words of its platform."""


def judged(seen: Seen) -> list[Filesystem]:
    """The persistent file systems that told their size, the roomiest first."""
    systems = [
        s for s in seen.facts.disk.filesystems if s.persistent and s.available_bytes is not None
    ]
    return sorted(systems, key=lambda s: s.available_bytes or 0, reverse=True)


def _is_full(system: Filesystem, seen: Seen) -> bool:
    return (system.used_share or 0) >= seen.policy.thresholds.disk_full_share


def low(seen: Seen) -> Iterator[Finding]:
    """disk.low: no room for any model, or a file system that is about to fail its writers."""
    systems = judged(seen)
    if not systems:
        return
    limits = seen.policy.thresholds
    cramped = (systems[0].available_bytes or 0) < limits.model_min_bytes
    full = [s for s in systems if _is_full(s, seen)]
    near = [s for s in systems if not _is_full(s, seen) and _is_low(s, seen)]
    told = sorted([*full, *near], key=lambda s: s.used_share or 0, reverse=True)
    if cramped and not (_is_full(systems[0], seen) or _is_low(systems[0], seen)):
        told.insert(0, systems[0])
    if not told:
        return
    lead = systems[0] if cramped else told[0]
    yield Finding(
        id="disk.low",
        severity=Severity.CRITICAL if cramped or full else Severity.WARNING,
        subject=lead.mount if len(told) == 1 else names(s.mount for s in told),
        summary=_low_summary(
            lead, len(systems), len(told), gib(limits.model_min_bytes) if cramped else None
        ),
        evidence=first_few(_space(s, seen, cramped=cramped) for s in told),
        impact=_low_impact(lead, seen),
        remedy=_room_remedy(lead, seen),
        owner=Owner.OPERATOR,
    )


def _is_low(system: Filesystem, seen: Seen) -> bool:
    limits, disk = seen.policy.thresholds, seen.facts.disk
    kubelet = system.mount in disk.kubelet_mounts
    large = (system.available_bytes or 0) >= limits.disk_large_bytes and not kubelet
    images = system.mount in disk.image_mounts
    limit = limits.image_disk_low_share if images else limits.disk_low_share
    return not large and (system.used_share or 0) >= limit


def _low_summary(lead: Filesystem, systems: int, told: int, least: str | None) -> str:
    """`least` is what a model needs, where no disk has it."""
    text = free_of(lead)
    if least and systems > 1:
        return f"No disk has {least} free, {_LEAST}: the roomiest has {text}"
    others = f", and {told - 1} more" if told > 1 else ""
    return text + others + (f": less than {least}, {_LEAST}" if least else "")


def _space(system: Filesystem, seen: Seen, *, cramped: bool) -> Evidence:
    limits, disk = seen.policy.thresholds, seen.facts.disk
    if cramped:
        expected = f"{gib(limits.model_min_bytes)} or more free on some disk"
        return room_on(system, expected, "policy model_min_bytes")
    share, basis = limits.disk_low_share, "policy disk_low_share"
    if system.mount in disk.image_mounts:
        share, basis = limits.image_disk_low_share, "policy image_disk_low_share: kubelet evicts"
    elif system.mount in disk.kubelet_mounts:
        basis = "policy disk_low_share: kubelet evicts"
    return room_on(system, f"under {df_percent(share)} used", basis)


def _low_impact(lead: Filesystem, seen: Seen) -> str:
    free = lead.available_bytes or 0
    if seen.workload is not None:
        return f"It {times_held(free, seen.workload.weight_bytes_shipped)}"
    text = (
        f"A model of at most {gib(free)} can be downloaded, one of at most "
        f"{gib(free / CONVERSION_COPIES)} converted, which takes about {CONVERSION_COPIES} "
        "times its size"
    )
    if lead.mount in seen.facts.disk.kubelet_mounts:
        text += ". Kubelet evicts pods and refuses new ones while it lasts"
    return text


def times_held(free_bytes: int, model_bytes: int) -> str:
    """As "holds this model three times over"."""
    times = free_bytes // model_bytes
    words = ("does not hold this model", "holds this model once", "holds this model twice")
    if times < len(words):
        return words[times]
    return f"holds this model {'three' if times == 3 else times} times over"


def _room_remedy(lead: Filesystem, seen: Seen) -> Remedy:
    commands = [f"du -xh --max-depth=3 {lead.mount} | sort -h | tail -20"]
    if lead.network:
        text = "Free space, or have the server's share or quota raised"
        return Remedy(text=text, action=Action.FREE_DISK, commands=tuple(commands), cost=_FREE_COST)
    text = "Free space (models and container images that are not used come first), or add a disk"
    if grow := GROW.get(seen.facts.virt.platform or ""):
        text = (
            "Free space (unused models and container images first), or make the guest's disk "
            "larger and then its file system"
        )
        commands += [grow, _grow_inside(lead)]
    return Remedy(text=text, action=Action.FREE_DISK, commands=tuple(commands), cost=_FREE_COST)


_FREE_COST = "No restart; what was deleted is downloaded again when it is needed"


def _grow_inside(lead: Filesystem) -> str:
    if lead.fstype == "xfs":
        return f"sudo xfs_growfs {lead.mount}"
    if lead.fstype == "btrfs":
        return f"sudo btrfs filesystem resize max {lead.mount}"
    return (
        f"sudo resize2fs {lead.device}" if lead.fstype.startswith("ext") else f"df -h {lead.mount}"
    )


def headroom(seen: Seen) -> Iterator[Finding]:
    """disk.headroom: what fits. A judgement only where a model was named."""
    systems = judged(seen)
    if not systems:
        return
    roomiest, limits = systems[0], seen.policy.thresholds
    free = roomiest.available_bytes or 0
    if seen.workload is not None:
        yield from _model_headroom(roomiest, seen.workload, seen)
    elif limits.model_min_bytes <= free < limits.headroom_info_bytes and not any(low(seen)):
        yield _headroom(
            Severity.INFO,
            roomiest,
            room_on(
                roomiest,
                f"{gib(limits.headroom_info_bytes)} for the larger models",
                "policy headroom_info_bytes",
            ),
            impact=(
                f"A download of at most {gib(free)} fits; with a conversion, which holds the "
                f"model 2 to 3 times, one of {gib(free / CONVERSION_COPIES)} to {gib(free / 2)}"
            ),
            remedy=Remedy(text="Nothing, if the models to serve are smaller", action=Action.NONE),
        )


def _model_headroom(roomiest: Filesystem, model: Workload, seen: Seen) -> Iterator[Finding]:
    size, copies = model.weight_bytes_shipped, seen.policy.thresholds.headroom_copies
    free = roomiest.available_bytes or 0
    if free >= copies * size:
        return
    fails = ": the download fails" if size > free else "; a conversion beside it does not fit"
    yield _headroom(
        Severity.CRITICAL if size > free else Severity.WARNING,
        roomiest,
        room_on(
            roomiest,
            f"{gib(copies * size)} for {model.name} and its conversion",
            f"policy headroom_copies ({copies:g}) x {gib(size)}",
        ),
        impact=f"It {times_held(free, size)} ({gib(size)}){fails}",
        remedy=_room_remedy(roomiest, seen),
    )


def _headroom(
    severity: Severity, disk: Filesystem, free: Evidence, *, impact: str, remedy: Remedy
) -> Finding:
    return Finding(
        id="disk.headroom",
        severity=severity,
        subject=disk.mount,
        summary=f"The roomiest disk has {free_of(disk)}",
        evidence=(free,),
        impact=impact,
        remedy=remedy,
        owner=Owner.OPERATOR,
    )


def inodes(seen: Seen) -> Iterator[Finding]:
    """disk.inodes: no new file can be made although there is space."""
    limits = seen.policy.thresholds
    shares = {s.mount: share for s in judged(seen) if (share := _inode_share(s)) is not None}
    short = sorted(
        (m for m in shares if shares[m] >= limits.inodes_warning_share),
        key=shares.__getitem__,
        reverse=True,
    )
    if not short:
        return
    worst = short[0]
    by_mount = {s.mount: s for s in judged(seen)}
    yield Finding(
        id="disk.inodes",
        severity=Severity.CRITICAL
        if shares[worst] >= limits.inodes_critical_share
        else Severity.WARNING,
        subject=names(short),
        summary=(
            f"{by_mount[worst].inodes_free} of {by_mount[worst].inodes_total} inodes free on "
            f"{worst}"
        ),
        evidence=first_few(
            Evidence(
                value=f"{m}: f_ffree {by_mount[m].inodes_free}, f_files {by_mount[m].inodes_total}",
                source=f"statvfs {m}",
                expected=f"under {df_percent(limits.inodes_warning_share)} used",
                basis="policy inodes_warning_share: kubelet evicts below 5 % free",
            )
            for m in short
        ),
        impact=_inode_impact(by_mount[worst]),
        remedy=Remedy(
            text=(
                "Delete directories of many small files (caches, image layers, sessions). More "
                "inodes need a new file system on ext4"
            ),
            action=Action.FREE_DISK,
            commands=(f"du -x --inodes {worst} | sort -n | tail -20",),
            cost="No restart",
        ),
        owner=Owner.OPERATOR,
    )


def _inode_impact(system: Filesystem) -> str:
    free = gib(system.available_bytes or 0)
    files = f"After {system.inodes_free} more files" if system.inodes_free else "Now"
    return f"{files} nothing new can be stored: 'No space left on device', with {free} free"


def _inode_share(system: Filesystem) -> float | None:
    if not system.inodes_total or system.inodes_free is None:  # btrfs has none to run out of
        return None
    return 1 - system.inodes_free / system.inodes_total
