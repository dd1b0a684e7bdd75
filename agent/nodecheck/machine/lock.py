"""One lock a node, so that two measurements never run at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from nodecheck.machine import state

RUN_LOCK = Path("/run/lock")
_NAME = "nodecheck.lock"
_ABSTRACT_SOCKET = "\0nodecheck.lock"


@contextlib.contextmanager
def measuring() -> Iterator[bool]:
    """Hold the node's lock without waiting for it; False while another process holds it.

    A file in /run/lock, else beside the history. Where neither can be made, a name in the kernel's
    abstract socket space does. Processes in other containers see none of these.
    """
    with contextlib.ExitStack() as held:
        descriptor = _open_any()
        if descriptor is None:
            yield _hold_name(held)
            return
        held.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _open_any() -> int | None:
    for directory in (RUN_LOCK, state.directory()):
        with contextlib.suppress(OSError):
            return _open(directory)
    return None


def _open(directory: Path) -> int:
    """The lock file's descriptor, read-only, so that any user can lock a file that another made."""
    if directory != RUN_LOCK:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    path = directory / _NAME
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        # not O_CREAT above: fs.protected_regular refuses it on another user's file, to root too
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644))
        descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(f"{path} is not a regular file")


def _hold_name(held: contextlib.ExitStack) -> bool:
    name = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        name.bind(_ABSTRACT_SOCKET)
    except OSError:
        return False
    return True
