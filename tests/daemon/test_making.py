"""The child that makes pages, the history and the API's document for the daemon."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from nodecheck.daemon import making
from nodecheck.records.snapshots import database
from nodecheck.records.snapshots.sqlite import transaction, writing
from nodecheck.report import Report
from tests.daemon.month import dated, fill, moved
from tests.records.sides import node
from tests.render.reports import of_tree

CHILD = [sys.executable, "-m", "nodecheck.daemon.making"]
CPU_SECONDS_MOST = 3.0
"""What a page may cost with a month of a snapshot a minute. Here it takes 0.6 s."""


def asked(*arguments: str, report: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*CHILD, *arguments], input=report, capture_output=True, timeout=60, check=False
    )


def page(report: bytes, *arguments: str) -> str:
    done = asked("page", *arguments, report=report)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def masked() -> Report:
    return of_tree("three-l40")


MASKED = msgspec.json.encode(masked())


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the history lies; there is none yet."""
    path = tmp_path / "history" / "history.db"
    monkeypatch.setenv("NODECHECK_HISTORY", str(path))
    return path


def now() -> int:
    return int(time.time())


def test_a_month_of_a_snapshot_a_minute_is_cheap(history: Path) -> None:
    assert fill(history, masked(), now()) == 43_200
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = page(MASKED)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < CPU_SECONDS_MOST
    assert made.count('class="spark"') == 3
    assert "No change of hardware, software or findings in 30 days." in made


def test_the_page_tells_what_the_history_knows(history: Path) -> None:
    end = now() // 60 * 60
    fill(history, node("host type"), end - 3600, step_seconds=3600)
    newest = dated(masked(), end)
    with writing(history) as db, transaction(db):
        database._insert(db, newest)
    made = page(msgspec.json.encode(newest))
    assert "New since" in made
    assert "cpu.hypervisor_masked, cpu appeared (critical)" in made
    assert "The last 30 days" in made


def test_of_few_snapshots_each_is_a_point(history: Path) -> None:
    fill(history, masked(), now(), days=1)
    drawn = {
        s.metric.name: len(s.times) for s in making._read(86_400, {"disk_available@/"}).over_time
    }
    assert drawn == {"disk_available@/": 1440}
    fill(history, masked(), now(), days=30, step_seconds=600)
    hourly = making._read(30 * 86_400, {"disk_available@/"}).over_time[0]
    assert 700 < len(hourly.times) < 750


def test_an_old_history_tells_nothing_of_now(history: Path) -> None:
    fill(history, masked(), now() - 40 * 86_400, days=1, step_seconds=3600)
    assert "No snapshot in the last 30 days." in page(MASKED)
    told = json.loads(asked("history", "7d").stdout)
    assert (told["count"], len(told["latest"])) == (0, 10)


def test_without_a_report_the_first_check_is_running(history: Path) -> None:
    made = page(b"")
    assert "Not known yet: the first check is running" in made
    assert f"{history}: no history yet" in made


def test_an_old_report_is_told_to_be_old(history: Path) -> None:
    assert not history.exists()
    assert "Nothing has been checked for 12 minutes" in page(MASKED, "--stale", "720")


def test_a_history_that_is_broken_costs_no_page(history: Path) -> None:
    history.parent.mkdir()
    history.write_bytes(b"SQLite format 3\0" + bytes(200))
    made = page(MASKED)
    assert "cpu.hypervisor_masked" in made
    assert str(history) in made


def test_a_history_that_does_not_answer_costs_no_page(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(history, masked(), now(), days=1, step_seconds=3600)
    monkeypatch.setattr(making, "HISTORY_SECONDS", 0.5)
    with closing(sqlite3.connect(history)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        holder.execute("DELETE FROM snapshots WHERE id = 1")
        start = time.monotonic()
        made = making.made(["page"], MASKED).decode()
        assert time.monotonic() - start < 10
    assert "the history cannot be read: no answer within 0.5 s" in made
    assert "cpu.hypervisor_masked" in made


def test_the_history_is_what_the_command_prints(history: Path) -> None:
    fill(history, masked(), now() - 60, days=3, step_seconds=3600)
    made = json.loads(asked("history", "7d").stdout)
    command = [sys.executable, "-m", "nodecheck", "history", "--json", "--since", "7d"]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert abs(made.pop("time") - printed.pop("time")) < 30
    assert made == printed
    assert made["count"] == 72


@pytest.mark.parametrize(
    ("arguments", "report", "line"),
    [
        (("page",), b"{}", "not a nodecheck report"),
        (("page",), MASKED[:-5], "not a nodecheck report"),
        (("page", "--stale", "soon"), MASKED, "soon"),
        (("history", "30d"), b"", "no history yet"),
        (("history", "for ever"), b"", "for ever"),
        (("all",), b"", "say page, history SPAN or openapi"),
        ((), b"", "say page, history SPAN or openapi"),
    ],
)
def test_what_cannot_be_made_is_one_line(
    history: Path, arguments: tuple[str, ...], report: bytes, line: str
) -> None:
    assert not history.exists()
    done = asked(*arguments, report=report)
    assert (done.returncode, done.stdout) == (1, b"")
    assert line in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_the_document_of_the_interface_is_json() -> None:
    assert json.loads(asked("openapi").stdout)["openapi"].startswith("3.")


def test_nothing_is_written(history: Path) -> None:
    fill(history, masked(), now(), days=1, step_seconds=3600)
    before = history.read_bytes()
    page(MASKED)
    assert history.read_bytes() == before


def test_figures_stray_in_a_month_that_is_made() -> None:
    chance = moved(masked())
    one, other = next(chance), next(chance)
    assert one.measurements != other.measurements
    assert replace(one, facts=other.facts, measurements=other.measurements) == other
