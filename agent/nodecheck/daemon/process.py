"""A child of the daemon's: given bytes, answers bytes, under a deadline. It may hang in the kernel.

The only clock of the daemon is here too: a test's may run faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from nodecheck.daemon.board import boot_seconds
from nodecheck.machine.child import kill_trees

ANSWER_LIMIT_BYTES = 8 << 20
"""A report of a node with eight cards takes 0.1 MB; a daemon that once heard twice as much as this
keeps 17 MB of it, and exceeds its 50 MB. Source: tests/daemon/test_soak.py."""

ERROR_LIMIT_BYTES = 4096

END_SECONDS = 0.4
"""How long a child may take to end its own children, once asked. Source: machine/child.py needs
0.2 s; SIGTERM to the daemon is to be over within a second."""

REAP_SECONDS = 0.3
"""How long one that was killed may take to go; one in D state does not."""


class Clock:
    """Seconds since boot, and how to wait for them. `speed` above 1 makes them pass faster."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._start = boot_seconds()

    def now(self) -> float:
        """Goes on while a guest is suspended."""
        return self._start + (boot_seconds() - self._start) * self._speed

    async def wait(self, futures: Sequence[asyncio.Future[object]], seconds: float) -> bool:
        """Wait until one of them is done, or the time is over; whether one is."""
        done, _ = await asyncio.wait(
            futures, timeout=seconds / self._speed, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)


def watch_children_without_threads() -> None:
    """From here on: threads cannot be had where tasks are limited. Python 3.12 needs none."""
    if sys.version_info >= (3, 12):
        return
    with contextlib.suppress(OSError):  # a kernel before 5.3
        os.close(os.pidfd_open(os.getpid()))
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)


class Ended(NamedTuple):
    """What a child answered, or the one line on why it did not."""

    answer: bytes | None = None
    error: str | None = None
    timed_out: bool = False


class Child:
    """One command, run now and then, never twice at once. Where it hangs for good it is not run."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        self._command = tuple(command)
        self._clock = clock
        self._running: _Heard | None = None

    @property
    def stuck_pid(self) -> int | None:
        """The process that outlived SIGKILL, as long as it does."""
        running = self._running
        return None if running is None or running.is_gone else running.pid

    async def run(self, arguments: Sequence[str], given: bytes, deadline_seconds: float) -> Ended:
        """Run it once. Cancelled, it ends the child."""
        if (pid := self.stuck_pid) is not None:
            return Ended(error=f"process {pid} hangs and cannot be killed")
        loop = asyncio.get_running_loop()
        try:
            transport, heard = await loop.subprocess_exec(
                _Heard, *self._command, *arguments, start_new_session=True, env=_environment()
            )
        except OSError as error:
            return Ended(error=f"{self._command[0]}: {error.strerror}")
        self._running = heard
        try:
            heard.give(transport, given)
            done = await self._clock.wait([heard.ended], deadline_seconds)
        finally:
            try:
                await _end(heard)
            finally:
                _close(transport, heard)
                if heard.is_gone:
                    self._running = None
        if not done:
            late = f"no answer within {deadline_seconds:g} s"
            if (pid := self.stuck_pid) is not None:
                late += f", process {pid} cannot be killed"
            return Ended(error=late, timed_out=True)
        return heard.outcome(transport.get_returncode())


def _environment() -> dict[str, str]:
    """Ours, and no modules from the folder that we happen to be in (Python 3.11)."""
    return {**os.environ, "PYTHONSAFEPATH": "1"}


class _Heard(asyncio.SubprocessProtocol):
    """What a child has said so far; `ended` once it is over, or says too much."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.ended: asyncio.Future[object] = loop.create_future()
        self.gone: asyncio.Future[object] = loop.create_future()
        self._printed = bytearray()
        self._complained = bytearray()
        self._silent = False

    @property
    def is_gone(self) -> bool:
        """Whether it has died, and was waited for."""
        return self.gone.done()

    @property
    def floods(self) -> bool:
        return len(self._printed) > ANSWER_LIMIT_BYTES

    def give(self, transport: asyncio.SubprocessTransport, given: bytes) -> None:
        """Write its standard input, as fast as it takes it."""
        self.pid = transport.get_pid()
        pipe = transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        pipe.write(given)
        pipe.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the answer, and the end of its complaints."""
        if fd == 2:
            self._complained += data
            del self._complained[:-ERROR_LIMIT_BYTES]
        elif not self.floods:
            self._printed += data
            self._look()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        """Its output has ended."""
        if fd == 1:
            self._silent = True
            self._look()

    def process_exited(self) -> None:
        """It is gone."""
        if not self.gone.done():
            self.gone.set_result(None)
        self._look()

    def _look(self) -> None:
        if (self.floods or (self._silent and self.is_gone)) and not self.ended.done():
            self.ended.set_result(None)

    def outcome(self, status: int | None) -> Ended:
        """What it came to, by its exit status."""
        if self.floods:
            return Ended(error=f"it answered more than {ANSWER_LIMIT_BYTES} bytes")
        if status == 0:
            return Ended(answer=bytes(self._printed))
        lines = self._complained.decode(errors="replace").strip().splitlines()
        died = f"died by signal {-status}" if status and status < 0 else f"exit status {status}"
        return Ended(error=lines[-1][:300] if lines else died)


def _close(transport: asyncio.SubprocessTransport, heard: _Heard) -> None:
    """Let go of its pipes. Of one that hangs its transport must stay: it is still to be reaped."""
    if heard.is_gone:
        transport.close()
        return
    heard.gone.add_done_callback(lambda _: transport.close())
    for fd in (0, 1, 2):
        if pipe := transport.get_pipe_transport(fd):
            pipe.close()


async def _end(heard: _Heard) -> None:
    """See that it is gone: asked, so that it ends its own children, then made to."""
    if heard.is_gone:
        return
    try:
        with contextlib.suppress(OSError):  # alone: it knows its children, which have their own
            os.kill(heard.pid, signal.SIGTERM)
        await asyncio.wait([heard.gone], timeout=END_SECONDS)
    finally:  # also where we are to end meanwhile
        if not heard.is_gone:
            kill_trees([heard.pid])
        with contextlib.suppress(OSError):
            os.killpg(heard.pid, signal.SIGKILL)
    await asyncio.wait([heard.gone], timeout=REAP_SECONDS)
