"""Markers of probes that hang in the kernel, so that no later run starts them again.

One file a probe, beside the history, holding the stuck process's id and start time. The marker is
void once that process is gone. Where the directory cannot be written there is no memory, only a
new attempt.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from nodecheck.machine import state


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
    return _living(_marker(probe)) if os.path.isdir(_directory()) else None


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
    if started is None:
        return
    marker = _marker(probe)
    try:
        marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for earlier in marker.parent.iterdir():  # of mounts that are no longer asked
            _living(earlier)
        part = marker.with_name(f"{marker.name}.{os.getpid()}")
        part.write_text(f"{pid} {started} {probe}\n", errors="replace")
        part.replace(marker)
    except OSError:
        return
