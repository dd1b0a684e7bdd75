"""Threads that ran, those that are alike folded into one row."""

from __future__ import annotations

import re

from nodecheck.checks.engine.facts import EngineFacts, Process, Thread
from nodecheck.render.layout import Column, Line, Span, table
from nodecheck.units import count, percent, ranges

ROWS_SHOWN = 6
ALIKE_SHARE = 0.10
"""Shares of the window that differ by less are told as one."""

RAN, WAITED, CPUS = Column("ran", 8), Column("waited", 8), Column("on CPU", 12)
INDENT = 1
PIDS_SHOWN = 3
_NUMBER = re.compile(r"\d+")


def threads(facts: EngineFacts, width: int) -> list[Line]:
    """A table of them, the busiest first, and how many hardly ran."""
    if not facts.threads:
        return []
    groups = fold(facts)
    names = Column("threads", width - sum(each.width + 2 for each in (RAN, WAITED, CPUS)) - 2)
    columns = (RAN, WAITED, CPUS, names)
    lines = table(columns, [_row(group, facts) for group in groups[:ROWS_SHOWN]], {})
    rest = [thread for group in groups[ROWS_SHOWN:] for thread in group]
    if words := _rest(rest, (facts.thread_count or 0) - len(facts.threads)):
        lines.append((Span(f" {words}", "dim"),))
    return lines


def fold(facts: EngineFacts) -> list[list[Thread]]:
    """Threads of one name, but for numbers, in processes of one name, that ran and waited alike."""
    programs = {each.pid: each.name for each in facts.processes}
    groups: dict[tuple[str | None, str], list[list[Thread]]] = {}
    for thread in facts.threads:
        alike = groups.setdefault((programs.get(thread.pid), _NUMBER.sub("", thread.name)), [])
        if alike and _is_alike(alike[-1][0], thread):
            alike[-1].append(thread)
        else:
            alike.append([thread])
    found = [group for each in groups.values() for group in each]
    return sorted(found, key=lambda group: -sum(map(_wanted, group)))


def _wanted(thread: Thread) -> float:
    return thread.cpu_share + (thread.delay_share or 0.0)


def _is_alike(one: Thread, other: Thread) -> bool:
    waited = abs((one.delay_share or 0.0) - (other.delay_share or 0.0))
    return max(abs(one.cpu_share - other.cpu_share), waited) < ALIKE_SHARE


def _row(group: list[Thread], facts: EngineFacts) -> tuple[str, ...]:
    waited = [thread.delay_share for thread in group if thread.delay_share is not None]
    cpus = [thread.cpu for thread in group if thread.cpu is not None]
    times = f"{len(group)}x " if len(group) > 1 else ""
    return (
        percent(_mean([thread.cpu_share for thread in group])),
        percent(_mean(waited)) if waited else "-",
        ranges(cpus) or "-",
        f"{times}{group[0].name}{_of(group, facts.processes)}",
    )


def _of(group: list[Thread], processes: tuple[Process, ...]) -> str:
    """Whose they are, where there are several processes."""
    if len(processes) < 2:
        return ""
    pids = list(dict.fromkeys(thread.pid for thread in group))
    if len(pids) > PIDS_SHOWN:
        return f" of {len(pids)} processes"
    noun = "process" if len(pids) == 1 else "processes"
    return f" of {noun} {', '.join(map(str, pids))}"


def _mean(shares: list[float]) -> float:
    return sum(shares) / len(shares)


def _rest(rest: list[Thread], still: int) -> str:
    """What stands below the table."""
    told = []
    if rest:
        used = sum(thread.cpu_share for thread in rest)
        told.append(f"{count(len(rest), 'thread')} more used {used:.2f} CPUs together")
    if still > 0:
        told.append(f"{count(still, 'thread')} hardly ran")
    return "; ".join(told)
