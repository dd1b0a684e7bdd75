"""Reads what this process may use: affinity, cpuset, CPU quota, memory limit, rlimits."""

from __future__ import annotations

import re
import time

from nodecheck.checks.limits import cpu_quota
from nodecheck.checks.limits.cpu_quota import Throttling
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.machine import cgroups, memory_limit
from nodecheck.machine.cgroups import Groups, Membership
from nodecheck.machine.cpu_quota import Quota
from nodecheck.machine.memory_limit import MemoryLimit
from nodecheck.machine.reader import Reader, parse_list
from nodecheck.model import Reason

CONFIRM_SECONDS = 0.2
"""Two periods of the kernel's default of 0.1 s."""

_NODE = re.compile(r"node\d+")


def probe(reader: Reader) -> LimitsFacts:
    """The limits on this process; members that end in `_now` need a second sample."""
    cpu, memory, cpusets, membership = _groups(reader)
    affinity, mems_allowed = _allowed(reader)
    cpuset = _cpuset(reader, cpusets, "cpus")
    quota = cpu_quota.smallest(reader, cpu)
    throttling = cpu_quota.throttling(reader, quota)
    limit = memory_limit.smallest(reader, memory)
    throttled_now, high_events_now = _second_sample(reader, quota, throttling, limit)
    memlock, nofile = _rlimits(reader)
    return LimitsFacts(
        affinity=affinity,
        cpuset=cpuset,
        usable_cpus=_usable(reader, affinity, cpuset),
        mems_allowed=mems_allowed or _cpuset(reader, cpusets, "mems"),
        cgroup_version=membership.version,
        cgroup_path=membership.path(),
        cpu_quota=quota.cpus if quota else None,
        cpu_quota_source=quota.source if quota else None,
        thread_budget=max(1, int(quota.cpus)) if quota else None,
        throttled_share=throttling.share if throttling else None,
        throttled_share_now=throttled_now,
        throttled_source=throttling.source if throttling else None,
        throttled_periods=throttling.periods if throttling else None,
        memory_limit_bytes=limit.limit_bytes,
        memory_limit_source=limit.source,
        memory_current_bytes=limit.current_bytes,
        memory_file_bytes=limit.file_bytes,
        memory_high_bytes=limit.high_bytes,
        memory_headroom_bytes=limit.headroom_bytes,
        memory_high_events=limit.high_events,
        memory_high_events_now=high_events_now,
        memlock_bytes=memlock,
        nofile=nofile,
        mempolicy_errno=_mempolicy_errno(reader),
    )


def _groups(reader: Reader) -> tuple[Groups | None, Groups | None, Groups | None, Membership]:
    """The groups of cpu, memory and cpuset. Without /proc/self/cgroup nothing is assumed."""
    text = reader.text("/proc/self/cgroup", "cgroup_path")
    membership = cgroups.parse_membership(text or "")
    if text and not membership.paths:
        reader.gap("cgroup_path", Reason.FAILED, "/proc/self/cgroup: no line names a group")
    mounts = cgroups.read_mounts(reader) if membership.paths else []
    cpu, memory, cpusets = (
        cgroups.groups(reader, membership, mounts, name) for name in ("cpu", "memory", "cpuset")
    )
    if membership.paths and cpu is None and memory is None:
        reader.gap("cpu_quota", Reason.ABSENT, "no directory of the process's cgroup is there")
    return cpu, memory, cpusets, membership


def _second_sample(
    reader: Reader, quota: Quota | None, throttling: Throttling | None, limit: MemoryLimit
) -> tuple[float | None, int | None]:
    """Throttled share and memory.high events between two samples; live if the first is bad."""
    if reader.host.live:
        if not (throttling and throttling.throttled) and not limit.high_events:
            return None, None
        time.sleep(CONFIRM_SECONDS)
    share = None
    if throttling and reader.host.live:
        share = cpu_quota.share_since(throttling, cpu_quota.throttling(reader, quota))
    later = memory_limit.later_high_events(reader, limit)
    if later is None or limit.high_events is None or later < limit.high_events:
        return share, None
    return share, later - limit.high_events


def _allowed(reader: Reader) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """The CPUs and the memory nodes that the scheduler grants (/proc/self/status)."""
    text = reader.text("/proc/self/status", "affinity")
    fields = dict(line.split(":", 1) for line in (text or "").splitlines() if ":" in line)
    return tuple(  # type: ignore[return-value]
        _parsed(fields.get(name)) for name in ("Cpus_allowed_list", "Mems_allowed_list")
    )


def _parsed(text: str | None) -> tuple[int, ...] | None:
    """A list of numbers; None where it is missing, empty or none."""
    try:
        return parse_list(text or "") or None
    except ValueError:
        return None


def _cpuset(reader: Reader, cpusets: Groups | None, kind: str) -> tuple[int, ...] | None:
    """The effective set of the nearest group that has one; an empty file inherits its parent's."""
    names = (f"cpuset.{kind}.effective", f"cpuset.effective_{kind}", f"cpuset.{kind}")
    for directory in cpusets.directories if cpusets else ():
        for name in names:
            numbers = _parsed(reader.text(f"{directory}/{name}", None))
            if numbers:
                return numbers
    return None


def _usable(
    reader: Reader, affinity: tuple[int, ...] | None, cpuset: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """What affinity and cpuset leave of the online CPUs; None where neither is known."""
    limits = [set(numbers) for numbers in (affinity, cpuset) if numbers]
    if not limits:
        return None
    online = reader.numbers("/sys/devices/system/cpu/online", None)
    left = set.intersection(*limits, *([set(online)] if online else []))
    if not left:
        reader.gap(
            "usable_cpus", Reason.FAILED, "affinity, cpuset and online have no CPU in common"
        )
    return tuple(sorted(left)) or None


def _rlimits(reader: Reader) -> tuple[int | None, int | None]:
    """Soft limits on locked bytes and open files; None also for unlimited."""
    text = reader.text("/proc/self/limits", "memlock_bytes") or ""
    values = []
    for name in ("Max locked memory", "Max open files"):
        found = re.search(rf"^{name}\s+(\d+)\s", text, re.MULTILINE)
        values.append(int(found[1]) if found else None)
    return values[0], values[1]


def _mempolicy_errno(reader: Reader) -> int | None:
    """What set_mempolicy(MPOL_DEFAULT) answers; asked only where there are nodes to choose from."""
    nodes = [n for n in reader.names("/sys/devices/system/node") if _NODE.fullmatch(n)]
    if not reader.host.live or len(nodes) < 2:
        return None
    try:
        from nodecheck.machine import native

        return native.set_mempolicy_default_errno()
    except Exception as error:  # noqa: BLE001 - NativeUnavailable cannot be imported where it is raised
        reader.gap("mempolicy_errno", Reason.UNSUPPORTED, str(error))
        return None
