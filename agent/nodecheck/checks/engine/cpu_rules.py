"""Judges whether the engine's threads get the CPUs that they want."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.facts import CpuGroup, EngineFacts, Thread
from nodecheck.checks.engine.signs import (
    computing,
    demand,
    known_sum,
    subject,
    throttled_share,
    watched,
)
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count, listed, percent, ranges

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
        severity=_severity(seen),
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


def _severity(seen: Seen) -> Severity:
    """Critical where the threads had next to nothing of the time that they wanted."""
    threads = computing(seen)
    wanted, waited = sum(map(demand, threads)), _waited_together(threads)
    stalled = wanted and waited / wanted >= seen.policy.thresholds.engine_stalled_share
    return Severity.CRITICAL if stalled else Severity.WARNING


def _waited_together(threads: list[Thread]) -> float:
    return sum(thread.delay_share or 0.0 for thread in threads)


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
        yield _thread_evidence(engine, threads)


def _thread_evidence(engine: EngineFacts, threads: list[Thread]) -> Evidence:
    """What the threads that compute had of CPUs, and how long they waited for one."""
    number = len(threads)
    ran = sum(thread.cpu_share for thread in threads) / number
    known = [t.delay_share for t in threads if t.delay_share is not None]
    mean, most = (percent(sum(known) / number), percent(max(known))) if known else ("", "")
    waited = f", waited {mean}" + (f" (at most {most})" if most != mean else "")
    return Evidence(
        value=f"{count(number, 'thread')}: on average ran {percent(ran)} of {engine.seconds:.1f} s"
        + (waited if known else ""),
        source=f"/proc/{engine.pid}/task/*/schedstat",
    )


def _quota_impact(threads: list[Thread], group: CpuGroup) -> str:
    waited = _waited_together(threads) / len(threads) if threads else 0.0
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


def oversubscribed(seen: Seen) -> Iterator[Finding]:
    """engine.oversubscribed: its threads wait for CPUs that its own or others' threads have."""
    engine, limits = watched(seen), seen.policy.thresholds
    waited = longest_wait(seen)
    if engine is None or waited is None or waited < limits.engine_waited_share:
        return
    threads, usable = computing(seen), len(engine.usable_cpus or ())
    too_many = _outnumber(threads, usable)
    others = other_cpus(engine)
    told = percent(waited) if len(threads) == 1 else f"up to {percent(waited)}"
    if not usable or not (too_many or others >= limits.engine_waited_share):
        return
    yield Finding(
        id="engine.oversubscribed",
        severity=_severity(seen),
        subject=subject(engine),
        summary=f"{_sharing(len(threads), usable)}{'' if too_many else ' with other programs'} and "
        f"waited {told} of the window for {'it' if usable == 1 else 'one'}",
        headline=f"{'It waits' if len(threads) == 1 else 'Its threads wait'} {told} of the time "
        f"for CPUs{'' if too_many else ' that others use'}",
        evidence=tuple(_waiting_evidence(seen, engine, threads)),
        impact=_waiting_impact(waited, len(threads)),
        remedy=_fewer(seen, usable) if too_many else _room(seen, engine, len(threads), others),
        owner=Owner.USER,
    )


def _sharing(threads: int, usable: int) -> str:
    verb = "shares" if threads == 1 else "share"
    return f"{count(threads, 'thread')} {verb} {count(usable, 'CPU')}"


def longest_wait(seen: Seen) -> float | None:
    """How long the computing thread that waited most did so, without what a quota can explain.

    The slowest sets the pace: threads meet at every layer. None where that is not known, or a
    quota whose effect was not counted may be the reason.
    """
    engine = seen.facts.engine
    threads = computing(seen)
    known = [t.delay_share for t in threads if t.delay_share is not None]
    if not known:
        return None
    stopped = throttled_share(engine)
    group = engine.cpu_group
    if stopped is None and group is not None and group.quota_cpus < sum(map(demand, threads)):
        return None
    return max(0.0, max(known) - (stopped or 0.0))


def _outnumber(threads: list[Thread], usable: int) -> bool:
    """Whether on average more of its own threads wanted a CPU than it may use."""
    return sum(map(demand, threads)) > usable


def other_cpus(engine: EngineFacts) -> float:
    """CPUs that programs beside it kept busy, as far as they are known."""
    named = sum(other.cpus for other in engine.others)
    return max(named, (engine.busy_cpus or 0.0) - (engine.cpus or 0.0))


def other_evidence(engine: EngineFacts) -> Iterator[Evidence]:
    """Who else used the node's CPUs."""
    if engine.others:
        named = [f"{o.name} ({o.pid}) {o.cpus:.1f} CPUs" for o in engine.others]
        yield Evidence(value=listed(named, most=3), source="/proc/*/stat")
    elif engine.busy_cpus is not None:
        yield Evidence(value=f"others kept {other_cpus(engine):.1f} CPUs busy", source="/proc/stat")


def _waiting_evidence(seen: Seen, engine: EngineFacts, threads: list[Thread]) -> Iterator[Evidence]:
    part = _thread_evidence(engine, threads)
    yield Evidence(
        value=part.value,
        source=part.source,
        expected=f"waits below {percent(seen.policy.thresholds.engine_waited_share)}",
        basis="policy engine_waited_share",
    )
    yield Evidence(
        value=f"{'CPU' if len(engine.usable_cpus or ()) == 1 else 'CPUs'} "
        f"{ranges(engine.usable_cpus or ())}; on average {sum(map(demand, threads)):.1f} threads "
        "wanted one",
        source=f"/proc/{engine.pid}/status Cpus_allowed_list",
    )
    yield from other_evidence(engine)
    pushed = known_sum(thread.involuntary_switches for thread in threads)
    if pushed:
        yield Evidence(
            value=f"involuntary switches: {pushed:,}",
            source=f"/proc/{engine.pid}/task/*/status",
        )


def _waiting_impact(waited: float, threads: int) -> str:
    if threads < 2:
        return f"Without the wait its thread does up to {gain_of(waited)} as much"
    return (
        f"Without the wait its slowest thread does up to {gain_of(waited)} as much, and all others "
        "wait for it at every layer: one busy program beside two threads on two CPUs has cost 3x "
        "to 5x"
    )


def gain_of(waited: float) -> str:
    """What a thread does at most that no longer waits for this part of the window: "1.8x"."""
    return f"{1 / max(0.01, 1 - waited):.1f}x"


def best_threads(seen: Seen, usable: int) -> int:
    """As many threads as the engine has cores: siblings of one core share what computes."""
    cpu, group = seen.facts.cpu, seen.facts.engine.cpu_group
    best = usable
    if cpu.physical_cores and cpu.logical_cpus and usable == cpu.logical_cpus:
        best = min(usable, cpu.physical_cores)
    return max(1, min(best, int(group.quota_cpus)) if group else best)


def _fewer(seen: Seen, usable: int) -> Remedy:
    number = best_threads(seen, usable)
    each = f", one for each {_of_what(seen, number, usable)}" if number > 1 else ""
    return Remedy(
        text=f"Start it with {count(number, 'thread')}{each}",
        action=Action.RESTART_ENGINE,
        commands=remedies.thread_commands(seen, number),
        cost="One restart of the engine",
    )


def _of_what(seen: Seen, number: int, usable: int) -> str:
    if number == usable:
        return "CPU that it may use"
    is_cores = number == seen.facts.cpu.physical_cores
    return "core that it may use" if is_cores else "whole CPU of its quota"


def _room(seen: Seen, engine: EngineFacts, threads: int, others: float) -> Remedy:
    usable = len(engine.usable_cpus or ())
    left = max(1, min(best_threads(seen, usable), usable - round(others + 0.4)))
    who = f" ({listed([f'{o.name} {o.pid}' for o in engine.others], most=3)})"
    moved = (f"taskset -acp <CPUS> {engine.others[0].pid}",) if engine.others else ()
    text = f"Stop or move the other programs{who if engine.others else ''}"
    cost = "What the other programs do takes longer"
    if left >= threads:
        return Remedy(text=text, action=Action.CHANGE_SETTING, commands=moved, cost=cost)
    return Remedy(
        text=f"{text}, or start the engine with the "
        f"{'one thread' if left == 1 else f'{left} threads'} that they leave room for",
        action=Action.CHANGE_SETTING,
        commands=(*moved, *remedies.thread_commands(seen, left)),
        cost=f"{cost}, or one restart of the engine",
    )


def cpus(number: float) -> str:
    """Write "1 CPU", "0.5 CPUs"."""
    return f"{number:.2f}".rstrip("0").rstrip(".") + (" CPU" if number == 1 else " CPUs")
