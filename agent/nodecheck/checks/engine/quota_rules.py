"""Judges whether a CPU quota stops the engine again and again."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.cpu_rules import cpus, severity, thread_evidence, waited_together
from nodecheck.checks.engine.facts import CpuGroup, EngineFacts, Thread
from nodecheck.checks.engine.signs import computing, subject, throttled_share, watched
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy
from nodecheck.units import count, percent

_PUBLIC = "8 threads on 4 CPUs decoded at 0.27 tok/s and 4 threads at 12.07 (ollama#17916)"


def throttled_quota(seen: Seen) -> Iterator[Finding]:
    """engine.throttled_quota: a CPU quota stops it again and again."""
    engine, limits = watched(seen), seen.policy.thresholds
    group = engine.cpu_group if engine else None
    share = throttled_share(engine) if engine else None
    if engine is None or group is None or share is None:
        return
    if share < limits.engine_throttled_share or (group.periods or 0) < limits.throttled_periods_min:
        return
    if not _uses(seen, engine, group):
        return
    wanting = computing(seen)
    budget = _budget(seen, group)
    yield Finding(
        id="engine.throttled_quota",
        severity=severity(seen),
        subject=subject(engine),
        summary=f"A quota of {cpus(group.quota_cpus)} stopped it in {percent(share)} of the "
        "scheduler's periods" + (f": {_threads(wanting)}" if wanting else ""),
        headline=f"A CPU quota of {group.quota_cpus:.3g} stops {_whose(wanting)}",
        evidence=tuple(_quota_evidence(seen, engine, group)),
        impact=_quota_impact(wanting, group),
        remedy=_quota_remedy(seen, group, budget, len(wanting)),
        owner=Owner.USER if len(wanting) > budget else Owner.OPERATOR,
    )


def _uses(seen: Seen, engine: EngineFacts, group: CpuGroup) -> bool:
    """Whether the engine is among what the quota stops: a group may hold other programs too."""
    return bool(computing(seen)) or (engine.cpus or 0) >= group.quota_cpus / 2


def _threads(threads: list[Thread]) -> str:
    verb = "wants" if len(threads) == 1 else "want"
    return f"{count(len(threads), 'thread')} {verb} to run"


def _whose(threads: list[Thread]) -> str:
    return f"its {len(threads)} threads" if len(threads) > 1 else "it"


def _quota_evidence(seen: Seen, engine: EngineFacts, group: CpuGroup) -> Iterator[Evidence]:
    stood = group.throttled_seconds
    yield Evidence(
        value=f"{group.throttled_periods} of {count(group.periods or 0, 'period')} throttled"
        + (f", {stood:.1f} s of all its CPUs together" if stood else ""),
        source=f"{group.source.rpartition('/')[0]}/cpu.stat",
        expected=f"below {percent(seen.policy.thresholds.engine_throttled_share)}",
        basis="policy engine_throttled_share",
    )
    yield Evidence(
        value=f"quota over period {group.quota_cpus:.2f}, used {engine.cpus or 0:.2f} CPUs",
        source=group.source,
    )
    if threads := computing(seen):
        yield thread_evidence(engine, threads)


def _quota_impact(threads: list[Thread], group: CpuGroup) -> str:
    waited = waited_together(threads) / len(threads) if threads else 0.0
    its = "Its thread" if len(threads) == 1 else "Its threads"
    stood = f"{its} stood still for {percent(waited)} of the window. " if waited else ""
    if len(threads) > max(1.0, group.quota_cpus):
        return (
            f"{stood}{count(len(threads), 'thread')} use up {cpus(group.quota_cpus)} early in each "
            f"period and wait for each other at every layer: {_PUBLIC}"
        )
    return f"{stood}It gets no more than {cpus(group.quota_cpus)}, whatever it could use"


def _quota_remedy(seen: Seen, group: CpuGroup, budget: int, wanting: int) -> Remedy:
    raised = _up_to_all(seen, max(wanting, budget + 1))
    can_raise = raised > group.quota_cpus
    raise_it = remedies.quota_commands(seen, group.source, raised) if can_raise else ()
    if wanting <= budget and wanting:
        return _for_the_group(raised, raise_it) if can_raise else _apart()
    whole = "s" if budget > 1 else ""
    text = f"Start it with {count(budget, 'thread')}, the whole CPU{whole} of the quota"
    if group.quota_cpus < 1:
        text = f"Start it with {count(budget, 'thread')}"
    least = "; even one thread needs a whole CPU" if group.quota_cpus < 1 else ""
    return Remedy(
        text=text + (f", or raise the quota to {count(raised, 'CPU')}{least}" if can_raise else ""),
        action=Action.RESTART_ENGINE,
        commands=(*remedies.thread_commands(seen, budget), *raise_it),
        cost="Threads: one restart of the engine" + (". Quota: CPUs that others use" * can_raise),
    )


def _for_the_group(raised: int, commands: tuple[str, ...]) -> Remedy:
    """Where other programs of the control group use up the quota."""
    return Remedy(
        text=f"Raise the quota to {count(raised, 'CPU')}: fewer threads cannot help",
        action=Action.CHANGE_SETTING,
        commands=commands,
        cost="CPUs that others use",
    )


def _apart() -> Remedy:
    return Remedy(
        text="Move the other programs of its control group out of it: the quota is all that the "
        "engine can use, and fewer threads cannot help",
        action=Action.CHANGE_SETTING,
        cost="The quota no longer binds the other programs",
    )


def _budget(seen: Seen, group: CpuGroup) -> int:
    """Threads for which the quota is enough."""
    return max(1, _up_to_all(seen, int(group.quota_cpus)))


def _up_to_all(seen: Seen, number: int) -> int:
    """So many CPUs, and no more than the engine may use, or the node has."""
    engine, cpu = seen.facts.engine, seen.facts.cpu
    most = len(engine.usable_cpus or ()) or cpu.logical_cpus
    return min(number, most) if most else number
