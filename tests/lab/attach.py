"""`nodecheck attach` as a user runs it, and what it took."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.model import Finding, Gap
from nodecheck.report import from_json
from tests.control_groups import CPU, Group, control_group

ATTACH = (sys.executable, "-m", "nodecheck", "attach")
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
BUSY = "while :; do :; done"
SHARES = 64 * 1024
"""Of CPU time, where others' processes have 1024: what else the machine does is hardly felt."""

TRIES, WAITED_MOST = 5, 0.1

Done = subprocess.CompletedProcess[str]


@contextlib.contextmanager
def favoured_group() -> Iterator[Group]:
    """A group that has its CPUs, whatever else runs on the machine."""
    with control_group() as made:
        (CPU / made.name / "cpu.shares").write_text(str(SHARES))
        yield made


@pytest.fixture
def group() -> Iterator[Group]:
    with favoured_group() as made:
        yield made


@contextlib.contextmanager
def busy_loops(group: Group, how_many: int) -> Iterator[None]:
    """So many processes in the group that want a CPU each."""
    with contextlib.ExitStack() as stack:
        for _ in range(how_many):
            process = stack.enter_context(subprocess.Popen(group.command("sh", "-c", BUSY)))
            stack.callback(process.kill)
        yield


def drop(path: Path) -> None:
    """Have the kernel forget the file's pages: who reads them next has them in its group."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@dataclass(frozen=True)
class Seen:
    """One look: what it saw, what it found, what it does not know, and how long it took."""

    engine: EngineFacts
    findings: tuple[Finding, ...]
    gaps: tuple[Gap, ...]
    wall_seconds: float
    cpu_seconds: float

    @property
    def ids(self) -> list[str]:
        return [finding.id for finding in self.findings]

    @property
    def waited(self) -> float:
        """Of the window, the thread that waited longest for a CPU."""
        return max((thread.delay_share or 0.0 for thread in self.engine.threads), default=0.0)

    @property
    def denied(self) -> set[str]:
        """What it was not allowed to see."""
        return {gap.field for gap in self.gaps if gap.reason.value == "denied"}


class Observer:
    """Who runs the command: beside a favoured engine it must be favoured as well."""

    def __init__(self, group: Group | None = None) -> None:
        self._group = group

    def run(self, *arguments: str | int, through: Sequence[str] = (), **environment: str) -> Done:
        """`nodecheck attach`, by another command where `through` is one."""
        words = [*through, *ATTACH, *map(str, arguments)]
        return subprocess.run(
            self._group.command(*words) if self._group else words,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, **environment},
        )

    def look(self, pid: int, seconds: float = 2, through: Sequence[str] = ()) -> Seen:
        """Watch the process."""
        taken, start = _children_cpu(), time.monotonic()
        done = self.run(pid, "--seconds", f"{seconds:g}", "--json", through=through)
        wall = time.monotonic() - start
        assert done.returncode in (0, 1, 2), done.stderr
        assert done.stdout, done.stderr
        report = from_json(done.stdout.encode(), "attach --json")
        return Seen(
            report.facts.engine,
            tuple(each for each in report.findings if each.id.startswith("engine.")),
            tuple(each for each in report.gaps if each.check == "engine"),
            wall,
            _children_cpu() - taken,
        )

    def look_undisturbed(self, pid: int, seconds: float = 2, through: Sequence[str] = ()) -> Seen:
        """Watch an engine that has its CPUs; again where something else took them meanwhile."""
        for _ in range(TRIES):
            seen = self.look(pid, seconds, through)
            if seen.waited < WAITED_MOST:
                break
        return seen


@pytest.fixture(scope="module")
def observer() -> Iterator[Observer]:
    with favoured_group() as made:
        yield Observer(made)


def _children_cpu() -> float:
    told = os.times()
    return told.children_user + told.children_system
