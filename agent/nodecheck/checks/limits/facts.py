"""What this process may use of the node."""

from __future__ import annotations

from nodecheck.model import Struct


class LimitsFacts(Struct, frozen=True, kw_only=True):
    """Limits of affinity, control groups and rlimits; "no limit" is None, whatever its sentinel.

    `cpu_quota` is in CPUs, exact; `thread_budget` is it rounded down, at least 1. `usable_cpus` are
    the CPUs that affinity and cpuset leave.

    `throttled_share` is nr_throttled / nr_periods since the cgroup was made; `throttled_share_now`
    the same between two samples; `throttled_periods` is nr_periods. `memory_headroom_bytes` is the
    least that any limited cgroup of the process leaves: limit - current + active and inactive file
    pages. `memory_high_bytes` is the smallest memory.high, `memory_high_events` how often it was
    hit, `memory_high_events_now` how often between two samples.
    """

    affinity: tuple[int, ...] | None = None
    cpuset: tuple[int, ...] | None = None
    usable_cpus: tuple[int, ...] | None = None
    mems_allowed: tuple[int, ...] | None = None
    cgroup_version: str | None = None
    cgroup_path: str | None = None
    cpu_quota: float | None = None
    cpu_quota_source: str | None = None
    thread_budget: int | None = None
    throttled_share: float | None = None
    throttled_share_now: float | None = None
    throttled_source: str | None = None
    throttled_periods: int | None = None
    memory_limit_bytes: int | None = None
    memory_limit_source: str | None = None
    memory_current_bytes: int | None = None
    memory_file_bytes: int | None = None
    memory_high_bytes: int | None = None
    memory_headroom_bytes: int | None = None
    memory_high_events: int | None = None
    memory_high_events_now: int | None = None
    memlock_bytes: int | None = None
    nofile: int | None = None
    mempolicy_errno: int | None = None
