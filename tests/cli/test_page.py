"""`nodecheck --html FILE` through the real command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import failed, run
from tests.hosts import THREE_L40
from tests.render.pages import Page
from tests.trees import plant


@pytest.fixture
def node(tmp_path: Path) -> Path:
    plant(THREE_L40, tmp_path / "node")
    return tmp_path / "node"


def test_a_page_is_written_beside_the_report(node: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = run("--root", str(node), "--html", str(file))
    assert done.returncode == 0
    assert done.stdout.splitlines()[2].startswith("CRITICAL")
    assert done.stderr == f"Wrote {file}\n"
    assert "cpu.hypervisor_masked" in Page(file.read_text()).said


def test_json_and_page_are_of_one_report_and_saved_facts_make_the_same(
    node: Path, tmp_path: Path
) -> None:
    live, saved = tmp_path / "live.html", tmp_path / "saved.html"
    done = run("--root", str(node), "--json", "--html", str(live))
    headline = json.loads(done.stdout)["verdict"]["headline"]
    assert headline in Page(live.read_text()).said
    (tmp_path / "report.json").write_text(done.stdout)
    assert run("--from", str(tmp_path / "report.json"), "--html", str(saved)).returncode == 0
    assert saved.read_text() == live.read_text()


def test_the_page_is_about_the_model_that_is_named(node: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    model = ("--weights", "4.9GiB", "--layers", "32", "--weight-type", "q8_0")
    assert run("--root", str(node), *model, "--html", str(file)).returncode == 0
    assert "4.9 GiB, 32 layers" in Page(file.read_text()).said


def test_what_cannot_be_written_is_told_before_time_is_spent(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    failed(run("--html", str(notes)), "notes.txt", "holds no HTML page")
    assert notes.read_text() == "mine"
    failed(run("--html", str(tmp_path / "none" / "page.html")), "No such file")
    failed(run("--html", str(tmp_path)), "no regular file")


def test_the_option_belongs_to_the_report_alone(tmp_path: Path) -> None:
    done = run("--html", str(tmp_path / "page.html"), "explain", "disk.low")
    assert done.returncode == 2
    assert "--html" in done.stderr
