"""`nodecheck compare` on a fleet, as a command: folders and files, good and bad."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from nodecheck.model import pretty_json
from tests.lab.hanging_mount import LOOKUP, hanging_mount, is_possible
from tests.records.fleets import healthy, member, mixed, with_cards

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS / "fleet.schema.json"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder `reports` with ten reports, one of a node with a card fewer, one of a slow node."""
    reports = healthy(10)
    reports[3] = with_cards(reports[3], 7)
    reports[5] = member(5, dram_read_64=0.5)
    (tmp_path / "reports").mkdir()
    for number, report in enumerate(reports):
        (tmp_path / "reports" / f"{number}.json").write_bytes(pretty_json(report))
    return tmp_path


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nodecheck", "compare", *arguments],
        cwd=place,
        env={**os.environ, "NODECHECK_HISTORY": str(place / "history.db"), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def said(place: Path, *arguments: str) -> str:
    done = run(place, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def failed(done: subprocess.CompletedProcess[str], status: int, *named: str) -> None:
    """It ended so, and the last line of standard error, the only one but usage, says why."""
    assert done.returncode == status, done.stdout
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 or status == 2
    for word in named:
        assert word in lines[-1]


def test_a_folder_and_its_files_are_the_same_fleet(place: Path) -> None:
    folder = said(place, "reports")
    assert "2 ODD" in folder
    assert "gpu003" in folder
    assert said(place, *(f"reports/{n}.json" for n in range(10))) == folder


def test_the_document_shows_what_is_printed(place: Path) -> None:
    for file in (place / "reports").iterdir():
        file.unlink()
    for number, report in enumerate(mixed(12)):
        (place / "reports" / f"{number}.json").write_bytes(pretty_json(report))
    printed = said(place, "reports")
    assert f"```\n{printed}```\n" in (DOCS / "fleet.md").read_text(), printed


def test_three_files_are_a_fleet(place: Path) -> None:
    told = said(place, "reports/0.json", "reports/1.json", "reports/2.json")
    assert told.startswith("nodecheck")
    assert "NOT TOLD" in told
    assert "3 nodes" in told


def test_json_is_valid_against_the_published_schema(place: Path) -> None:
    made = json.loads(said(place, "reports", "--json"))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(made)
    assert [each["node"] for each in made["odd"]] == ["gpu003", "gpu005"]
    assert made["odd"][0]["file"] == "reports/3.json"


def test_a_page_is_written(place: Path) -> None:
    said(place, "reports", "--html", "page.html")
    assert "2 ODD" in (place / "page.html").read_text().replace("</strong>", "")


def test_bad_files_are_named_and_stop_nothing(place: Path) -> None:
    reports = place / "reports"
    (reports / "a.json").write_text("{}")
    (reports / "b.json").write_text('{"schema_version": 99}')
    (reports / "c.json").write_bytes(b"\xff" * 100)
    (reports / "d.json").mkdir()
    os.mkfifo(reports / "e.json")
    with (reports / "f.json").open("wb") as file:
        file.truncate(80 << 20)
    (reports / "g.json").symlink_to("nowhere.json")
    (reports / b"h\xff.json".decode(errors="surrogateescape")).write_text("{}")
    good = b"i\xff.json".decode(errors="surrogateescape")
    (reports / good).write_bytes((reports / "0.json").read_bytes())
    (reports / "not a report.txt").write_text("this is passed over")
    made = json.loads(said(place, "reports", "missing.json", "--json"))
    why = {Path(each["file"]).name: each["why"] for each in made["unread"]}
    assert sorted(why) == [
        *(f"{letter}.json" for letter in "abcdefg"), "h\ufffd.json", "missing.json",
    ]  # fmt: skip
    assert "schema 99" in why["b.json"]
    assert why["d.json"] == "Is a directory"
    assert why["e.json"] == "not a regular file"
    assert why["f.json"].startswith("longer than")
    assert why["missing.json"] == "No such file or directory"
    assert made["nodes"] == 10
    assert [each["node"] for each in made["odd"]] == ["gpu003", "gpu005"]


def test_where_all_are_bad_it_fails_in_one_line(place: Path) -> None:
    for number in range(10):
        (place / "reports" / f"{number}.json").write_text("[]")
    failed(run(place, "reports"), 1, "none of 10 files", "reports/0.json", "not a nodecheck report")


def test_an_empty_folder_is_told(place: Path) -> None:
    (place / "empty").mkdir()
    failed(run(place, "empty"), 1, "empty: it holds no *.json files")


@pytest.mark.parametrize("other", ["@-1", "-"])
def test_a_fleet_is_of_files(place: Path, other: str) -> None:
    failed(run(place, "reports", "reports/1.json", other), 2, f"{other}: a fleet is of files")


@pytest.mark.parametrize("one", ["@-1", "-"])
def test_beside_one_report_another_is_asked_for(place: Path, one: str) -> None:
    failed(run(place, one), 2, f"{one}: name a second report or snapshot to set beside it")


def test_of_snapshots_two_can_be_compared(place: Path) -> None:
    failed(run(place, "@1", "@2", "@3"), 2, "@1: a fleet is of files", "compare @1 @2")


def test_a_policy_does_not_judge_a_fleet_again(place: Path) -> None:
    failed(run(place, "reports", "--policy", "minimal"), 2, "--policy")


def test_one_report_is_no_fleet(place: Path) -> None:
    failed(run(place, "reports/1.json"), 2, "reports/1.json")


def test_the_same_file_twice_counts_once(place: Path) -> None:
    made = json.loads(said(place, "reports", "reports/1.json", "./reports/2.json", "--json"))
    assert made["nodes"] == 10
    assert made["left_out"][0]["why"].startswith("a copy of")


@pytest.mark.lab
@pytest.mark.skipif(not is_possible(), reason="needs root and /dev/fuse")
def test_a_file_system_that_hangs_costs_its_own_files_alone(place: Path) -> None:
    mount = place / "hung"
    with hanging_mount(mount, LOOKUP):
        files = [f"hung/{n}.json" for n in range(5)]
        made = json.loads(said(place, "reports", *files, "--json"))
    assert made["nodes"] == 10
    assert [each["file"] for each in made["unread"]] == files
    assert all("its file system hangs" in each["why"] for each in made["unread"])
