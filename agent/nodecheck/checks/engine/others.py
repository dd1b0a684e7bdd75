"""What else the node did in the window: its CPUs, its page cache, other processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice

import msgspec

from nodecheck.checks.engine import tasks, tree
from nodecheck.checks.engine.facts import OTHERS_NAMED, OtherProcess
from nodecheck.checks.engine.tasks import TICKS_PER_SECOND, Moment, Stat
from nodecheck.machine.reader import Reader, counters
from nodecheck.model import Reason, Struct

LOOKED_AT = 64
"""So many are asked whether they may run on the engine's CPUs, the busiest first."""

LEAST_CPUS = 0.05
"""Below this a process takes nothing from an engine that would show."""

KERNEL_LEAST_CPUS = 0.2
"""The kernel's threads work for others too, the engine among them: only a busy one is told."""

_IDLE, _IOWAIT, _STEAL, _FIELDS = 3, 4, 7, 8


class Node(Struct, frozen=True):
    """The node's counters at one moment: clock ticks of all CPUs together, pages since boot.

    `cpus` is how many are online; 0, and no ticks, where /proc/stat cannot be read. `each` has the
    ticks in which each CPU did not work for us, and all that were counted of it.
    """

    cpus: int = 0
    idle: int = 0
    steal: int = 0
    total: int = 0
    file_refaults: int | None = None
    each: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)


def node(moment: Moment) -> Node:
    """The counters now."""
    pages = counters(moment.text("/proc/vmstat") or "")
    return parse_node(moment.text("/proc/stat") or "", refaults(pages))


def parse_node(text: str, file_refaults: int | None) -> Node:
    """The first line of /proc/stat; guest time is within user time."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    ticks = _ticks(lines[0]) if lines else None
    if ticks is None:
        return Node(file_refaults=file_refaults)
    found = ((line[0].removeprefix("cpu"), _ticks(line)) for line in lines[1:])
    each = {int(n): (_away(t), sum(t)) for n, t in found if t and n.isascii() and n.isdigit()}
    idle, steal = ticks[_IDLE] + ticks[_IOWAIT], ticks[_STEAL]
    return Node(len(lines) - 1, idle, steal, sum(ticks), file_refaults, each)


def _ticks(line: list[str]) -> list[int] | None:
    values = line[1 : _FIELDS + 1]
    if len(values) <= _IOWAIT or not all(v.isascii() and v.isdigit() for v in values):
        return None
    return [int(value) for value in values] + [0] * (_FIELDS - len(values))


def _away(ticks: list[int]) -> int:
    """Idle, or taken by the hypervisor."""
    return ticks[_IDLE] + ticks[_IOWAIT] + ticks[_STEAL]


def refaults(statistics: Mapping[str, int]) -> int | None:
    """Pages of files that were thrown out and read again, of the node or of a control group.

    In v1 a group's total has those of the groups below it. Until Linux 5.9 there was one counter,
    of anonymous pages too, which were hardly ever counted.
    """
    names = ("total_workingset_refault_file", "workingset_refault_file")
    old = ("total_workingset_refault", "workingset_refault")
    return next((statistics[name] for name in (*names, *old) if name in statistics), None)


def busy_cpus(before: Node, after: Node) -> float | None:
    """How many of the node's CPUs worked: neither idle nor taken by the hypervisor."""
    total = after.total - before.total
    if total <= 0:
        return None
    away = max(0, after.idle - before.idle) + max(0, after.steal - before.steal)
    return after.cpus * max(0.0, 1 - away / total)


def busy_among(before: Node, after: Node, cpus: Collection[int]) -> float | None:
    """How many of these CPUs worked; None where one was not counted at both ends."""
    busy = 0.0
    for cpu in cpus:
        then, now = before.each.get(cpu), after.each.get(cpu)
        if then is None or now is None or now[1] <= then[1]:
            return None
        busy += min(1.0, max(0.0, 1 - max(0, now[0] - then[0]) / (now[1] - then[1])))
    return busy if cpus else None


def steal_share(before: Node, after: Node) -> float | None:
    """The share of the CPUs' time that the hypervisor gave to others, 0 to 1."""
    total = after.total - before.total
    return min(1.0, max(0, after.steal - before.steal) / total) if total > 0 else None


def rise(before: int | None, after: int | None) -> int | None:
    """By how much a counter grew; None where it is not known or was set back."""
    return None if before is None or after is None or after < before else after - before


def busiest(
    before: Mapping[int, Stat],
    after: Mapping[int, Stat],
    seconds: float,
    known: Collection[int],
    competes: Callable[[int], bool],
) -> tuple[OtherProcess, ...]:
    """Those that used most CPU time and compete, but for the `known`.

    One that came meanwhile counts whole.
    """
    if seconds <= 0:
        return ()
    found = []
    for pid, now in after.items():
        then = before.get(pid)
        began = then.cpu_ticks if then and then.start_ticks == now.start_ticks else 0
        cpus = (now.cpu_ticks - began) / TICKS_PER_SECOND / seconds
        if pid not in known and cpus >= (KERNEL_LEAST_CPUS if now.is_kernels else LEAST_CPUS):
            found.append(OtherProcess(pid=pid, name=now.name, cpus=cpus))
    most = sorted(found, key=lambda other: (-other.cpus, other.pid))[:LOOKED_AT]
    return tuple(islice((other for other in most if competes(other.pid)), OTHERS_NAMED))


def may_use(moment: Moment, pid: int, last: int | None, cpus: Collection[int]) -> bool:
    """Whether it ran `last` on one of these CPUs, or may run there; so where that is not known."""
    if not cpus or last in cpus:
        return True
    found = tasks.status(moment, pid)
    allowed = found.allowed_cpus if found else None
    return allowed is None or not set(cpus).isdisjoint(allowed)


def unseen_seconds(
    before: Mapping[int, Stat], after: Mapping[int, Stat], known: Collection[int], seen: float
) -> float:
    """What a tree ran beside the `seen` seconds: its programs that ended before we saw them.

    Who waits for a child inherits its time, so that all that a tree has run only grows. No time of
    those whose parent does not wait for them.
    """

    def ran(stats: Mapping[int, Stat]) -> int:
        same = (pid for pid in known if pid in stats and _is_same(before.get(pid), stats[pid]))
        return sum(stats[pid].cpu_ticks + stats[pid].reaped_ticks for pid in same)

    return max(0.0, (ran(after) - ran(before)) / TICKS_PER_SECOND - seen)


def _is_same(then: Stat | None, now: Stat) -> bool:
    return then is None or then.start_ticks == now.start_ticks


def tell_hidden(reader: Reader) -> None:
    """A gap where others may run that we do not see."""
    if tree.hides_others(reader):
        detail = "/proc is mounted with hidepid: other users' processes are hidden"
        reader.gap("others", Reason.DENIED, detail)
    elif reader.host.live and reader.text("/proc/2/comm", None) != "kthreadd":
        detail = "only this container's processes are seen, not those of the host"
        reader.gap("others", Reason.UNSUPPORTED, detail)
