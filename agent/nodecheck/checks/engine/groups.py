"""The control groups that hold an engine: whose CPU quota binds, whose memory limit is met."""

from __future__ import annotations

import msgspec

from nodecheck.checks.engine.facts import CpuGroup, MemoryGroup
from nodecheck.checks.engine.others import refaults, rise
from nodecheck.checks.engine.tasks import NANOSECONDS, Moment
from nodecheck.machine import cgroups, memory_limit
from nodecheck.machine.cpu_quota import Quota, quotas
from nodecheck.machine.memory_limit import MemoryLimit
from nodecheck.machine.reader import Reader, counters
from nodecheck.model import Reason, Struct


class Groups(Struct, frozen=True):
    """What limits a process: every quota from its own group up, and the tightest memory limit."""

    quotas: tuple[Quota, ...] = ()
    memory: MemoryLimit = MemoryLimit()


class Counts(Struct, frozen=True):
    """The counters of the groups: of each quota's cpu.stat, and of the memory limit's group."""

    cpu: dict[Quota, dict[str, int]] = msgspec.field(default_factory=dict)
    file_refaults: int | None = None
    limit_hits: int | None = None


def find(reader: Reader, pid: int) -> Groups:
    """The groups of a process; none where it is gone, or in no group. Gaps: cpu_group."""
    membership = cgroups.parse_membership(reader.text(f"/proc/{pid}/cgroup", None) or "")
    if not membership.paths:
        return Groups()
    mounts = cgroups.read_mounts(reader)
    cpu, memory = (cgroups.groups(reader, membership, mounts, name) for name in ("cpu", "memory"))
    if cpu is None:
        detail = f"the control group of process {pid} is not to be seen from here"
        reader.gap("cpu_group", Reason.ABSENT, detail)
    return Groups(quotas(reader, cpu, "cpu_group"), memory_limit.smallest(reader, memory))


def later(reader: Reader, pid: int, before: Groups) -> Groups:
    """The quotas at the end of the window. Where one changed nobody counted what it did.

    Gaps: cpu_group.periods, cpu_group where none is left.
    """
    found = find(Reader(reader.host, reader.check), pid).quotas
    was, now = ({each.source: each.cpus for each in ends} for ends in (before.quotas, found))
    for source in {**was, **now}:
        if was.get(source) != now.get(source):
            told = f"{_cpus(was.get(source))} before, now {_cpus(now.get(source))} ({source})"
            detail = f"the quota changed while it was watched: {told}"
            reader.gap("cpu_group.periods" if source in now else "cpu_group", Reason.FAILED, detail)
    return msgspec.structs.replace(before, quotas=found)


def _cpus(number: float | None) -> str:
    return "none" if number is None else f"{number:g} CPU{'' if number == 1 else 's'}"


def counts(moment: Moment, groups: Groups) -> Counts:
    """What the groups have counted since they were made; nothing of one that is gone."""
    directory, _, file = (groups.memory.source or "").rpartition("/")
    statistics = counters(moment.text(f"{directory}/memory.stat") or "") if directory else {}
    return Counts(
        cpu={
            quota: counters(moment.text(f"{quota.directory}/cpu.stat") or "")
            for quota in groups.quotas
        },
        file_refaults=refaults(statistics),
        limit_hits=None if memory_limit.INHERITED in file else _hits(moment, directory),
    )


def _hits(moment: Moment, directory: str) -> int | None:
    events = counters(moment.text(f"{directory}/memory.events") or "")
    if "max" in events:
        return events["max"]
    return counters(f"failcnt {moment.text(f'{directory}/memory.failcnt')}").get("failcnt")


def cpu_group(groups: Groups, before: Counts, after: Counts) -> CpuGroup | None:
    """The group whose quota stopped its tasks in most periods; where none did, the smallest quota.

    One above that others share can bind before the process's own.
    """
    found = [
        _between(quota, before.cpu.get(quota, {}), after.cpu.get(quota, {}))
        for quota in groups.quotas
    ]
    return min(found, key=lambda group: (-_throttled_share(group), group.quota_cpus), default=None)


def _between(quota: Quota, then: dict[str, int], now: dict[str, int]) -> CpuGroup:
    def rose(name: str) -> int | None:
        return rise(then.get(name), now.get(name))

    nanoseconds, microseconds = rose("throttled_time"), rose("throttled_usec")
    seconds = nanoseconds / NANOSECONDS if nanoseconds is not None else None
    return CpuGroup(
        source=quota.source,
        quota_cpus=quota.cpus,
        periods=rose("nr_periods"),
        throttled_periods=rose("nr_throttled"),
        throttled_seconds=microseconds / 1e6 if microseconds is not None else seconds,
    )


def _throttled_share(group: CpuGroup) -> float:
    return (group.throttled_periods or 0) / group.periods if group.periods else 0.0


def memory_group(groups: Groups, before: Counts, after: Counts) -> MemoryGroup | None:
    """The group with the tightest limit; None where nothing is limited."""
    limit = groups.memory
    if limit.limit_bytes is None or limit.source is None:
        return None
    return MemoryGroup(
        source=limit.source,
        limit_bytes=limit.limit_bytes,
        current_bytes=limit.current_bytes,
        file_refaults=rise(before.file_refaults, after.file_refaults),
        limit_hits=rise(before.limit_hits, after.limit_hits),
    )
