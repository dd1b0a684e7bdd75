"""Judges what this process may use of the node's CPUs and memory."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.limits.setter import setter
from nodecheck.checks.seen import Rule, Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, gib, percent, ranges


def _quota(seen: Seen) -> Iterator[Finding]:
    limits, logical = seen.facts.limits, seen.facts.cpu.logical_cpus
    quota, budget = limits.cpu_quota, limits.thread_budget
    if quota is None or budget is None or logical is None or quota >= logical:
        return
    throttled = _is_throttled(seen)
    yield Finding(
        id="cpu.quota",
        severity=Severity.CRITICAL if throttled else Severity.WARNING,
        subject="CPU",
        summary=f"This process may use {_cpus(quota)} of {logical}"
        + (
            f" and was stopped in {percent(limits.throttled_share or 0)} of the scheduler's periods"
            if throttled
            else ""
        ),
        evidence=tuple(_quota_evidence(seen, quota, logical)),
        impact=_quota_impact(seen, budget, logical),
        remedy=_quota_remedy(seen, budget, logical),
        owner=Owner.USER if throttled else setter(seen, limits.cpu_quota_source).owner,
    )


def _is_throttled(seen: Seen) -> bool:
    """Whether the quota was seen to bite; our own start may fill a live group's first periods."""
    limits, thresholds = seen.facts.limits, seen.policy.thresholds
    if seen.live and (limits.throttled_periods or 0) < thresholds.throttled_periods_min:
        return False
    return (limits.throttled_share or 0) >= thresholds.throttled_critical_share


def _quota_evidence(seen: Seen, quota: float, logical: int) -> Iterator[Evidence]:
    limits = seen.facts.limits
    yield Evidence(
        value=f"quota over period: {quota:.2f}",
        source=limits.cpu_quota_source or "cgroup",
        expected=f"{logical} logical CPUs",
        basis="the CPUs that are online; programs that count CPUs do not see a quota",
    )
    if limits.throttled_share is None:
        return
    now = limits.throttled_share_now
    yield Evidence(
        value=f"throttled in {percent(limits.throttled_share)} of "
        f"{count(limits.throttled_periods or 0, 'period')}"
        + (f", {percent(now)} just now" if now is not None else ""),
        source=limits.throttled_source or "cpu.stat",
        expected=f"below {percent(seen.policy.thresholds.throttled_critical_share)}",
        basis="policy throttled_critical_share",
    )


def _quota_impact(seen: Seen, budget: int, logical: int) -> str:
    share = seen.facts.limits.throttled_share
    held = f", so far in {percent(share)} of the periods" if share else ""
    return (
        f"An engine that starts {logical} threads shares {count(budget, 'CPU')} among them; "
        "when the time of a scheduler period (0.1 s, unless set otherwise) is used up, all of them "
        f"stand still until the next{held}. Work on the GPU alone is hardly affected"
    )


def _quota_remedy(seen: Seen, budget: int, logical: int) -> Remedy:
    maker = setter(seen, seen.facts.limits.cpu_quota_source)
    raised = (maker.cpu_command or "").format(cpus=logical, percent=100 * logical)
    return Remedy(
        text=f"Start the engine with {count(budget, 'thread')}, or raise the limit {maker.where}",
        action=Action.RESTART_ENGINE,
        commands=(
            f"llama-server --threads {budget} --threads-batch {budget}",
            f"OMP_NUM_THREADS={budget}",
            *([raised] if raised else []),
        ),
        cost=f"Threads: one restart of the engine. Limit: {maker.cost[:1].lower()}{maker.cost[1:]}",
    )


def _cpus(quota: float) -> str:
    return f"{quota:.2f}".rstrip("0").rstrip(".") + (" CPU" if quota == 1 else " CPUs")


def _affinity(seen: Seen) -> Iterator[Finding]:
    usable, online = seen.facts.limits.usable_cpus, _online(seen)
    if not usable or not online:
        return
    missing = online - set(usable) - set(seen.facts.cpu.isolated or ())
    if not missing:
        return
    yield Finding(
        id="cpu.affinity",
        severity=Severity.INFO,
        subject="CPU",
        summary=f"This process may run on {len(usable)} of {len(online)} online CPUs",
        evidence=tuple(_affinity_evidence(seen, online)),
        impact=f"{count(len(missing), 'CPU')} ({ranges(missing)}) "
        f"{'is' if len(missing) == 1 else 'are'} left to others; an engine "
        f"with more than {count(len(usable), 'thread')} makes its threads wait for each other",
        remedy=Remedy(
            text=f"Start the engine with at most {count(len(usable), 'thread')}, or widen the set",
            action=Action.CHANGE_SETTING,
            commands=(
                f"llama-server --threads {len(usable)}",
                f"taskset -c {ranges(online)} <COMMAND>",
            ),
            cost="One restart of the engine",
        ),
        owner=Owner.USER,
    )


def _online(seen: Seen) -> set[int]:
    """The online CPUs; without sysfs as many as cpuinfo has, if the usable ones are among them."""
    cpu = seen.facts.cpu
    if cpu.online is not None:
        return set(cpu.online)
    counted = set(range(cpu.logical_cpus or 0))
    return counted if counted.issuperset(seen.facts.limits.usable_cpus or ()) else set()


def _affinity_evidence(seen: Seen, online: set[int]) -> Iterator[Evidence]:
    limits = seen.facts.limits
    sets = (
        (limits.affinity, "/proc/self/status Cpus_allowed_list"),
        (limits.cpuset, "cpuset of the process's cgroup"),
    )
    for numbers, source in sets:
        if numbers is not None and online - set(numbers):
            yield Evidence(
                value=f"CPUs {ranges(numbers)}",
                source=source,
                expected=f"CPUs {ranges(online)}",
                basis="the CPUs that are online",
            )


def _memory_limit(seen: Seen) -> Iterator[Finding]:
    limits, total = seen.facts.limits, seen.facts.memory.total_bytes
    limit, share = limits.memory_limit_bytes, seen.policy.thresholds.memory_limit_share
    if limit is None or total is None or limit >= share * total:
        return
    maker = setter(seen, limits.memory_limit_source)
    command = (maker.memory_command or "").format(memory="<SIZE>")
    yield Finding(
        id="mem.cgroup_limit",
        severity=Severity.WARNING,
        subject="RAM",
        summary=f"This process may use {gib(limit)} of the node's {gib(total)}",
        evidence=tuple(_memory_evidence(seen, limit, total)),
        impact="A pool that is sized from /proc/meminfo (psutil, MemTotal) is killed at "
        f"{gib(limit)}; {gib(total - limit)} are out of reach",
        remedy=Remedy(
            text=f"Give the engine's pools sizes that fit into {gib(limit)}, or raise the limit "
            f"{maker.where}",
            action=maker.action,
            commands=(command,) if command else (),
            cost=maker.cost,
        ),
        owner=maker.owner,
    )


def _memory_evidence(seen: Seen, limit: int, total: int) -> Iterator[Evidence]:
    limits = seen.facts.limits
    yield Evidence(
        value=f"{limit} bytes",
        source=limits.memory_limit_source or "cgroup",
        expected=f"at least {percent(seen.policy.thresholds.memory_limit_share)} of {gib(total)}",
        basis="MemTotal in /proc/meminfo, policy memory_limit_share",
    )
    if limits.memory_high_bytes is not None and limits.memory_high_bytes < limit:
        yield Evidence(
            value=f"memory.high {gib(limits.memory_high_bytes)}, from where the kernel "
            "reclaims and slows the process",
            source="memory.high of the process's cgroup or an ancestor",
        )
    if limits.memory_headroom_bytes is not None:
        yield Evidence(
            value=f"{gib(limits.memory_headroom_bytes)} left",
            source="limit or memory.high, the lower, - current + file pages that can be dropped",
        )


def _mempolicy(seen: Seen) -> Iterator[Finding]:
    refused, nodes = seen.facts.limits.mempolicy_errno, seen.facts.numa.nodes
    if not refused or len(nodes) < 2:
        return
    yield Finding(
        id="limits.mempolicy_denied",
        severity=Severity.WARNING,
        subject="NUMA",
        summary=f"The system call set_mempolicy is refused to this process (errno {refused})",
        evidence=(
            Evidence(
                value=f"returned -1 with errno {refused}",
                source="set_mempolicy(MPOL_DEFAULT)",
                expected="0",
                basis=f"{len(nodes)} NUMA nodes; the system call changes nothing",
            ),
        ),
        impact="An engine cannot place its memory: --numa, numactl and NUMA-aware caches fail or "
        "are ignored, and CPU inference runs at the speed of the remote node's memory",
        remedy=Remedy(
            text="Allow set_mempolicy and mbind in the container's seccomp profile, or pin the "
            "container from outside",
            action=Action.RESTART_CONTAINER,
            commands=(
                "docker run --cap-add SYS_NICE ...",
                "docker run --cpuset-cpus <CPUS> --cpuset-mems <NODE> ...",
            ),
            cost="One restart of the container",
        ),
        owner=Owner.OPERATOR,
    )


RULES: tuple[Rule, ...] = (
    Rule("cpu.quota", "A CPU quota leaves the process fewer CPUs than it sees", _quota),
    Rule("cpu.affinity", "The process may run on some of the online CPUs only", _affinity),
    Rule("mem.cgroup_limit", "A cgroup limits the process's memory", _memory_limit),
    Rule("limits.mempolicy_denied", "The process may not choose where its memory lies", _mempolicy),
)
