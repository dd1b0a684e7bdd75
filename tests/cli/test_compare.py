"""`nodecheck compare A B` as a command: what it takes, prints and writes, how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from nodecheck import __version__
from nodecheck.model import pretty_json
from nodecheck.policy import Retention
from nodecheck.records.compare.comparison import Comparison
from nodecheck.records.snapshots import database
from tests.records.sides import facts, node

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = DOCS / "compare.schema.json"
WAIVED = """
[[waivers]]
id = "cpu.hypervisor_masked"
reason = "nothing runs on the CPU here"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the reports before.json and after.json."""
    (tmp_path / "before.json").write_bytes(pretty_json(node("masked")))
    (tmp_path / "after.json").write_bytes(pretty_json(node("fast")))
    return tmp_path


def run(place: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "nodecheck", "compare", *arguments],
        cwd=place,
        env={**os.environ, "NODECHECK_HISTORY": str(place / "history.db"), "COLUMNS": "100"},
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def said(place: Path, *arguments: str, stdin: bytes = b"") -> str:
    done = run(place, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def failed(done: subprocess.CompletedProcess[bytes], status: int, *named: str) -> None:
    """It ended so, and the last line of standard error, the only one but usage, says why."""
    assert done.returncode == status, done.stdout
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert lines[-1].startswith("Error: ")
    assert status == 2 or len(lines) == 1
    for word in named:
        assert word in lines[-1]


def test_two_reports_are_set_side_by_side(place: Path) -> None:
    lines = said(place, "before.json", "after.json").splitlines()
    assert lines[1].startswith(" A  before.json   2026-11-28 10:00Z   CRITICAL")
    assert "CPU type changed: AVX2, FMA, F16C and 6 more gained" in "\n".join(lines)


def test_the_document_shows_what_is_printed(place: Path) -> None:
    printed = said(place, "before.json", "after.json")
    assert f"```\n{printed}```\n" in (DOCS / "compare.md").read_text(), printed


def test_one_of_them_may_be_standard_input(place: Path) -> None:
    after = (place / "after.json").read_bytes()
    lines = said(place, "before.json", "-", stdin=after).splitlines()
    assert any(line.startswith(" B  standard input   2026-11-29 10:00Z") for line in lines)


def test_the_json_is_as_its_schema_says(place: Path) -> None:
    made = json.loads(said(place, "before.json", "after.json", "--json"))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(made)
    assert made["differs"]
    assert made["headline"].startswith("CPU type changed: ")


def test_the_published_schema_is_the_one_in_force() -> None:
    in_force = json.loads(json.dumps(msgspec.json.schema(Comparison)))
    assert json.loads(SCHEMA.read_text()) == in_force, "run: make schema"


def test_a_page_is_written_beside_what_is_printed(place: Path) -> None:
    done = run(place, "before.json", "after.json", "--html", "page.html")
    assert done.returncode == 0, done.stderr
    assert b"CPU type changed" in done.stdout
    page = (place / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "CPU type changed" in page


def test_snapshots_are_named_by_their_place(place: Path) -> None:
    history = place / "history.db"
    for name in ("masked", "fast"):
        database.add(history, node(name), Retention())
    lines = said(place, "@-2", "@-1").splitlines()
    assert lines[1].startswith(" A  @-2   2026-11-28 10:00Z   CRITICAL")
    assert (
        said(place, "@2026-11-28T12:00", "after.json")
        .splitlines()[1]
        .startswith(" A  @2026-11-28T12:00   2026-11-28 10:00Z   CRITICAL")
    )


def test_both_are_judged_anew_so_that_a_new_rule_is_no_change(place: Path) -> None:
    """A report of an older version knows no finding, strategy or verdict of today's."""
    old = pretty_json(facts("masked"))
    assert json.loads(old)["findings"] == []
    (place / "old.json").write_bytes(old)
    assert said(place, "old.json", "before.json").splitlines()[1] == "No difference beyond noise."


def test_both_are_judged_by_the_policy_that_is_named(place: Path) -> None:
    (place / "policy.toml").write_text(WAIVED)
    made = json.loads(said(place, "before.json", "after.json", "--policy", "policy.toml", "--json"))
    masked = next(f for f in made["findings"] if f["id"] == "cpu.hypervisor_masked")
    assert (masked["before"], masked["outcome"]) == ("info", "cleared")
    assert made["before"]["status"] == "warning"


def test_a_name_that_is_no_text_is_told_as_one(place: Path) -> None:
    name = b"\xff.json".decode(errors="surrogateescape")
    (place / "before.json").rename(place / name)
    made = json.loads(said(place, name, "after.json", "--json", "--html", "page.html"))
    assert made["before"]["label"] == "\ufffd.json"
    assert "\ufffd.json" in (place / "page.html").read_text()


def test_two_that_are_alike_are_two_lines(place: Path) -> None:
    when = "2026-11-29 10:00Z"
    assert said(place, "after.json", "after.json").splitlines() == [
        f"nodecheck {__version__}   A after.json, {when}   B after.json, {when}",
        "No difference beyond noise.",
    ]


@pytest.mark.parametrize(
    ("operands", "status", "named"),
    [
        (["before.json", "nowhere.json"], 1, ["nowhere.json: No such file"]),
        (["before.json", "broken.json"], 1, ["broken.json: not a nodecheck report"]),
        (["before.json", "pipe"], 1, ["pipe: not a regular file"]),
        (["before.json", "@-1"], 1, ["history.db: no history yet"]),
        (["-", "-"], 2, ["standard input"]),
        (["before.json", ""], 2, ["name of a report is empty"]),
        (["before.json", "after.json", ""], 2, ["name of a report is empty"]),
        (["before.json", "after.json", "--html", ""], 2, ["file to write is empty"]),
        ([], 2, ["Missing argument"]),
        (["before.json", "after.json", "--policy", "nowhere.toml"], 1, ["nowhere.toml"]),
        (["before.json", "after.json", "--html", "before.json"], 1, ["before.json", "HTML page"]),
    ],
)
def test_what_cannot_be_done_is_one_line(
    place: Path, operands: list[str], status: int, named: list[str]
) -> None:
    (place / "broken.json").write_text('{"schema_version": 1}')
    os.mkfifo(place / "pipe")
    failed(run(place, *operands), status, *named)
