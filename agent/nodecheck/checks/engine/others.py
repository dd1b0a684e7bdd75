"""What else the node did in the window: its CPUs, its page cache, other processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodecheck.checks.engine import tree
from nodecheck.checks.engine.facts import OtherProcess
from nodecheck.checks.engine.tasks import TICKS_PER_SECOND, Moment, Stat
from nodecheck.machine.reader import Reader, counters
from nodecheck.model import Reason, Struct

MOST = 3
"""Others that are named."""

LEAST_CPUS = 0.05
"""Below this a process takes nothing from an engine that would show."""

KERNEL_LEAST_CPUS = 0.2
"""The kernel's threads work for others too, the engine among them: only a busy one is told."""

_IDLE, _IOWAIT, _STEAL, _FIELDS = 3, 4, 7, 8


class Node(Struct, frozen=True):
    """The node's counters at one moment: clock ticks of all CPUs together, pages since boot.

    `cpus` is how many are online; 0, and no ticks, where /proc/stat cannot be read.
    """

    cpus: int = 0
    idle: int = 0
    steal: int = 0
    total: int = 0
    file_refaults: int | None = None


def node(moment: Moment) -> Node:
    """The counters now."""
    pages = counters(moment.text("/proc/vmstat") or "")
    return parse_node(moment.text("/proc/stat") or "", refaults(pages))


def parse_node(text: str, file_refaults: int | None) -> Node:
    """The first line of /proc/stat; guest time is within user time."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    values = lines[0][1 : _FIELDS + 1] if lines else []
    if len(values) <= _IOWAIT or not all(v.isascii() and v.isdigit() for v in values):
        return Node(file_refaults=file_refaults)
    ticks = [int(value) for value in values] + [0] * (_FIELDS - len(values))
    idle = ticks[_IDLE] + ticks[_IOWAIT]
    return Node(len(lines) - 1, idle, ticks[_STEAL], sum(ticks), file_refaults)


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


def steal_share(before: Node, after: Node) -> float | None:
    """The share of the CPUs' time that the hypervisor gave to others, 0 to 1."""
    total = after.total - before.total
    return min(1.0, max(0, after.steal - before.steal) / total) if total > 0 else None


def rise(before: int | None, after: int | None) -> int | None:
    """By how much a counter grew; None where it is not known or was set back."""
    return None if before is None or after is None or after < before else after - before


def busiest(
    before: Mapping[int, Stat], after: Mapping[int, Stat], seconds: float, known: Collection[int]
) -> tuple[OtherProcess, ...]:
    """Those that used most CPU time, but for the `known`; one that came meanwhile counts whole."""
    if seconds <= 0:
        return ()
    found = []
    for pid, now in after.items():
        then = before.get(pid)
        began = then.cpu_ticks if then and then.start_ticks == now.start_ticks else 0
        cpus = (now.cpu_ticks - began) / TICKS_PER_SECOND / seconds
        if pid not in known and cpus >= (KERNEL_LEAST_CPUS if now.is_kernels else LEAST_CPUS):
            found.append(OtherProcess(pid=pid, name=now.name, cpus=cpus))
    return tuple(sorted(found, key=lambda other: (-other.cpus, other.pid))[:MOST])


def tell_hidden(reader: Reader) -> None:
    """A gap where others may run that we do not see."""
    if tree.hides_others(reader):
        detail = "/proc is mounted with hidepid: other users' processes are hidden"
        reader.gap("others", Reason.DENIED, detail)
    elif reader.host.live and reader.text("/proc/2/comm", None) != "kthreadd":
        detail = "only this container's processes are seen, not those of the host"
        reader.gap("others", Reason.UNSUPPORTED, detail)
