"""What statvfs does not tell: how btrfs and LVM have allocated the space below a file system."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodecheck.checks.disk.facts import Btrfs, Filesystem, ThinPool
from nodecheck.checks.disk.mounts import Mount
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason

COMMAND_SECONDS = 1.0

COMMANDS_AT_MOST = 2
"""File systems that the btrfs program is asked about; of others sysfs tells, or they are gaps."""

SECTOR_BYTES = 512
KINDS = ("data", "metadata", "system")

_SIZE = r"(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?B)?"
_UNALLOCATED = re.compile(rf"^\s*Device unallocated:\s*{_SIZE}\s*$", re.MULTILINE)
_METADATA = re.compile(rf"^\s*Metadata,\s*\S+:\s*Size:\s*{_SIZE},\s*Used:\s*{_SIZE}", re.MULTILINE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def btrfs(reader: Reader, systems: tuple[Filesystem, ...]) -> tuple[Btrfs, ...]:
    """The allocation of each writable btrfs file system, from sysfs or else from the program."""
    found: list[Btrfs] = []
    wanted = [s for s in systems if s.fstype == "btrfs" and s.persistent and not s.hung]
    for asked, system in enumerate(wanted):
        seen = _from_sysfs(reader, system.mount, system.kernel_device)
        if seen is None and asked < COMMANDS_AT_MOST:
            seen = _from_program(reader, system.mount)
        if seen is None:
            detail = (
                "allocation not told by /sys/fs/btrfs; run: sudo btrfs filesystem usage "
                f"{system.mount}"
            )
            reader.gap("btrfs", Reason.ABSENT, detail)
        else:
            found.append(seen)
    return tuple(found)


def _from_sysfs(reader: Reader, mount: str, device: str | None) -> Btrfs | None:
    for name in reader.names("/sys/fs/btrfs"):
        home = f"/sys/fs/btrfs/{name}"
        devices = reader.names(f"{home}/devices")
        if device is not None and device in devices:
            return _allocation(reader, home, mount, devices)
    return None


def _allocation(reader: Reader, home: str, mount: str, devices: tuple[str, ...]) -> Btrfs | None:
    sectors = _sum(reader.integer(f"{home}/devices/{device}/size", None) for device in devices)
    taken = _sum(reader.integer(f"{home}/allocation/{kind}/disk_total", None) for kind in KINDS)
    total = reader.integer(f"{home}/allocation/metadata/total_bytes", None)
    used = reader.integer(f"{home}/allocation/metadata/bytes_used", None)
    if sectors is None or taken is None or not total or used is None or not 0 <= used <= total:
        return None
    free = sectors * SECTOR_BYTES - taken
    if free < 0:
        return None
    return Btrfs(mount=mount, unallocated_bytes=free, metadata_used_share=used / total)


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None or number < 0:
            return None
        total += number
    return total


def _from_program(reader: Reader, mount: str) -> Btrfs | None:
    """A capture may hold the output with the mount in its name or without."""
    command = ("btrfs", "filesystem", "usage")
    for argv in ((*command, mount), command):
        output = reader.command(argv, None, COMMAND_SECONDS)
        if output is not None and (seen := parse_btrfs_usage(output.text, mount)):
            return seen
    return None


def parse_btrfs_usage(text: str, mount: str) -> Btrfs | None:
    """What `btrfs filesystem usage` prints. Metadata of several profiles is added up."""
    unallocated = _UNALLOCATED.search(text)
    metadata = [match.groups() for match in _METADATA.finditer(text)]
    if not unallocated or not metadata:
        return None
    size = sum(_bytes(number, unit) for number, unit, _, _ in metadata)
    used = sum(_bytes(number, unit) for _, _, number, unit in metadata)
    if not size or used > size:
        return None
    free = _bytes(unallocated[1], unallocated[2])
    return Btrfs(mount=mount, unallocated_bytes=free, metadata_used_share=used / size)


def _bytes(number: str, unit: str) -> int:
    return min(round(float(number) * (1 << (10 * _POWERS[unit]))), 1 << 62)


def thin_pools(reader: Reader, mounts: tuple[Mount, ...]) -> tuple[ThinPool, ...]:
    """LVM's thin pools. On a live node lvs is run only where the kernel has a thin pool."""
    pools, mapped = _kernel_pools(reader), any(m.source.startswith("/dev/mapper/") for m in mounts)
    if reader.host.live and not pools:
        return ()
    output = reader.command(("lvs",), "thin_pools" if pools or mapped else None, COMMAND_SECONDS)
    if output is None:
        return ()
    if output.status != 0:
        last = (output.text.strip().splitlines() or ["no message"])[-1]
        reason = (
            Reason.DENIED
            if "ermission denied" in output.text or "root" in output.text
            else Reason.FAILED
        )
        reader.gap("thin_pools", reason, f"lvs: {last.strip()[:200]}; run: sudo lvs")
        return ()
    return parse_lvs(output.text)


def _kernel_pools(reader: Reader) -> bool:
    uuids = (
        reader.text(f"/sys/block/{name}/dm/uuid", None)
        for name in reader.names("/sys/block")
        if name.startswith("dm-")
    )
    return any(uuid is not None and uuid.endswith("-tpool") for uuid in uuids)


_POOL = re.compile(r"t[a-zA-Z-]{7,9}")
_CAPACITY = re.compile(r"<?\d+[.,]?\d* ?[kmgtpe](?:i?b)?\b", re.IGNORECASE)


def parse_lvs(text: str) -> tuple[ThinPool, ...]:
    """The thin pools in the table that `lvs` prints, whatever columns it was asked for.

    Before a pool's attributes stand its name and its group, after them perhaps its size, then data
    and metadata in per cent.
    """
    pools = []
    for line in text.splitlines():
        fields = _CAPACITY.sub(" ", line).split()
        at = next((n for n, field in enumerate(fields) if _POOL.fullmatch(field)), 0)
        shares = [_share(field) for field in fields[at + 1 : at + 3]]
        if not at or not shares or None in shares:
            continue
        data, *metadata = (share or 0.0 for share in shares)
        name = "/".join(field.strip("[]") for field in reversed(fields[:at]))
        pools.append(
            ThinPool(name=name, data_share=data, metadata_share=metadata[0] if metadata else 0.0)
        )
    return tuple(pools)


def _share(text: str) -> float | None:
    try:
        percent = float(text.replace(",", "."))
    except ValueError:
        return None
    return percent / 100 if 0 <= percent <= 100 else None
