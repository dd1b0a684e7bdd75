"""Work that may hang, in forked children that are killed and, if they cannot die, abandoned.

A process that waits inside the kernel (a dead NFS server, a wedged driver) survives SIGKILL until
the kernel lets go: waiting for it would hang us too. So a child is killed, looked at for a moment,
and left. What it started itself is killed with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Generic, NoReturn, TypeVar

import msgspec

from nodecheck.model import Struct

T = TypeVar("T")

REAP_SECONDS = 0.2
"""How long killed children may take to go; a runnable process needs a few milliseconds."""

RESULT_LIMIT_BYTES = 64 << 20

WATCH_SECONDS = 0.05
"""Between two looks at a child that is watched."""

AT_ONCE = 32
"""Children that are started before any answer is read; those that hang delay no others."""

_VALUE, _ERROR = b"+", b"-"
_LENGTH_BYTES = 8
_HEAD_BYTES = 1 + _LENGTH_BYTES

_abandoned: set[int] = set()
"""Children that outlived SIGKILL: they are zombies of ours once the kernel lets them go."""


class Outcome(Struct, Generic[T], frozen=True):
    """What came of a child: its `value`, or why there is none.

    `stuck_pid` names a child that outlived SIGKILL. `error` is one line.
    """

    value: T | None = None
    error: str | None = None
    hung: bool = False
    stuck_pid: int | None = None
    signal: int | None = None


class _Child:
    """A forked child and what it has answered so far. Raises OSError where it cannot be started."""

    def __init__(self, work: Callable[[], object], deadline_seconds: float) -> None:
        self.deadline_seconds = deadline_seconds
        self.answer = bytearray()
        self.pipe, write_end = os.pipe()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _run(work, write_end)
        except OSError:
            os.close(self.pipe)
            raise
        finally:
            os.close(write_end)
        self.deadline = time.monotonic() + deadline_seconds

    def read(self) -> bool:
        """Take what is there; False at the end of the answer, whoever still holds the pipe."""
        block = os.read(self.pipe, 1 << 16)
        self.answer += block
        return bool(block) and len(self.answer) < min(self._size(), RESULT_LIMIT_BYTES)

    def _size(self) -> int:
        if len(self.answer) < _HEAD_BYTES:
            return _HEAD_BYTES
        return _HEAD_BYTES + int.from_bytes(self.answer[1:_HEAD_BYTES], "big")

    def payload(self, kind: bytes) -> bytes | None:
        """The complete answer of this kind, else None."""
        complete = len(self.answer) >= _HEAD_BYTES and len(self.answer) == self._size()
        return bytes(self.answer[_HEAD_BYTES:]) if complete and self.answer[:1] == kind else None


def _run(work: Callable[[], object], write_end: int) -> NoReturn:
    """The child's life.

    It keeps no descriptor but its answer's: a stuck child must not hold open the pipe that our own
    reader waits on.
    """
    status = 1
    try:
        if (native := _load_native()) is not None:
            native.die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pipe = _only_descriptor(write_end)
        try:
            kind, payload = _VALUE, msgspec.json.encode(work())
        except Exception as error:  # noqa: BLE001 - the child's failure is an answer, no traceback
            line = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
            kind, payload = _ERROR, line.encode(errors="replace")
        answer = kind + len(payload).to_bytes(_LENGTH_BYTES, "big") + payload
        while answer:
            answer = answer[os.write(pipe, answer) :]
        status = 0
    finally:
        os._exit(status)


def _load_native() -> ModuleType | None:
    """The C kernels, loaded once for all children; without them a child may outlive us."""
    try:
        from nodecheck.machine import native
    except Exception:  # noqa: BLE001 - not built, or not for this machine: no child fails by it
        return None
    return native


def _only_descriptor(keep: int) -> int:
    """Close all others, with /dev/null in the place of the standard three."""
    keep = fcntl.fcntl(keep, fcntl.F_DUPFD_CLOEXEC, 3)  # it may be one of the standard three
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
    except OSError:
        os.closerange(0, 3)
    os.closerange(3, keep)
    os.closerange(keep + 1, _highest_descriptor() + 1)
    return keep


def _highest_descriptor() -> int:
    try:
        with os.scandir("/proc/self/fd") as entries:
            return max(int(entry.name) for entry in entries)
    except OSError:
        return 1 << 12


def gather(
    tasks: Mapping[str, Callable[[], T]],
    answer_type: type[T] | Mapping[str, type[T]],
    deadline_seconds: float | Mapping[str, float],
    meanwhile: Callable[[], None] = lambda: None,
    watch: Callable[[], float | None] | None = None,
) -> dict[str, Outcome[T]]:
    """Run every task in a child of its own, all at once, each under its deadline.

    A task's value must be of the answer type (per task where a mapping is given), which is how it
    crosses the pipe: as JSON. `meanwhile` is called once, while the children work; `watch` again
    and again: where they have got on it gives the seconds that they may take from then on.
    """
    reap_abandoned()
    _load_native()
    gathering = _Gathering(answer_type)
    try:
        for name, work in tasks.items():
            seconds = deadline_seconds
            gathering.start(name, work, seconds[name] if isinstance(seconds, Mapping) else seconds)
            if len(gathering.running) > AT_ONCE:
                gathering.take_answers(0)  # what answered need not hold a descriptor any more
        meanwhile()
        while gathering.running:
            gathering.wait(math.inf if watch is None else WATCH_SECONDS)
            if watch is not None and (seconds_more := watch()) is not None:
                gathering.renew(seconds_more)
        gathering.see_off()
    finally:
        gathering.stop()
    return gathering.finished


def call(
    work: Callable[[], T],
    answer_type: type[T],
    deadline_seconds: float,
    watch: Callable[[], float | None] | None = None,
) -> Outcome[T]:
    """Run one task in a child under a deadline; see gather."""
    return gather({"": work}, answer_type, deadline_seconds, watch=watch)[""]


class _Gathering(Generic[T]):
    """Children that run side by side, and the outcomes of those that ended."""

    def __init__(self, answer_type: type[T] | Mapping[str, type[T]]) -> None:
        self.running: dict[str, _Child] = {}
        self.finished: dict[str, Outcome[T]] = {}
        self._answered: dict[str, _Child] = {}
        self._answer_type = answer_type
        self._names: dict[int, str] = {}
        self._poller = select.poll()

    def start(self, name: str, work: Callable[[], T], deadline_seconds: float) -> None:
        try:
            child = _Child(work, deadline_seconds)
        except OSError as error:
            self.finished[name] = Outcome(error=f"no process could be started: {error.strerror}")
            return
        self.running[name] = child
        self._names[child.pipe] = name
        self._poller.register(child.pipe, select.POLLIN)

    def take_answers(self, wait_seconds: float) -> None:
        """Read what children answer, waiting for the next of them as long as told."""
        for pipe, _ in self._poller.poll(wait_seconds * 1000):
            name = self._names[pipe]
            if not self.running[name].read():
                self._take(name, self._leave(name))

    def renew(self, deadline_seconds: float) -> None:
        """Give those that still run so long, from now on."""
        for child in self.running.values():
            child.deadline_seconds = deadline_seconds
            child.deadline = time.monotonic() + deadline_seconds

    def wait(self, most_seconds: float) -> None:
        """Wait for the next answer or deadline, but no longer than told."""
        next_deadline = min(child.deadline for child in self.running.values())
        self.take_answers(min(most_seconds, max(0.0, next_deadline - time.monotonic())))
        now = time.monotonic()
        overdue = [name for name, child in self.running.items() if child.deadline <= now]
        if overdue:
            children = [self._leave(name) for name in overdue]
            stuck = _kill(children)
            for name, child in zip(overdue, children, strict=True):
                self.finished[name] = _overdue(child, is_stuck=child.pid in stuck)

    def stop(self) -> None:
        """Kill those that still run, where an exception ends the gathering."""
        _kill([self._leave(name) for name in tuple(self.running)])

    def see_off(self) -> None:
        """Reap the children that answered; they are about to end, and are made to."""
        gone = _reap(child.pid for child in self._answered.values())
        left = {name: c for name, c in self._answered.items() if c.pid not in gone}
        stuck = _kill(list(left.values()))
        for name, child in left.items():
            if child.pid in stuck:
                self.finished[name] = msgspec.structs.replace(
                    self.finished[name], stuck_pid=child.pid
                )

    def _leave(self, name: str) -> _Child:
        child = self.running.pop(name)
        self._poller.unregister(child.pipe)
        os.close(child.pipe)
        return child

    def _take(self, name: str, child: _Child) -> None:
        kind = self._answer_type
        outcome = _answer(child, kind[name] if isinstance(kind, Mapping) else kind)
        if outcome is None:
            outcome = _end(child)
        else:
            self._answered[name] = child
        self.finished[name] = outcome


def _answer(child: _Child, answer_type: type[T]) -> Outcome[T] | None:
    """The outcome of a complete answer."""
    if (message := child.payload(_ERROR)) is not None:
        return Outcome(error=message.decode(errors="replace"))
    if (payload := child.payload(_VALUE)) is None:
        return None
    try:
        return Outcome(value=msgspec.json.decode(payload, type=answer_type))
    except (msgspec.MsgspecError, RecursionError) as error:
        return Outcome(error=f"not the answer that was expected: {error}")


def _end(child: _Child) -> Outcome[T]:
    """The outcome of a child that ended without a complete answer."""
    status = _reap([child.pid]).get(child.pid)
    stuck = child.pid if status is None and _kill([child]) else None
    if len(child.answer) >= RESULT_LIMIT_BYTES:
        return Outcome(error=f"it answered over {RESULT_LIMIT_BYTES} bytes", stuck_pid=stuck)
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Outcome(error=f"died by {_signal_name(number)}", signal=number)
    return Outcome(error="it ended without an answer", stuck_pid=stuck)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _overdue(child: _Child, *, is_stuck: bool) -> Outcome[T]:
    late = f"no answer within {round(child.deadline_seconds, 1):g} s"
    return Outcome(
        error=f"{late}, process {child.pid} cannot be killed" if is_stuck else late,
        hung=True,
        stuck_pid=child.pid if is_stuck else None,
    )


def _kill(children: list[_Child]) -> set[int]:
    """Kill children and what they started; the ids of those that do not go, which are abandoned."""
    if not children:
        return set()
    pids = [child.pid for child in children]
    kill_trees(pids)
    gone = _reap(pids)
    stuck = {pid for pid in pids if pid not in gone}
    for pid in stuck:
        abandon(pid)
    return stuck


def kill_trees(pids: list[int]) -> None:
    """Kill processes and what they started, whatever sessions that has made for itself."""
    started = _descendants(pids)
    for pid in (*pids, *started):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pids: Iterable[int]) -> list[int]:
    """The processes that these have started, and those in turn."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: list[int] = []
    todo = list(pids)
    while todo:
        below = children.pop(todo.pop(), [])
        found += below
        todo += below
    return found


def _reap(pids: Iterable[int]) -> dict[int, int]:
    """The exit statuses of those that go within REAP_SECONDS, all waited for together."""
    left, gone = set(pids), {}
    end = time.monotonic() + REAP_SECONDS
    while True:
        for pid in tuple(left):
            if (status := exit_status(pid)) is not None:
                gone[pid] = status
                left.discard(pid)
        if not left or time.monotonic() >= end:
            return gone
        time.sleep(0.002)


def exit_status(pid: int) -> int | None:
    """How a child of ours ended (waitpid's status), None while it has not. It is not waited for."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # who ignores SIGCHLD has its children reaped by the kernel
        return 0
    return status if done else None


def abandon(pid: int) -> None:
    """Leave a child that cannot be killed; it is reaped later, if this process lives to see it."""
    _abandoned.add(pid)


def abandoned() -> frozenset[int]:
    """The children that could not be killed, as far as they are known to live."""
    return frozenset(_abandoned)


def be_first_to_die() -> None:
    """A child's: where memory runs out, the kernel is to end this process before any other."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def reap_abandoned() -> None:
    """Let go of those abandoned children that have died since."""
    for pid in tuple(_abandoned):
        if exit_status(pid) is not None:
            _abandoned.discard(pid)
