"""The threads of the tree: which ran, for how long, and how long they waited for a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nodecheck.checks.engine import tasks
from nodecheck.checks.engine.facts import Thread
from nodecheck.checks.engine.others import rise
from nodecheck.checks.engine.tasks import Moment, Ran, Status, Task
from nodecheck.model import Reason, Struct

FEW = 512
"""So many can be looked at again and again, in some milliseconds. Where there are more, those that
had run most when we came have a window of their own, within that of all: to read thousands takes a
CPU for a while, which is not to show in what the engine waits for."""

RAN_SHARE = 0.001
"""One that wanted a CPU for less of the window did nothing worth telling."""

MOST = 1024
"""Threads that are told one by one, more than most nodes have CPUs."""

WORKS_SHARE = 0.05
"""One that wants a CPU for so much of the window works: its CPUs are the engine's."""

_NO_SWITCHES = Status(voluntary_switches=0, involuntary_switches=0)


class Told(Struct, frozen=True):
    """A thread that ran, and the CPUs that it may use."""

    thread: Thread
    allowed_cpus: tuple[int, ...] | None

    @property
    def wanted_share(self) -> float:
        """How much of the window it ran or would have."""
        return self.thread.cpu_share + (self.thread.delay_share or 0.0)


class Threads:
    """Those that are watched, from `began` on. Gaps: threads.delay_share."""

    def __init__(self, moment: Moment, pids: tuple[int, ...], began: float) -> None:
        self._began = began
        self._has_delays = True
        first = self._read(moment, tasks.threads(moment, pids))
        if first and not any(each.run_seconds for each in first.values()):
            detail = "the kernel does not tell how long threads wait for a CPU (no schedstat)"
            moment.reader.gap("threads.delay_share", Reason.UNSUPPORTED, detail)
            self._has_delays = False
            first = self._read(moment, first)
        busiest = sorted(first, key=lambda task: -first[task].run_seconds)[:FEW]
        found = ((task, tasks.status(moment, *task)) for task in busiest)
        self._switches = {task: status for task, status in found if status is not None}
        self._few = tuple(busiest) if len(first) > FEW else ()
        self._before = first | self._read(moment, self._few)
        self._after = dict(self._before)
        self._last: frozenset[Task] = frozenset()

    def _read(self, moment: Moment, wanted: Iterable[Task]) -> dict[Task, Ran]:
        return tasks.ran(moment, wanted, has_delays=self._has_delays)

    def look(self, moment: Moment, pids: tuple[int, ...]) -> None:
        """Look at them in between."""
        self._after.update(self._read(moment, self._few or tasks.threads(moment, pids)))

    def finish(self, moment: Moment, pids: tuple[int, ...]) -> None:
        """The last look."""
        few = self._read(moment, self._few)
        found = self._read(moment, tasks.threads(moment, pids)) | few
        self._last = frozenset(found)
        self._after.update(found)

    def _since(self, task: Task) -> tuple[float, float | None]:
        """Seconds that it ran and that it waited; all of one that is new, or has another's id."""
        now, then = self._after[task], self._before.get(task)
        if then is None or now.run_seconds < then.run_seconds:
            return now.run_seconds, now.waited_seconds
        if now.waited_seconds is None or then.waited_seconds is None:
            return now.run_seconds - then.run_seconds, None
        waited = max(0.0, now.waited_seconds - then.waited_seconds)
        return now.run_seconds - then.run_seconds, waited

    @property
    def count(self) -> int:
        """How many there were at the last look, or before all ended."""
        return len(self._last or self._before)

    def told(self, moment: Moment, end: float | None, name: Callable[[int], str]) -> list[Told]:
        """Those that ran, the busiest first; one that ended has its process's `name`.

        `end` is that of the window; None where all have ended, each window with its thread's last.
        """
        shares = {task: self._shares(task, end) for task in self._after}
        wanted = {task: run + (waited or 0.0) for task, (run, waited) in shares.items()}
        most = sorted((t for t in wanted if wanted[t] >= RAN_SHARE), key=lambda t: -wanted[t])
        rows = [self._told(moment, task, shares[task], name) for task in most[:MOST]]
        return sorted(rows, key=lambda row: -row.thread.cpu_share)

    def _shares(self, task: Task, end: float | None) -> tuple[float, float | None]:
        """Of the window; of one that is not there any more, what it was seen to do."""
        now, then = self._after[task], self._before.get(task)
        until = now.at if end is None or task in self._last else end
        seconds = until - (then.at if then else self._began)
        run, waited = self._since(task)
        if seconds <= 0:
            return 0.0, None if waited is None else 0.0
        return min(1.0, run / seconds), None if waited is None else min(1.0, waited / seconds)

    def _told(
        self,
        moment: Moment,
        task: Task,
        shares: tuple[float, float | None],
        name: Callable[[int], str],
    ) -> Told:
        stat, status = tasks.stat(moment, *task), tasks.status(moment, *task) or Status()
        then = self._switches.get(task, Status() if task in self._before else _NO_SWITCHES)
        thread = Thread(
            pid=task[0],
            tid=task[1],
            name=stat.name if stat else name(task[0]),
            cpu_share=shares[0],
            delay_share=shares[1],
            voluntary_switches=rise(then.voluntary_switches, status.voluntary_switches),
            involuntary_switches=rise(then.involuntary_switches, status.involuntary_switches),
            cpu=stat.cpu if stat else None,
        )
        return Told(thread, status.allowed_cpus)
