"""Judges whether the engine's threads get the CPUs that they want."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.engine import remedies
from nodecheck.checks.engine.facts import OTHERS_NAMED, EngineFacts, Thread
from nodecheck.checks.engine.memory_rules import waits_for_disk
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

PRESSING_SHARE = 0.5
"""A thread that wants a CPU for less of the window waits mostly for something else, such as a disk:
it would gain little by a CPU of its own."""

TOLD_CPUS = 0.1
"""Less than this of others' work is not worth a word."""


def severity(seen: Seen) -> Severity:
    """Critical where the threads had next to nothing of the time that they wanted."""
    threads = computing(seen)
    wanted, waited = sum(map(demand, threads)), waited_together(threads)
    stalled = wanted and waited / wanted >= seen.policy.thresholds.engine_stalled_share
    return Severity.CRITICAL if stalled else Severity.WARNING


def waited_together(threads: list[Thread]) -> float:
    return sum(thread.delay_share or 0.0 for thread in threads)


def thread_evidence(engine: EngineFacts, threads: list[Thread]) -> Evidence:
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


def oversubscribed(seen: Seen) -> Iterator[Finding]:
    """engine.oversubscribed: its threads wait for CPUs that its own or others' threads have."""
    engine, limits = watched(seen), seen.policy.thresholds
    waited = longest_wait(seen)
    if engine is None or waited is None or waited < limits.engine_waited_share:
        return
    threads, usable = _pressing(seen), len(engine.usable_cpus or ())
    too_many = _outnumber(seen, threads, usable)
    others = other_cpus(engine)
    if not usable or not (too_many or others >= limits.engine_waited_share):
        return
    if waits_for_disk(seen):
        return
    told = percent(waited) if len(threads) == 1 else f"up to {percent(waited)}"
    yield Finding(
        id="engine.oversubscribed",
        severity=severity(seen),
        subject=subject(engine),
        summary=f"{_sharing(len(threads), usable)}{'' if too_many else ' with other programs'} and "
        f"waited {told} of the window for {'it' if usable == 1 else 'one'}",
        headline=f"{'It waits' if len(threads) == 1 else 'Its threads wait'} {told} of the time "
        f"for CPUs{'' if too_many else ' that others use'}",
        evidence=tuple(_waiting_evidence(seen, engine, threads)),
        impact=_waiting_impact(waited, len(threads)),
        remedy=_fewer(seen, threads, usable) if too_many else _room(seen, engine, threads, others),
        owner=Owner.USER,
    )


def _pressing(seen: Seen) -> list[Thread]:
    """The threads whose pace the CPUs can set."""
    return [thread for thread in computing(seen) if demand(thread) >= PRESSING_SHARE]


def _sharing(threads: int, usable: int) -> str:
    verb = "shares" if threads == 1 else "share"
    return f"{count(threads, 'thread')} {verb} {count(usable, 'CPU')}"


def longest_wait(seen: Seen) -> float | None:
    """How long the pressing thread that waited most did so, without what a quota can explain.

    The slowest sets the pace: threads meet at every layer. None where that is not known, or a
    quota whose effect was not counted may be the reason.
    """
    engine = seen.facts.engine
    known = [t.delay_share for t in _pressing(seen) if t.delay_share is not None]
    if not known:
        return None
    stopped = throttled_share(engine)
    group = engine.cpu_group
    if stopped is None and group is not None and group.quota_cpus < _wanted(computing(seen)):
        return None
    return max(0.0, max(known) - (stopped or 0.0))


def _wanted(threads: list[Thread]) -> float:
    """How many of them wanted a CPU, on average."""
    return sum(map(demand, threads))


def _outnumber(seen: Seen, threads: list[Thread], usable: int) -> bool:
    """Whether more of its own threads compute than it may use CPUs.

    Where its setting asks for the best number already, only a second pool of threads is too many.
    """
    known = _set_threads(seen.facts.engine)
    most = 2 * known - 1 if known and known == best_threads(seen, usable) else usable
    return len(threads) > max(usable, most) and _wanted(threads) > usable


def _set_threads(engine: EngineFacts) -> int | None:
    """The number of threads that its setting asks for."""
    setting = engine.settings.get("threads", "")
    return int(setting) if setting.isascii() and setting.isdigit() else None


def other_cpus(engine: EngineFacts) -> float:
    """CPUs, of those that it may use, that programs beside it kept busy, as far as is known."""
    own = engine.cpus or 0.0
    if engine.usable_busy_cpus is not None:
        return max(0.0, engine.usable_busy_cpus - own)
    named = sum(other.cpus for other in engine.others)
    return max(named, (engine.busy_cpus or 0.0) - own)


def other_evidence(engine: EngineFacts) -> Iterator[Evidence]:
    """Who else used its CPUs."""
    rest = other_cpus(engine) - sum(other.cpus for other in engine.others)
    gone = "programs that came and went or are hidden from us"
    if engine.others:
        named = listed([f"{o.name} ({o.pid}) {o.cpus:.1f} CPUs" for o in engine.others], most=3)
        who = gone if len(engine.others) < OTHERS_NAMED else "other programs"
        more = f" and {rest:.1f} CPUs by {who}" if rest >= TOLD_CPUS else ""
        yield Evidence(value=named + more, source="/proc/*/stat")
    elif engine.busy_cpus is not None:
        yield Evidence(value=f"{gone} kept {rest:.1f} CPUs busy", source="/proc/stat")


def _waiting_evidence(seen: Seen, engine: EngineFacts, threads: list[Thread]) -> Iterator[Evidence]:
    part = thread_evidence(engine, threads)
    yield Evidence(
        value=part.value,
        source=part.source,
        expected=f"waits below {percent(seen.policy.thresholds.engine_waited_share)}",
        basis="policy engine_waited_share",
    )
    yield Evidence(
        value=f"{'CPU' if len(engine.usable_cpus or ()) == 1 else 'CPUs'} "
        f"{ranges(engine.usable_cpus or ())}; on average {_wanted(threads):.1f} threads "
        "wanted one",
        source=f"/proc/{engine.pid}/status Cpus_allowed_list",
    )
    yield from other_evidence(engine)
    if engine.nice and engine.nice > 0:
        yield Evidence(
            value=f"nice {engine.nice}: others go first",
            source=f"/proc/{engine.pid}/stat",
            expected="nice 0",
        )
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


def _fewer(seen: Seen, threads: list[Thread], usable: int) -> Remedy:
    """Fewer than it has: of several processes each has its share."""
    best, processes = best_threads(seen, usable), len({thread.pid for thread in threads})
    number = max(1, best // processes)
    if processes == len(threads) > 1:
        text = f"Run no more than {best} of its {processes} processes that compute at a time"
    elif processes > 1:
        each = f": one for each {_of_what(seen, best, usable)}" if best >= processes else ""
        text = f"Start each of its {processes} processes with {count(number, 'thread')}{each}"
    else:
        each = f", one for each {_of_what(seen, best, usable)}" if best > 1 else ""
        text = f"Start it with {count(number, 'thread')}{each}"
    return Remedy(
        text=text,
        action=Action.RESTART_ENGINE,
        commands=remedies.thread_commands(seen, number) if processes < len(threads) else (),
        cost="One restart of the engine",
    )


def _of_what(seen: Seen, number: int, usable: int) -> str:
    if number == usable:
        return "CPU that it may use"
    is_cores = number == seen.facts.cpu.physical_cores
    return "core that it may use" if is_cores else "whole CPU of its quota"


def _room(seen: Seen, engine: EngineFacts, threads: list[Thread], others: float) -> Remedy:
    usable = len(engine.usable_cpus or ())
    left = max(1, min(best_threads(seen, usable), usable - round(others + 0.4)))
    moved = (*_reniced(engine), *moved_away(seen, engine, others))
    text = _make_room(engine, others)
    cost = "What the other programs do takes longer"
    has = min(len(threads), _set_threads(engine) or len(threads))
    if left >= has or len({thread.pid for thread in threads}) > 1:
        return Remedy(text=text, action=Action.CHANGE_SETTING, commands=moved, cost=cost)
    return Remedy(
        text=f"{text}, or start the engine with the "
        f"{'one thread' if left == 1 else f'{left} threads'} that they leave room for",
        action=Action.CHANGE_SETTING,
        commands=(*moved, *remedies.thread_commands(seen, left)),
        cost=f"{cost}, or one restart of the engine",
    )


def _make_room(engine: EngineFacts, others: float) -> str:
    """What to do with the others, by name where those explain half of their work."""
    first = "Let it have the priority of others. " if _reniced(engine) else ""
    named = [f"{other.name} {other.pid}" for other in engine.others]
    explained = sum(other.cpus for other in engine.others) >= others / 2
    who = f" ({listed(named, most=3)})" if named and explained else ""
    return f"{first}Stop or move the other programs{who}"


def _reniced(engine: EngineFacts) -> tuple[str, ...]:
    """How it gets the priority back that it was started without."""
    return (f"sudo renice -n 0 -p {engine.pid}",) if engine.nice and engine.nice > 0 else ()


def moved_away(seen: Seen, engine: EngineFacts, others: float) -> tuple[str, ...]:
    """How the busiest goes to CPUs that the engine may not use, if it explains the half."""
    left = set(seen.facts.cpu.online or ()) - set(engine.usable_cpus or ())
    if not left or not engine.others or engine.others[0].cpus < others / 2:
        return ()
    return (f"taskset -acp {ranges(left)} {engine.others[0].pid}",)


def cpus(number: float) -> str:
    """Write "1 CPU", "0.5 CPUs"."""
    return f"{number:.2f}".rstrip("0").rstrip(".") + (" CPU" if number == 1 else " CPUs")
