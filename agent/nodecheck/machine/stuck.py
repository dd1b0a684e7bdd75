"""Markers of probes that hang in the kernel, so that no later run starts them again.

One file a probe, beside the history, holding the stuck process's id and start time. The marker is
void once that process is gone. Where the directory cannot be written, or its file system hangs,
there is no memory, only a new attempt.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from pathlib import Path

from nodecheck.machine import child, state

ANSWER_SECONDS = 1.0
TURN_SECONDS = 0.3
"""How long another process may take for the same look; one takes milliseconds."""


def _directory() -> Path:
    return state.directory() / "stuck"


def _marker(probe: str) -> Path:
    import hashlib  # loads OpenSSL: only where a marker may be

    return _directory() / hashlib.sha256(probe.encode(errors="replace")).hexdigest()[:16]


def _start_time(pid: int) -> str | None:
    """Field 22 of /proc/PID/stat: with the id it names a process. None for one that has died."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    except (OSError, IndexError):
        return None


def stuck_pid(probe: str) -> int | None:
    """The process that still hangs on `probe`, if an earlier run left one."""
    return _living(_marker(probe)) if _is_there(_directory()) else None


@functools.cache
def _answers(directory: Path) -> bool:
    """Whether the file system that the markers lie on answers: it may be the one that hangs."""
    return bool(child.call(lambda: _look(directory), bool, ANSWER_SECONDS).value)


def _is_there(directory: Path) -> bool:
    return _answers(directory) and os.path.isdir(directory)


def _look(directory: Path) -> bool:
    """The child's work: a name is held for as long as it lives, so that no second one hangs too."""
    end = time.monotonic() + TURN_SECONDS
    with socket.socket(socket.AF_UNIX) as held:
        while True:
            try:
                held.bind(f"\0nodecheck.stuck.{os.geteuid()}")
                break
            except OSError:
                if time.monotonic() >= end:
                    return False
                time.sleep(0.002)
        os.path.isdir(directory)
        return True


def _living(marker: Path) -> int | None:
    """The process of a marker; a marker whose process is gone is removed."""
    try:
        words = marker.read_text(errors="replace").split()
        pid, started = int(words[0]), words[1]
    except (OSError, ValueError, IndexError):
        return None
    if pid > 0 and _start_time(pid) == started:
        return pid
    with contextlib.suppress(OSError):
        marker.unlink()
    return None


def remember(probe: str, pid: int) -> None:
    """Note that `pid` hangs on `probe`."""
    started = _start_time(pid)
    if started is None or not _answers(_directory()):
        return
    marker = _marker(probe)
    try:
        marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for earlier in marker.parent.iterdir():  # of mounts that are no longer asked
            _living(earlier)
        part = marker.with_name(f"{marker.name}.{os.urandom(8).hex()}")
        with part.open("x", errors="replace") as out:  # no link that somebody has put there
            out.write(f"{pid} {started} {probe}\n")
        part.replace(marker)
    except OSError:
        return
