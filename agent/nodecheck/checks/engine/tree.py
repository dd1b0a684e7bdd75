"""Which processes an engine is: the one that was named and all that it started."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from nodecheck.checks.engine.tasks import Moment, Stat, processes, status
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason


def pids(reader: Reader, pid: int) -> tuple[int, ...]:
    """The process and its descendants, itself first; none where it is not there.

    A thread's id names its process. Where we are among the descendants (of a shell, of PID 1), we
    are left out. A process that is hidden from us is a gap: `processes`.
    """
    moment = Moment(reader)
    stats = processes(moment)
    if pid not in stats:
        named = status(moment, pid)
        pid = (named.process if named else None) or pid
    if pid not in stats:
        _tell_hidden(reader, pid)
        return ()
    ours = () if pid in (own := ourselves(reader, stats)) else own
    return tuple(each for each in below(stats, (pid,)) if each not in ours)


def below(stats: Mapping[int, Stat], roots: Collection[int]) -> tuple[int, ...]:
    """The roots that are there, then their descendants, generation by generation."""
    children: dict[int, list[int]] = {}
    for pid, each in stats.items():
        children.setdefault(each.parent, []).append(pid)
    found = dict.fromkeys(root for root in roots if root in stats)
    todo = list(found)
    for pid in todo:
        new = [child for child in children.get(pid, ()) if child not in found]
        found.update(dict.fromkeys(new))
        todo += new
    return tuple(found)


def ourselves(reader: Reader, stats: Mapping[int, Stat]) -> frozenset[int]:
    """The processes that this look at the node is: forked ones have the command line of the first.

    What they started by another command is not among them. None in a capture.
    """
    if not reader.host.live:
        return frozenset()
    command = _command(reader, os.getpid())
    first = os.getpid()
    while (parent := _parent(stats, first)) and _command(reader, parent) == command:
        first = parent
    forked = (pid for pid in below(stats, (first,)) if _command(reader, pid) == command)
    return frozenset((os.getpid(), *forked))


def _parent(stats: Mapping[int, Stat], pid: int) -> int | None:
    parent = stats[pid].parent if pid in stats else None
    return parent if parent in stats else None


def _command(reader: Reader, pid: int) -> str | None:
    return reader.text(f"/proc/{pid}/cmdline", None)


def hides_others(reader: Reader) -> bool:
    """Whether /proc is mounted with hidepid: each user sees their own processes alone."""
    return reader.host.live and reader.text("/proc/1/stat", None) is None


def _tell_hidden(reader: Reader, pid: int) -> None:
    if hides_others(reader):
        detail = f"/proc is mounted with hidepid: process {pid} is not there, or another user's"
        reader.gap("processes", Reason.DENIED, detail)
