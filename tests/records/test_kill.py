"""`kill -9` at any point of `nodecheck snapshot`: what it said it had stored is there."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.model import pretty_json
from nodecheck.records.snapshots import database
from tests.cli.test_commands import NODECHECK
from tests.records.histories import NOON, report

pytestmark = pytest.mark.soak

HISTORIES, KILLS = 10, 50
"""The first kills of each history fall into its making."""

WRITING_SECONDS = 0.06
"""How long a snapshot has the database open, on a slow disk."""


class Victim:
    """A snapshot that is killed with all that it started, somewhere on its way."""

    def __init__(self, saved: Path, history: Path) -> None:
        self.said = saved.with_name("said")
        self.history = history
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(
                [*NODECHECK, "snapshot", "--from", str(saved)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "NODECHECK_HISTORY": str(history)},
                start_new_session=True,
            )

    def kill(self) -> bool:
        """Whether it had the database open."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGSTOP)
        was_writing = self.is_writing()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.wait(60) in (0, -signal.SIGKILL), self.said.read_text()
        return was_writing

    def is_writing(self) -> bool:
        """Whether it has the database open."""
        for descriptor in Path(f"/proc/{self.process.pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if descriptor.readlink() == self.history:
                    return True
        return False

    def acknowledged(self) -> set[int]:
        """The ids that it printed, or none."""
        return {int(number) for number in re.findall(r"^snapshot (\d+):", self.said.read_text())}


def duration(saved: Path, folder: Path) -> float:
    """Seconds of an undisturbed one."""
    start = time.monotonic()
    assert Victim(saved, folder / "undisturbed" / "history.db").process.wait(60) == 0
    return time.monotonic() - start


@pytest.mark.timeout(3600)
def test_500_kills_lose_nothing_that_was_told_to_be_stored(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    saved = tmp_path / "report.json"
    saved.write_bytes(pretty_json(report(NOON)))
    takes = max(duration(saved, tmp_path) for _ in range(3))
    chance = random.Random(20261130)
    midst = told = 0
    for number in range(HISTORIES):
        history = tmp_path / f"history{number}" / "history.db"
        acknowledged: set[int] = set()
        for turn in range(KILLS):
            victim = Victim(saved, history)
            wait(victim, chance, takes, writing=turn % 2 == 0)
            midst += victim.kill()
            acknowledged |= victim.acknowledged()
            if turn % 10 == 9:
                check(history, acknowledged)
        told += len(acknowledged)
        last = Victim(saved, history)
        assert last.process.wait(60) == 0
        check(history, acknowledged | last.acknowledged())
    record_testsuite_property("killed with the database open", midst)
    record_testsuite_property("killed after it answered", told)
    assert midst > HISTORIES * KILLS / 10
    assert told > 0


def wait(victim: Victim, chance: random.Random, takes: float, *, writing: bool) -> None:
    """Until somewhere in its whole life, or somewhere while it writes."""
    if not writing:
        time.sleep(chance.uniform(0, 1.2 * takes))
        return
    while not victim.is_writing() and victim.process.poll() is None:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, WRITING_SECONDS))


def check(history: Path, acknowledged: set[int]) -> None:
    """SQLite finds nothing wrong, and each report that was acknowledged is whole."""
    if not history.exists() or not history.stat().st_size:
        assert not acknowledged
        return
    db = sqlite3.connect(history)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    if acknowledged:
        found = set(database.read_window(history, None).ids)
        assert acknowledged <= found
        for each in found:
            assert database.read_report(history, f"@{each}").time == report(NOON).time
