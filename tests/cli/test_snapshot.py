"""The real command stores what nodecheck reports, says so in one line, or says why not."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodecheck.cli import group
from nodecheck.machine import lock
from nodecheck.model import pretty_json
from nodecheck.records.snapshots import database, place
from nodecheck.render.prometheus import metrics
from nodecheck.report import from_json
from tests.cli.test_commands import NODECHECK, failed, run
from tests.hosts import THREE_L40
from tests.lab.hanging_mount import LOOKUP, hanging_mount, is_possible
from tests.records.histories import NOON, report
from tests.trees import plant


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state" / "history.db"
    monkeypatch.setenv("NODECHECK_HISTORY", str(path))
    return path


@pytest.fixture
def saved(tmp_path: Path) -> str:
    (tmp_path / "report.json").write_bytes(pretty_json(report(NOON)))
    return str(tmp_path / "report.json")


def printed(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a snapshot that was stored."""
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    return line


def test_a_captured_node_is_stored_as_nodecheck_reports_it(history: Path, tmp_path: Path) -> None:
    plant(THREE_L40, tmp_path / "node")
    line = printed(run("snapshot", "--root", str(tmp_path / "node")))
    assert re.fullmatch(
        rf"snapshot 1: CRITICAL \d findings \({re.escape(str(history))}, \d+ kB\)", line
    )
    stored = database.read_report(history, "@-1")
    told = from_json(run("--root", str(tmp_path / "node"), "--json").stdout.encode(), "x")
    assert (stored.facts, stored.findings, stored.verdict.status) == (
        told.facts, told.findings, told.verdict.status,
    )  # fmt: skip


def test_this_machine_is_stored_and_read_again(history: Path) -> None:
    assert printed(run("snapshot", "--quick")).startswith("snapshot 1: ")
    assert printed(run("snapshot", "--quick")).startswith("snapshot 2: ")
    shown = from_json(run("--from", "@-1", "--json").stdout.encode(), "x")
    assert shown == database.read_report(history, "@2")


def test_a_saved_report_keeps_its_time(history: Path, saved: str) -> None:
    printed(run("snapshot", "--from", saved))
    assert database.read_window(history, None).times == (NOON,)
    failed(run("--from", "@7"), str(history), "it holds 1 snapshot, @1")


def test_it_is_judged_and_kept_by_the_policy(history: Path, saved: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    known = report().findings[0].id
    policy.write_text(f'[[waivers]]\nid = "{known}"\nreason = "known"\n')
    printed(run("snapshot", "--from", saved, "--policy", str(policy)))
    waived = [f.id for f in database.read_report(history, "@1").findings if f.waived]
    assert waived == [known]


def test_old_ones_go_by_the_policy(history: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[retention]\nage_seconds = "1d"\n')
    printed(run("snapshot", "--quick"))
    db = sqlite3.connect(history)
    db.execute("UPDATE snapshots SET time = time - 3 * 86400")
    db.commit()
    db.close()
    line = printed(run("snapshot", "--quick", "--policy", str(policy)))
    assert line.startswith("snapshot 2: ")
    assert ", 1 old one removed)" in line


def test_no_two_measure_at_once_and_the_second_is_stored_too(history: Path) -> None:
    with lock.measuring():
        printed(run("snapshot", "--kernels", "always"))
    stored = database.read_report(history, "@-1")
    assert stored.measurements == ()
    assert "another nodecheck is measuring" in str(stored.gaps)


def test_two_that_overlap_are_both_stored_and_one_measures(history: Path) -> None:
    command = [*NODECHECK, "snapshot", "--kernels", "always"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        assert process.communicate(timeout=100)[0].startswith(b"snapshot ")
    reports = [database.read_report(history, f"@{number}") for number in (1, 2)]
    for each in reports:
        measured = bool(each.measurements)
        assert measured != ("another nodecheck is measuring" in str(each.gaps))


def test_many_that_overlap_are_all_stored(history: Path, saved: str) -> None:
    overlapping(history, saved, processes=4, times=3)


@pytest.mark.soak
def test_eight_processes_store_fifty_each(history: Path, saved: str) -> None:
    overlapping(history, saved, processes=8, times=50)


def overlapping(history: Path, saved: str, *, processes: int, times: int) -> None:
    loop = 'for n in $(seq "$1"); do "$2" -m nodecheck snapshot --from "$3" || exit; done'
    command = ["sh", "-c", loop, "sh", str(times), sys.executable, saved]
    writers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    lines = [line for each in writers for line in each.communicate(timeout=3000)[0].splitlines()]
    told = sorted(int(line.split()[1].rstrip(":")) for line in lines)
    assert told == list(range(1, processes * times + 1))
    assert list(database.read_window(history, None).ids) == told
    db = sqlite3.connect(history)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_where_it_cannot_be_stored_one_line_says_why(tmp_path: Path, saved: str) -> None:
    (tmp_path / "file").touch()
    for name, why in (("file/history.db", "Not a directory"), (saved, "no SQLite database")):
        history = str(tmp_path / name)
        done = run("snapshot", "--from", saved, NODECHECK_HISTORY=history)
        failed(done, history, why, "no snapshot was stored")
        failed(run("--from", "@-1", NODECHECK_HISTORY=history), history, why)


def test_what_is_not_measured_is_not_asked_for_twice(history: Path) -> None:
    done = run("snapshot", "--quick", "--kernels", "always")
    assert done.returncode == 2
    assert not history.exists()


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a mount may hang on which the history is to lie."""
    monkeypatch.setattr(place, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(place, "TURN_SECONDS", 0.5)
    hung = tmp_path / "hung"
    monkeypatch.setenv("NODECHECK_HISTORY", str(hung / "state" / "history.db"))
    return hung


@pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse")
def test_a_file_system_that_hangs_is_one_line_and_is_left_alone(hung: Path) -> None:
    with hanging_mount(hung, LOOKUP):
        for why in ("no answer within 1 s", "an earlier run still hangs on it"):
            done = CliRunner().invoke(group, ["snapshot", "--quick"])
            assert done.exit_code == 1
            (line,) = done.stderr.splitlines()
            assert why in line


@pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse")
def test_a_distant_file_system_is_refused(tmp_path: Path, saved: str) -> None:
    hung = tmp_path / "hung"
    with hanging_mount(hung, LOOKUP):
        done = run("snapshot", "--from", saved, NODECHECK_HISTORY=str(hung / "history.db"))
    failed(done, "fuse.hanging", "NODECHECK_HISTORY")


@pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse")
def test_metrics_are_written_though_the_history_hangs(hung: Path, tmp_path: Path) -> None:
    prom = tmp_path / "nodecheck.prom"
    with hanging_mount(hung, LOOKUP):
        done = CliRunner().invoke(group, ["snapshot", "--quick", "--textfile", str(prom)])
    assert done.exit_code == 1
    (why,) = done.stderr.splitlines()
    assert "no snapshot was stored" in why
    assert b"nodecheck_status" in prom.read_bytes()


def test_the_textfile_is_what_node_exporter_reads(
    history: Path, saved: str, tmp_path: Path
) -> None:
    prom = tmp_path / "nodecheck.prom"
    done = run_with_umask(0o077, "snapshot", "--from", saved, "--textfile", str(prom))
    assert printed(done).startswith("snapshot 1: ")
    assert prom.read_bytes() == metrics(database.read_report(history, "@1"))
    assert stat.S_IMODE(prom.stat().st_mode) == 0o644
    assert [each.name for each in tmp_path.glob("*prom*")] == ["nodecheck.prom"]


def run_with_umask(umask: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NODECHECK, *arguments], capture_output=True, text=True, check=False, umask=umask
    )


def test_another_textfile_takes_the_place_of_the_last(
    history: Path, saved: str, tmp_path: Path
) -> None:
    prom = tmp_path / "nodecheck.prom"
    prom.write_text("# HELP nodecheck_status Of a version before.\n")
    prom.chmod(0o600)
    assert run("snapshot", "--from", saved, "--textfile", str(prom)).returncode == 0
    assert prom.read_bytes() == metrics(database.read_report(history, "@1"))
    assert stat.S_IMODE(prom.stat().st_mode) == 0o644


def test_a_name_that_node_exporter_does_not_read_is_refused(history: Path, saved: str) -> None:
    done = run("snapshot", "--from", saved, "--textfile", "nodecheck.txt")
    assert done.returncode == 2
    assert ".prom" in done.stderr
    assert not history.exists()


def test_a_textfile_that_cannot_be_written_is_told_before_time_is_spent(
    history: Path, saved: str, tmp_path: Path
) -> None:
    (tmp_path / "folder.prom").mkdir()
    foreign = tmp_path / "other.prom"
    foreign.write_text("# HELP smartmon_device_info .\n")
    for name, why in (
        ("missing/nodecheck.prom", "No such file"),
        ("folder.prom", "no regular file"),
        ("other.prom", "holds no metrics of nodecheck"),
    ):
        done = run("snapshot", "--from", saved, "--textfile", str(tmp_path / name))
        failed(done, str(tmp_path / name), why)
    assert foreign.read_text() == "# HELP smartmon_device_info .\n"
    assert not history.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a disk that is full")
def test_a_full_disk_leaves_the_last_textfile(history: Path, saved: str, tmp_path: Path) -> None:
    """A tmpfs of a few pages: the file is there, and there is no room for another."""
    full, earlier = tmp_path / "full", "# HELP nodecheck_status Before.\n"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(full)], check=True)
    try:
        (full / "nodecheck.prom").write_text(earlier)
        done = run("snapshot", "--from", saved, "--textfile", str(full / "nodecheck.prom"))
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "No space left" in line
        assert (full / "nodecheck.prom").read_text() == earlier
        assert [each.name for each in full.iterdir()] == ["nodecheck.prom"]
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert database.read_window(history, None).ids == (1,)


DOCUMENT = Path(__file__).parents[2] / "docs" / "history.md"


def blocks(start: str) -> list[str]:
    """The code blocks of the document that begin so."""
    found = re.findall(r"^```\w*\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in found if block.startswith(start)]


def test_the_document_names_the_options_that_it_takes() -> None:
    told, text = run("snapshot", "--help").stdout, DOCUMENT.read_text()
    assert "/var/lib/nodecheck/history.db" in told
    (said,) = re.findall(r"stores it\. It takes (.*?) as `nodecheck`", text, re.DOTALL)
    takes = set(re.findall(r"^  (--[a-z]+)", told, re.MULTILINE)) - {"--help", "--textfile"}
    assert set(re.findall(r"--[a-z]+", said)) == takes


def test_the_cron_lines_of_the_document_wait_and_store(history: Path, tmp_path: Path) -> None:
    """As cron runs them: by sh, a percent sign escaped."""
    (lines,) = blocks("2-59/5")
    (tmp_path / "sleep").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/slept\n')
    (tmp_path / "nodecheck").write_text(f'#!/bin/sh\nexec {sys.executable} -m nodecheck "$@"\n')
    for program in ("sleep", "nodecheck"):
        (tmp_path / program).chmod(0o755)
    for line in lines.splitlines():
        *_, user, command = line.split(None, 6)
        assert user == "root"
        command = command.replace("/usr/local/bin/nodecheck", str(tmp_path / "nodecheck"))
        done = subprocess.run(
            ["sh", "-c", command.replace(r"\%", "%")],
            env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            check=True,
        )
        assert (done.stdout, done.stderr) == (b"", b"")
    waits = [int(line) for line in (tmp_path / "slept").read_text().split()]
    assert all(0 <= seconds < 60 for seconds in waits)
    assert database.read_window(history, None).ids == (1, 2)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_takes_the_units_of_the_document(tmp_path: Path) -> None:
    service, timer = blocks("[Unit]")
    units = {"nodecheck-snapshot.service": service, "nodecheck-snapshot.timer": timer}
    for name, text in units.items():
        (tmp_path / name).write_text(text.replace("/usr/local/bin/nodecheck", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in units)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
