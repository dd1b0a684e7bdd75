"""The processes of the tree: the first that was seen of each, and the last."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodecheck.checks.engine import tasks, tree
from nodecheck.checks.engine.facts import Process
from nodecheck.checks.engine.others import rise
from nodecheck.checks.engine.tasks import TICKS_PER_SECOND, Moment, Stat, Status
from nodecheck.machine.reader import Reader
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Struct


class _Account(Struct, frozen=True):
    """What is read of a process beside its stat. `read_bytes` are those since it began."""

    status: Status
    read_bytes: int | UnreadableError | None


class Processes:
    """Those that are watched.

    `living` are those that had not ended when they were last looked at, in the order of the tree;
    `seen_at` is when that was, if any of them lived.
    """

    def __init__(
        self, moment: Moment, stats: Mapping[int, Stat], pids: Collection[int], at: float
    ) -> None:
        self._before = {pid: stats[pid] for pid in pids if pid in stats}
        self._after = dict(self._before)
        self.living = tuple(pid for pid, each in self._before.items() if not each.is_over)
        self._accounts = {pid: _account(moment, pid) for pid in self.living}
        self._later: dict[int, _Account] = {}
        self.seen_at = at

    def look(self, moment: Moment) -> None:
        """See which still live, and what they have done until now."""
        at = moment.now()
        found = ((pid, tasks.stat(moment, pid)) for pid in self.living)
        self._see({pid: each for pid, each in found if each is not None}, at)

    def finish(
        self, moment: Moment, stats: Mapping[int, Stat], ours: Collection[int], at: float
    ) -> None:
        """The last look, at `stats` as read from `at` on: what was started meanwhile comes in.

        `ours` are descendants that are not.
        """
        self._see(stats, at)
        below = tree.below(stats, self.living)
        new = [pid for pid in below if pid not in self._after and pid not in ours]
        self._after.update((pid, stats[pid]) for pid in new)
        self.living += tuple(pid for pid in new if not stats[pid].is_over)
        self._later = {pid: _account(moment, pid) for pid in self.living}

    def _see(self, stats: Mapping[int, Stat], at: float) -> None:
        same = {
            pid: stats[pid]
            for pid in self.living
            if pid in stats and stats[pid].start_ticks == self._after[pid].start_ticks
        }
        self._after.update(same)
        self.living = tuple(pid for pid, each in same.items() if not each.is_over)
        if self.living:
            self.seen_at = at

    @property
    def known(self) -> tuple[int, ...]:
        """All of them, ended or not."""
        return tuple(self._after)

    def name(self, pid: int) -> str:
        """What it calls itself."""
        return self._after[pid].name

    def told(self) -> tuple[Process, ...]:
        """All of them, in the order of the tree."""
        return tuple(self._process(pid) for pid in self._after)

    def _process(self, pid: int) -> Process:
        then, now = self._before.get(pid), self._after[pid]
        before, after = self._accounts.get(pid), self._later.get(pid)
        status = after.status if after else before.status if before else Status()
        return Process(
            pid=pid,
            name=now.name,
            parent=now.parent,
            thread_count=now.threads,
            cpu_seconds=max(0, now.cpu_ticks - (then.cpu_ticks if then else 0)) / TICKS_PER_SECOND,
            ended=pid not in self.living,
            first_state=then.state if then else None,
            state=now.state,
            allowed_cpus=status.allowed_cpus,
            allowed_nodes=status.allowed_nodes,
            major_faults=rise(then.major_faults if then else 0, now.major_faults),
            minor_faults=rise(then.minor_faults if then else 0, now.minor_faults),
            read_bytes=rise(_read(before) if then else 0, _read(after)),
            read_total_bytes=_read(after) if after else _read(before),
            resident_bytes=status.resident_bytes,
            swapped_bytes=status.swapped_bytes,
            locked_bytes=status.locked_bytes,
        )

    def tell_unread(self, reader: Reader) -> None:
        """A gap if the I/O of any that live cannot be read.

        The status was read after it: where that is there too, it had not ended.
        """
        for account in self._later.values():
            if isinstance(account.read_bytes, UnreadableError) and account.status != Status():
                reader.missed("processes.read_bytes", account.read_bytes)
                return


def _account(moment: Moment, pid: int) -> _Account:
    text = moment.readable(f"/proc/{pid}/io")
    read = tasks.parse_io(text) if isinstance(text, str) else text
    return _Account(tasks.status(moment, pid) or Status(), read)


def _read(account: _Account | None) -> int | None:
    read = account.read_bytes if account else None
    return read if isinstance(read, int) else None
