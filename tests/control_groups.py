"""Control groups of the kernel's own (v1), made for one test and taken away after it."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CPU, MEMORY = (Path("/sys/fs/cgroup") / name for name in ("cpu", "memory"))

_numbers = itertools.count()


@dataclass(frozen=True)
class Group:
    """A group of this name in both hierarchies, with a group in it for the processes."""

    name: str

    def limit(self, *, memory_bytes: int | None = None, cpus: float | None = None) -> None:
        """Set the outer group's limits."""
        if memory_bytes:
            (MEMORY / self.name / "memory.limit_in_bytes").write_text(str(memory_bytes))
        if cpus:
            (CPU / self.name / "cpu.cfs_quota_us").write_text(str(round(cpus * 100_000)))

    @property
    def directories(self) -> list[Path]:
        """Those for processes."""
        return [root / self.name / "inner" for root in (CPU, MEMORY)]

    @property
    def most_bytes(self) -> int:
        """The most memory that was in use at once."""
        return int((MEMORY / self.name / "memory.max_usage_in_bytes").read_text())

    @property
    def killed(self) -> int:
        """Processes that were killed for want of memory."""
        return sum(
            _counter(MEMORY / place / "memory.oom_control", "oom_kill")
            for place in (self.name, f"{self.name}/inner")
        )

    @property
    def throttled(self) -> int:
        """Periods in which the quota was used up."""
        return _counter(CPU / self.name / "cpu.stat", "nr_throttled")

    def command(self, *words: str | Path) -> list[str]:
        """The command, to be run in the group."""
        enter = "".join(f"echo $$ > {place}/cgroup.procs; " for place in self.directories)
        return ["sh", "-ec", f'{enter}exec "$@"', "sh", *map(str, words)]


def _counter(file: Path, name: str) -> int:
    return int(dict(line.split() for line in file.read_text().splitlines())[name])


@contextlib.contextmanager
def control_group() -> Iterator[Group]:
    """A new group; the test is skipped where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("not root: cannot make control groups")
    if not all((root / "cgroup.procs").exists() for root in (CPU, MEMORY)):
        pytest.skip("no cgroup v1 hierarchies of cpu and memory here")
    group = Group(f"nodecheck-test-{os.getpid()}-{next(_numbers)}")
    try:
        for directory in group.directories:
            directory.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"cannot make a control group: {error}")
    try:
        yield group
    finally:
        for directory in group.directories:
            _remove(directory)
            _remove(directory.parent)


def _remove(directory: Path) -> None:
    """A group can be removed a moment after its last process has ended."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            directory.rmdir()
            return
        time.sleep(0.02)
