"""The only caller of other programs. Every call has a deadline and a limit on what it may print."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time

from nodecheck.machine import child
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason, Struct

OUTPUT_LIMIT_BYTES = 8 << 20
FLOOD = 8
"""So many times the limit are read before a program is stopped."""

REAP_SECONDS = 0.2
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

LINGER_SECONDS = 0.05
"""How long the output of a program that has ended is waited for, where another process holds it."""


class Output(Struct, frozen=True):
    """What a program printed (standard output and error together) and its exit status.

    `status` is negative for a death by signal, as in subprocess.
    """

    status: int
    text: str


class HungError(UnreadableError):
    """The program did not answer in time; `pid` is set when it could not be killed either."""

    def __init__(self, detail: str, pid: int | None) -> None:
        super().__init__(Reason.TIMEOUT, detail)
        self.pid = pid


def run(argv: tuple[str, ...], deadline_seconds: float) -> Output:
    """Run a program found on the user's and the system's PATH, with C locale and no input.

    Of much output the last OUTPUT_LIMIT_BYTES are kept. Raises UnreadableError: absent (no such
    program), denied, timeout (as HungError), failed (it never stops printing).
    """
    child.reap_abandoned()
    search = _search_path()
    program = shutil.which(argv[0], path=search)
    if program is None:
        raise UnreadableError(Reason.ABSENT, f"{argv[0]}: command not found")
    try:
        process = subprocess.Popen(
            (program, *argv[1:]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C", "PATH": search},
        )
    except OSError as error:
        raise UnreadableError.from_os(error, argv[0]) from error
    except ValueError as error:  # a NUL in an argument
        raise UnreadableError(Reason.FAILED, f"{argv[0]}: {error}") from error
    return _Call(process, argv, deadline_seconds).output()


def _search_path() -> str:
    """Absolute directories only: a program that lies where we happen to be is not the system's."""
    users = os.environ.get("PATH", "").split(":")
    return ":".join([*(place for place in users if place.startswith("/")), SYSTEM_PATH])


class _Call:
    """A running program, its output so far and its deadline."""

    def __init__(
        self, process: subprocess.Popen[bytes], argv: tuple[str, ...], deadline_seconds: float
    ) -> None:
        assert process.stdout is not None
        self._process = process
        self._name = " ".join(argv)
        self._deadline_seconds = deadline_seconds
        self._end = time.monotonic() + deadline_seconds
        self._stdout = process.stdout
        self._printed = bytearray()
        self._size = 0

    def output(self) -> Output:
        """What it prints until it ends. Raises UnreadableError."""
        done = False
        try:
            status = self._status()
            done = True
        finally:
            if not done:  # before its pipe breaks: who dies of that leaves its children to others
                self._kill()
            self._stdout.close()
        return Output(status, self._printed[-OUTPUT_LIMIT_BYTES:].decode(errors="replace"))

    def _status(self) -> int:
        self._read_to_the_end()
        while (status := self._process.poll()) is None:
            if time.monotonic() >= self._end:
                raise self._hung()
            time.sleep(0.002)
        return status

    def _read_to_the_end(self) -> None:
        """Read until the pipe is closed, or for a moment longer than the program lives."""
        poller = select.poll()
        poller.register(self._stdout, select.POLLIN)
        while True:
            ended = self._process.poll() is not None
            left = self._end - time.monotonic()
            if not poller.poll(1000 * max(0.0, min(left, LINGER_SECONDS))):
                if ended:
                    return
                if left <= 0:
                    raise self._hung()
                continue
            if left <= 0 and not ended:
                raise self._hung()
            if not self._read_block():
                return

    def _read_block(self) -> bool:
        block = os.read(self._stdout.fileno(), 1 << 16)
        self._printed += block
        self._size += len(block)
        if len(self._printed) > 2 * OUTPUT_LIMIT_BYTES:
            del self._printed[:-OUTPUT_LIMIT_BYTES]
        if self._size > FLOOD * OUTPUT_LIMIT_BYTES:
            raise UnreadableError(Reason.FAILED, f"{self._name}: printed {self._size} bytes")
        return bool(block)

    def _hung(self) -> HungError:
        detail = f"{self._name}: no answer within {self._deadline_seconds:g} s"
        if self._kill():
            return HungError(detail, None)
        pid = self._process.pid
        return HungError(f"{detail}, process {pid} cannot be killed", pid)

    def _kill(self) -> bool:
        """Kill it with all it started; False where it does not go. In D state it outlives SIGKILL.

        Its session too: there is what was started by others of it that have ended since.
        """
        child.kill_trees([self._process.pid])
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        end = time.monotonic() + REAP_SECONDS
        while self._process.poll() is None:
            if time.monotonic() >= end:
                child.abandon(self._process.pid)
                self._process.returncode = -signal.SIGKILL  # nobody waits for it any more
                return False
            time.sleep(0.002)
        return True
