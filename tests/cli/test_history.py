"""`nodecheck history` as an operator runs it, over a month of snapshots of a node."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from nodecheck.collect import collect
from nodecheck.diagnose import diagnose
from nodecheck.model import Measurement
from nodecheck.policy import Policy, Retention
from nodecheck.records.snapshots import database
from nodecheck.report import Report, from_json
from tests.cli.test_commands import ANSI, NODECHECK, failed, on_terminal, run
from tests.hosts import HEALTHY
from tests.nodes import dram
from tests.records import months
from tests.trees import plant

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS / "history.schema.json"
HOUR, DAY = 3600, 86_400
SLOWER_DAYS_AGO, NEW_DRIVER_DAYS_AGO = 9, 3


def at(report: Report, seconds: float) -> Report:
    """The report as if it had been made then."""
    made = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    return replace(report, time=made.isoformat())


def month(base: Report, now: float) -> list[Report]:
    """Twice a day: memory becomes slower, a disk fills up, the driver is renewed."""
    made = []
    for half in range(2 * 28, -1, -1):
        days = half / 2
        noise = 1 + (half * 7 % 11 - 5) / 1000
        read: tuple[Measurement, ...] = (
            dram(24.0 * noise * (0.85 if days <= SLOWER_DAYS_AGO else 1), 8),
        )
        if half % 10 == 3:
            read = (dram(11.0, 8, "contended"),)
        disk = base.facts.disk
        filling = tuple(
            replace(f, available_bytes=int((100 + 5 * days) * 2**30)) for f in disk.filesystems
        )
        driver = "550.54.14" if days > NEW_DRIVER_DAYS_AGO else "570.86.10"
        facts = replace(
            base.facts,
            disk=replace(disk, filesystems=filling),
            gpu=replace(base.facts.gpu, driver_version=driver),
        )
        made.append(at(replace(base, facts=facts, measurements=read), now - days * DAY - HOUR))
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Report:
    host = plant(HEALTHY, tmp_path_factory.mktemp("node"))
    return diagnose(collect(host, kernels="never"), Policy())


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, base: Report) -> Path:
    """The month in a history; read only."""
    file = tmp_path_factory.mktemp("history") / "history.db"
    for report in month(base, time.time()):
        database.add(file, report, Retention())
    return file


def history(file: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run("history", *arguments, NODECHECK_HISTORY=str(file), **env)


# --- the list ---


def test_without_a_history_it_says_how_to_begin_one(tmp_path: Path) -> None:
    for arguments in ([], ["--json"], ["--metric", "load_1min"], ["export"]):
        failed(history(tmp_path / "none.db", *arguments), "no history yet", "nodecheck snapshot")
    assert list(tmp_path.iterdir()) == []


def test_a_history_that_a_full_disk_left_empty_is_none(base: Report, tmp_path: Path) -> None:
    file = tmp_path / "h.db"
    database.add(file, base, Retention())
    db = sqlite3.connect(file)
    for table in ("snapshots", "reports", "bases", "shared"):
        db.execute(f"DELETE FROM {table}")
    db.commit()
    db.close()
    for arguments in ([], ["--json"], ["--metric", "load_1min"], ["export"]):
        failed(history(file, *arguments), "no history yet", "nodecheck snapshot")


def test_what_snapshot_stored_is_listed(base: Report, tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    for age in (2 * HOUR, HOUR):
        saved.write_bytes(msgspec.json.encode(at(base, time.time() - age)))
        done = run("snapshot", "--from", str(saved), NODECHECK_HISTORY=str(tmp_path / "h.db"))
        assert done.returncode == 0, done.stderr
    done = history(tmp_path / "h.db")
    assert done.returncode == 0, done.stderr
    assert "2 snapshots" in done.stdout.splitlines()[0]
    assert "No change of hardware, software or findings in 60 minutes" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith(" @")] == [
        "@2", "@1",
    ]  # fmt: skip


def test_a_month_is_told_with_what_matters_first(stored: Path) -> None:
    done = history(stored)
    assert done.returncode == 0, done.stderr
    told = done.stdout
    assert told.startswith("nodecheck history ")
    assert "57 snapshots" in told
    assert "--since 30d" in told
    assert "GPU driver: 550.54.14 -> 570.86.10" in told
    assert "memory read, 8 threads  24.0 -> 20.4 GB/s (-15 %, worse) since " in told
    assert "disk free, /" in told
    assert "full in 1" in told or "full in 2" in told
    assert " 5 GiB less each day" in told
    places = [told.index(name) for name in ("\nCHANGES", "\nDRIFT", "\nFORECAST", "\nLATEST")]
    assert places == sorted(places)
    assert "@57 " in told
    assert not ANSI.search(told)
    assert max(map(len, told.splitlines())) <= 100


def test_since_narrows_it(stored: Path) -> None:
    done = history(stored, "--since", "2d")
    assert "GPU driver" not in done.stdout
    assert "--since 2d" in done.stdout
    failed(history(stored, "--since", "0.5h"), "no snapshot in 0.5h", "--since")


def test_a_terminal_gets_colour_and_its_width(stored: Path) -> None:
    told = on_terminal(80, "history", NODECHECK_HISTORY=str(stored))
    assert ANSI.search(told)
    bare = on_terminal(80, "history", NODECHECK_HISTORY=str(stored), NO_COLOR="1")
    assert not ANSI.search(bare.replace("\r\x1b[K", ""))
    assert max(map(len, bare.replace("\r\x1b[K", "").splitlines())) <= 80


def test_the_json_is_valid_against_the_published_schema(stored: Path) -> None:
    import msgspec

    from nodecheck.records.history.history import History

    published = json.loads(SCHEMA.read_text())
    assert published == json.loads(json.dumps(msgspec.json.schema(History))), "run: make schema"
    printed = json.loads(history(stored, "--json").stdout)
    jsonschema.Draft202012Validator(published).validate(printed)
    assert printed["count"] == 57
    assert [each["id"] for each in printed["latest"]] == list(range(57, 47, -1))
    assert printed["latest"][0]["time"] == printed["last"]
    (driver,) = printed["changes"]
    assert driver["difference"]["after"] == "570.86.10"


def test_a_page_is_written_with_a_chart_a_figure_and_disk(stored: Path, tmp_path: Path) -> None:
    file = tmp_path / "history.html"
    done = history(stored, "--html", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nodecheck history ")
    text = file.read_text()
    assert text.count('<svg xmlns="http://www.w3.org/2000/svg"') == 2
    assert "memory read, 8 threads from 20" in text
    assert "disk free, / from 20" in text


def test_the_page_charts_every_point_as_the_metric_does(base: Report, tmp_path: Path) -> None:
    """Of two a minute apart the disturbed one is told of too."""
    now = time.time()
    for hour in range(3, 0, -1):
        for minute, flags in ((0, ("contended",)), (1, ())):
            read = replace(base, measurements=(dram(24.0 - hour, 8, *flags),))
            database.add(tmp_path / "h.db", at(read, now - hour * HOUR + minute * 60), Retention())
    page = tmp_path / "history.html"
    done = history(tmp_path / "h.db", "--html", str(page))
    assert done.returncode == 0, done.stderr
    told = "3 values. 3 flagged (contended, unsteady or bimodal) are drawn as "
    assert told + "dots" in page.read_text()
    drawn = history(tmp_path / "h.db", "--metric", "dram_read@8").stdout
    assert told + "x" in " ".join(drawn.split())


def test_the_document_shows_what_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    months.store(file, days=30, every=6)
    clock = f"import time; time.time = lambda: {months.LAST + 60}.0"
    document = (DOCS / "history.md").read_text()
    for arguments in ([], ["--metric", "dram_read@8"]):
        done = subprocess.run(
            [NODECHECK[0], "-c", f"{clock}; from nodecheck.cli import main; main()", "history",
             *arguments],
            capture_output=True,
            encoding="utf-8",
            check=False,
            env={**os.environ, "NODECHECK_HISTORY": str(file), "COLUMNS": "100",
                 "PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"```\n{done.stdout}```\n" in document, done.stdout


# --- one figure ---


def test_a_figure_is_drawn(stored: Path) -> None:
    done = history(stored, "--metric", "dram_read@8", PYTHONIOENCODING="utf-8")
    assert done.returncode == 0, done.stderr
    assert "memory read, 8 threads" in done.stdout
    assert "│" in done.stdout
    assert "GB/s, median " in done.stdout
    assert "6 flagged" in done.stdout
    plain = history(stored, "--metric", "dram_read@8", PYTHONIOENCODING="ascii")
    assert plain.stdout.isascii()


@pytest.mark.parametrize("columns", [40, 120])
def test_a_drawing_fits_the_terminal(stored: Path, columns: int) -> None:
    drawn = on_terminal(
        columns, "history", "--metric", "disk_available@/", NODECHECK_HISTORY=str(stored),
        NO_COLOR="1", PYTHONIOENCODING="utf-8",
    )  # fmt: skip
    lines = [line.replace("\r\x1b[K", "") for line in drawn.splitlines()]
    assert max(map(len, lines)) <= columns
    assert max(len(line) for line in lines if "│" in line) > columns - 12


def test_an_unknown_figure_names_those_that_there_are(stored: Path) -> None:
    done = history(stored, "--metric", "dram_raed@8")
    failed(done, "dram_raed@8: no such figure in 30d; there are dram_read@8, ")
    assert "disk_available@/" in done.stderr
    hostile = history(stored, "--metric", "\x1b[2J")
    assert "\x1b" not in hostile.stderr


# --- export ---


def test_jsonl_is_the_reports_as_they_were(stored: Path, tmp_path: Path) -> None:
    done = history(stored, "export")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 57
    reports = [from_json(line.encode(), "line") for line in lines]
    assert [r.time for r in reports] == sorted(r.time for r in reports)
    assert reports[0].facts.gpu.driver_version == "550.54.14"
    again = tmp_path / "one.json"
    again.write_text(lines[-1])
    assert run("--from", str(again)).returncode == 0
    assert len(history(stored, "export", "--since", "7d").stdout.splitlines()) == 14


def test_csv_has_a_column_a_figure(stored: Path) -> None:
    done = history(stored, "export", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 57
    assert rows[0].keys() >= {"time", "id", "status", "dram_read@8 (B/s)", "disk_available@/ (B)"}
    assert float(rows[-1]["dram_read@8 (B/s)"]) == pytest.approx(20.4e9, rel=0.01)
    assert sum(row["flagged"] == "dram_read@8" for row in rows) == 6


def test_a_file_is_written_whole_over_what_is_of_its_kind(stored: Path, tmp_path: Path) -> None:
    file = tmp_path / "reports.jsonl"
    for _ in range(2):
        done = history(stored, "export", "-o", str(file))
        assert done.returncode == 0, done.stderr
        assert (done.stdout, done.stderr) == ("", f"Wrote {file} (57 snapshots)\n")
        assert len(file.read_text().splitlines()) == 57
    table = history(stored, "export", "--format", "csv", "-o", str(tmp_path / "all.csv"))
    assert table.stderr.endswith("all.csv (57 snapshots)\n")
    (tmp_path / "all.csv").unlink()
    failed(history(stored, "export", "--format", "csv", "-o", str(file)), "holds no such CSV")
    other = tmp_path / "notes.txt"
    other.write_text("dear diary")
    failed(history(stored, "export", "-o", str(other)), str(other), "holds no JSON")
    assert other.read_text() == "dear diary"
    failed(history(stored, "export", "-o", str(tmp_path / "no" / "x.csv")), "cannot be written")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "reports.jsonl"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_export_that_is_ended_leaves_nothing_behind(
    stored: Path, tmp_path: Path, number: signal.Signals
) -> None:
    script = (
        "import sys, time; import nodecheck.records.snapshots.database as d\n"
        "read = d.read_reports\n"
        "def slowly(path, since):\n"
        "    for line in read(path, since):\n"
        "        print(flush=True, file=sys.stderr); time.sleep(1); yield line\n"
        "d.read_reports = slowly\n"
        "from nodecheck.cli import main; main()"
    )
    file = tmp_path / "reports.jsonl"
    with subprocess.Popen(
        [NODECHECK[0], "-c", script, "history", "export", "-o", str(file)],
        env={**os.environ, "NODECHECK_HISTORY": str(stored)},
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()
        assert list(tmp_path.iterdir()) != []
        process.send_signal(number)
        assert process.wait(20) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_who_closes_the_pipe_gets_no_words(stored: Path, form: str) -> None:
    shell = f"{' '.join(NODECHECK)} history export --format {form} | head -c 10"
    done = subprocess.run(
        ["bash", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NODECHECK_HISTORY": str(stored)},
    )
    assert len(done.stdout) == 10
    assert done.stderr == ""


def test_a_full_disk_is_one_line(stored: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*NODECHECK, "history", "export"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "NODECHECK_HISTORY": str(stored)},
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# --- usage ---


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--since", "soon"], "no span of time"),
        (["export", "--since", "30"], "no span of time"),
        (["--since", "1m"], "'1m' is in minutes or seconds; write it as 12h, 30d or 8w"),
        (["--metric", "load_1min", "--json"], "nodecheck history export"),
        (["--metric", "load_1min", "--html", "x.html"], "nodecheck history export"),
        (["--since", "3d", "export"], "--since belongs behind export"),
        (["export", "--format", "xml"], "xml"),
        (["import"], "import"),
    ],
)
def test_wrong_usage_exits_with_2(stored: Path, arguments: list[str], named: str) -> None:
    done = history(stored, *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stdout == ""


def test_the_subcommand_has_its_own_help() -> None:
    done = run("history", "export", "--help")
    assert done.returncode == 0
    assert "--format [jsonl|csv]" in done.stdout
    assert "export" in run("history", "--help").stdout
