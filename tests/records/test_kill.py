"""`kill -9` at any point of `nodecheck snapshot`: what it said it had stored is there."""

from __future__ import annotations

import contextlib
import datetime
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
from msgspec.structs import replace

from nodecheck.model import pretty_json
from nodecheck.records.snapshots import database
from nodecheck.report import from_json
from tests.cli.test_commands import NODECHECK
from tests.records.histories import DAY, report
from tests.records.large_node import large_node

pytestmark = pytest.mark.soak

HISTORIES, KILLS = 10, 50
"""The first kills of each history fall into its making."""

WRITING_SECONDS = 0.02
"""About as long as a snapshot has the database open."""

TIGHT = '[retention]\nage_seconds = "10d"\n'
OLD_SECONDS = 30 * DAY
"""By this policy every other history lets go of reports of that age while we kill."""


class Victim:
    """A snapshot that is killed with all that it started, somewhere on its way."""

    def __init__(self, saved: Path, history: Path, policy: Path) -> None:
        self.said = saved.with_name("said")
        self.saved = saved
        self.history = history
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(
                [*NODECHECK, "snapshot", "--from", str(saved), "--policy", str(policy)],
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

    def acknowledged(self) -> dict[int, Path]:
        """The id that it printed, if any, and what it stored under it."""
        numbers = re.findall(r"^snapshot (\d+):", self.said.read_text())
        return {int(number): self.saved for number in numbers}


def duration(saved: Path, folder: Path, policy: Path) -> float:
    """Seconds of an undisturbed one."""
    start = time.monotonic()
    assert Victim(saved, folder / "undisturbed" / "history.db", policy).process.wait(60) == 0
    return time.monotonic() - start


def written(folder: Path) -> list[Path]:
    """Reports that have little in common: of a small node and of a large one, new and old."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    made = [report(), *(large_node(seed) for seed in range(5)), report(free_gib=7)]
    files = []
    for number, each in enumerate(made):
        age = datetime.timedelta(seconds=OLD_SECONDS * (number % 2) + number)
        files.append(folder / f"{'old' if number % 2 else 'new'}{number}.json")
        files[-1].write_bytes(pretty_json(replace(each, time=(now - age).isoformat())))
    return files


@pytest.mark.timeout(3600)
def test_500_kills_lose_nothing_that_was_told_to_be_stored(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    saved = written(tmp_path)
    loose, tight = tmp_path / "loose.toml", tmp_path / "tight.toml"
    loose.touch()
    tight.write_text(TIGHT)
    takes = max(duration(saved[1], tmp_path, loose) for _ in range(3))
    chance = random.Random(20261130)
    midst = told = gone = 0
    for number in range(HISTORIES):
        history = tmp_path / f"history{number}" / "history.db"
        policy = tight if number % 2 else loose
        acknowledged: dict[int, Path] = {}
        for turn in range(KILLS):
            victim = Victim(chance.choice(saved), history, policy)
            wait(victim, chance, takes, writing=turn % 2 == 0)
            midst += victim.kill()
            acknowledged |= victim.acknowledged()
            if turn % 10 == 9:
                check(history, acknowledged, pruned=policy is tight)
        told += len(acknowledged)
        last = Victim(saved[0], history, policy)
        assert last.process.wait(60) == 0
        check(history, acknowledged | last.acknowledged(), pruned=policy is tight)
        ids = database.read_window(history, None).ids
        gone += max(ids) - len(ids)
    record_testsuite_property("killed with the database open", midst)
    record_testsuite_property("killed after it answered", told)
    assert midst > HISTORIES * KILLS / 10
    assert told > 0
    assert gone > 0


def wait(victim: Victim, chance: random.Random, takes: float, *, writing: bool) -> None:
    """Until somewhere in its whole life, or somewhere while it writes."""
    if not writing:
        time.sleep(chance.uniform(0, 1.2 * takes))
        return
    while not victim.is_writing() and victim.process.poll() is None:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, WRITING_SECONDS))


def check(history: Path, acknowledged: dict[int, Path], *, pruned: bool) -> None:
    """SQLite finds nothing wrong, and each report that was acknowledged is whole and its own.

    Only what is old may have gone, where it may.
    """
    if not history.exists() or not history.stat().st_size:
        assert not acknowledged
        return
    db = sqlite3.connect(history)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    if not acknowledged:
        return
    found = set(database.read_window(history, None).ids)
    may_go = {each for each, file in acknowledged.items() if pruned and "old" in file.name}
    assert acknowledged.keys() - may_go <= found
    for each in found:
        stored = database.read_report(history, f"@{each}")
        if each in acknowledged:
            sent = from_json(acknowledged[each].read_bytes(), "sent")
            assert (stored.time, stored.facts) == (sent.time, sent.facts)
            assert stored.measurements == sent.measurements
