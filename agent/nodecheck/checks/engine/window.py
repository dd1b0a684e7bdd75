"""What an engine's processes and threads do for some seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from nodecheck.checks.engine import groups, others, tasks, tree
from nodecheck.checks.engine.facts import CpuGroup, MemoryGroup, OtherProcess, Process, Thread
from nodecheck.checks.engine.groups import Groups
from nodecheck.checks.engine.others import Node
from nodecheck.checks.engine.processes import Processes
from nodecheck.checks.engine.tasks import Moment, Stat
from nodecheck.checks.engine.threads import WORKS_SHARE, Threads, Told
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Struct

LOOK_SECONDS = 0.5
LOOKS_LEAST = 5
"""We look in between so often, and so many times at least: what ends is known until then."""


class Running(Struct, frozen=True, kw_only=True):
    """What was seen; the members are those of EngineFacts.

    `ended` is whether the process that was named did; `seconds` how long any was seen to live.
    """

    seconds: float = 0.0
    ended: bool = False
    processes: tuple[Process, ...] = ()
    threads: tuple[Thread, ...] = ()
    thread_count: int | None = None
    nice: int | None = None
    usable_cpus: tuple[int, ...] | None = None
    cpu_group: CpuGroup | None = None
    memory_group: MemoryGroup | None = None
    file_refaults: int | None = None
    page_bytes: int | None = None
    others: tuple[OtherProcess, ...] = ()
    busy_cpus: float | None = None
    usable_busy_cpus: float | None = None
    steal_share: float | None = None


def watch(reader: Reader, pids: tuple[int, ...], seconds: float) -> Running:
    """Watch a tree's processes, the root first, and what they start, until all have ended at most.

    Gaps: threads.delay_share, processes.read_bytes, others, busy_cpus, file_refaults, page_bytes,
    cpu_group, cpu_group.periods.
    """
    first, last = Moment(reader), Moment(reader, seconds)
    before = _around(first, pids)
    processes = Processes(first, before.stats, before.tree(pids), before.at)
    limits = groups.find(reader, processes.living[0]) if processes.living else Groups()
    page = tasks.page_bytes(first, processes.living[0]) if processes.living else None
    counts = groups.counts(first, limits)
    threads = Threads(first, processes.living, before.at)
    if reader.host.live:
        _look_in_between(first, processes, threads, seconds)
    after = _around(last, pids)
    processes.finish(last, after.stats, after.ours, after.at)
    threads.finish(last, processes.living)
    if processes.living:
        limits = groups.later(reader, processes.living[0], limits)
    counts_after = groups.counts(last, limits)
    told = threads.told(last, after.at if processes.living else None, processes.name)
    _tell_gaps(reader, processes, before.node, page)
    rows = _with_unseen(processes, before, after)
    usable = _usable(reader, told, rows)
    return Running(
        seconds=processes.seen_at - before.at,
        ended=pids[0] not in processes.living,
        processes=rows,
        threads=tuple(row.thread for row in told),
        thread_count=threads.count,
        nice=after.stats[processes.living[0]].nice if processes.living else None,
        usable_cpus=usable,
        cpu_group=groups.cpu_group(limits, counts, counts_after),
        memory_group=groups.memory_group(limits, counts, counts_after),
        file_refaults=others.rise(before.node.file_refaults, after.node.file_refaults),
        page_bytes=page,
        others=after.others(last, before, processes.known, usable or ()),
        busy_cpus=others.busy_cpus(before.node, after.node),
        usable_busy_cpus=others.busy_among(before.node, after.node, usable or ()),
        steal_share=others.steal_share(before.node, after.node),
    )


class _Around(Struct, frozen=True):
    """The node at one end of the window: all processes, those that we are, and its counters."""

    at: float
    stats: dict[int, Stat]
    ours: frozenset[int]
    node: Node

    def tree(self, pids: tuple[int, ...]) -> list[int]:
        """Those that are there and what is below them, without us."""
        return [pid for pid in tree.below(self.stats, pids) if pid not in self.ours]

    def others(
        self, moment: Moment, before: _Around, known: tuple[int, ...], cpus: tuple[int, ...]
    ) -> tuple[OtherProcess, ...]:
        """Who else was busy since `before` and may be on these CPUs."""

        def competes(pid: int) -> bool:
            return others.may_use(moment, pid, self.stats[pid].cpu, cpus)

        seconds, ours = self.at - before.at, {*known, *self.ours}
        return others.busiest(before.stats, self.stats, seconds, ours, competes)


def _around(moment: Moment, pids: tuple[int, ...]) -> _Around:
    """We are no part of what is watched, unless we were named."""
    at, stats = moment.now(), tasks.processes(moment)
    ours = tree.ourselves(moment.reader, stats) - set(pids)
    return _Around(at, stats, ours, others.node(moment))


def _look_in_between(
    moment: Moment, processes: Processes, threads: Threads, seconds: float
) -> None:
    """Wait for the end of the window, or of all processes."""
    end = processes.seen_at + seconds
    pause = min(LOOK_SECONDS, seconds / LOOKS_LEAST)
    while processes.living and (left := end - moment.now()) > 0:
        time.sleep(min(left, pause))
        processes.look(moment)
        threads.look(moment, processes.living)


def _with_unseen(processes: Processes, before: _Around, after: _Around) -> tuple[Process, ...]:
    """The processes; the first has what children ran that ended before anybody saw them too."""
    told = processes.told()
    seen = sum(each.cpu_seconds for each in told)
    unseen = others.unseen_seconds(before.stats, after.stats, processes.known, seen)
    first = [replace(each, cpu_seconds=each.cpu_seconds + unseen) for each in told[:1]]
    return (*first, *told[1:])


def _usable(
    reader: Reader, told: Sequence[Told], processes: Sequence[Process]
) -> tuple[int, ...] | None:
    """The online CPUs on which those threads may run that work; where none does, the root process.

    A launcher may use all where what it starts is bound, and OpenMP binds each thread to its own.
    """
    working = [row.allowed_cpus for row in told if row.wanted_share >= WORKS_SHARE]
    root = processes[0].allowed_cpus if processes else None
    allowed = {cpu for cpus in working for cpu in cpus or ()} or set(root or ())
    online = reader.numbers("/sys/devices/system/cpu/online", None)
    return tuple(sorted(allowed & set(online) if online else allowed)) or None


def _tell_gaps(reader: Reader, processes: Processes, node: Node, page: int | None) -> None:
    if not node.cpus:
        reader.gap("busy_cpus", Reason.FAILED, "/proc/stat: no line of all CPUs")
    if node.file_refaults is None:
        detail = "the kernel does not count pages of files that come back (/proc/vmstat)"
        reader.gap("file_refaults", Reason.UNSUPPORTED, detail)
    if processes.living:
        if page is None:
            reader.gap("page_bytes", Reason.FAILED, "/proc/PID/statm: no size as in its stat")
        processes.tell_unread(reader)
        others.tell_hidden(reader)
