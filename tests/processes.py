"""What a test may ask about processes and descriptors that should be gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 20.0


def state(pid: int) -> str | None:
    """As R, S, D or Z; None where there is no such process."""
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return fields[0] if fields else None


def is_running(pid: int) -> bool:
    return state(pid) not in (None, "Z")


def children() -> set[int]:
    """This process's children."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(stat)
        if fields and int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


def _stat(path: Path) -> list[str]:
    """The fields after the name: state, parent, ..."""
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def descriptors() -> set[str]:
    """The numbers of the open ones."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def tasks() -> int:
    """How many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def mapped_bytes() -> int:
    """This process's address space."""
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
