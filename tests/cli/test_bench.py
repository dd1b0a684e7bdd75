"""`nodecheck bench` as a command: what it asks for, prints, writes, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from nodecheck import collect
from nodecheck.cli import group
from nodecheck.report import Report
from tests.render.benches import GUEST, INTERRUPTED, NOTHING
from tests.render.cards import ONE

SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"

EVERYTHING = ("dram", "latency", "placement", "decode", "gpu")

Run = Callable[..., Result]


class Engine:
    """Stands for the measuring: notes what it is asked, gives a report."""

    def __init__(self) -> None:
        self.report = GUEST
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, _host: object, what: tuple[str, ...], **options: Any) -> Report:
        self.asked.append((what, options["max_seconds"], options["force"]))
        options["progress"]("measuring memory on 2 threads", 12.4)
        return self.report


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in = Engine()
    monkeypatch.setattr(collect, "bench", stand_in)
    return stand_in


def run(*arguments: str, charset: str = "utf-8") -> Result:
    return CliRunner(charset=charset).invoke(group, ["bench", *arguments], prog_name="nodecheck")


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], (EVERYTHING, None, False)),
        (["all", "--max-seconds", "9"], (EVERYTHING, 9, False)),
        (["decode"], (("decode",), None, False)),
        (["gpu", "--force"], (("gpu",), None, True)),
    ],
)
def test_what_is_named_is_measured(
    engine: Engine, arguments: list[str], asked: tuple[Any, ...]
) -> None:
    engine.report = ONE if arguments[:1] == ["gpu"] else GUEST
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert engine.asked == [asked]
    if arguments[:1] == ["gpu"]:
        assert "link carries what it should: 25.1 GB/s of 31.5" in done.stdout
        return
    assert "Memory is read at 24.1 GB/s on 2 threads." in done.stdout
    assert done.stderr == ""  # progress is for terminals


@pytest.mark.parametrize(
    "arguments", [["vram"], ["--max-seconds", "0"], ["--max-seconds", "nan"], ["--quick"]]
)
def test_wrong_usage_exits_with_2(engine: Engine, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2
    assert engine.asked == []


def test_json_is_the_report_with_its_findings(engine: Engine) -> None:
    done = run("--json")
    assert engine.asked
    printed = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(printed)
    assert len(printed["measurements"]) == len(GUEST.measurements)
    assert printed["latencies"][0]["median_seconds"] == pytest.approx(112.4e-9)
    assert printed["verdict"]["headline"] != "Not judged."


def test_the_page_is_written_beside_what_is_printed(engine: Engine, tmp_path: Path) -> None:
    page = tmp_path / "bench.html"
    done = run("--html", str(page))
    assert done.exit_code == 0
    assert "MEMORY" in done.stdout
    assert done.stderr == f"Wrote {page}\n"
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert engine.asked


@pytest.mark.parametrize("name", [".", "missing/bench.html"])
def test_a_page_that_cannot_be_written_is_told_before_anything_is_measured(
    engine: Engine, tmp_path: Path, name: str
) -> None:
    done = run("--html", str(tmp_path / name))
    assert done.exit_code == 1
    assert "cannot be written" in done.stderr
    assert engine.asked == []


@pytest.mark.parametrize(
    ("report", "told"), [(INTERRUPTED, "interrupted"), (NOTHING, "nothing was measured")]
)
def test_what_there_is_is_printed_and_the_exit_status_tells(
    engine: Engine, report: Report, told: str
) -> None:
    engine.report = report
    done = run()
    assert done.exit_code == 1
    assert done.stdout.startswith("nodecheck 0.1.0")
    assert len(done.stderr.splitlines()) == 1
    assert told in done.stderr


@pytest.mark.usefixtures("engine")
def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert "█" in run().stdout
    plain = run(charset="latin-1")
    assert plain.stdout.isascii()
    assert "##" in plain.stdout


@pytest.mark.parametrize("arguments", [["gpu"], ["gpu", "--json"]])
def test_where_there_is_no_card_a_line_says_so(engine: Engine, arguments: list[str]) -> None:
    done = run(*arguments)
    assert engine.asked
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: this machine has no NVIDIA GPU: nothing to measure\n"


@pytest.mark.usefixtures("engine")
def test_a_policy_counts(tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text('required = ["nonsense"]\n')
    assert "nonsense" in run("--policy", str(policy)).stderr


def test_the_real_thing_measures_placement() -> None:
    command = [sys.executable, "-m", "nodecheck", "bench", "placement", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    dram = json.loads(done.stdout)["facts"]["dram"]
    cpus = len(os.sched_getaffinity(0))
    assert done.returncode == (0 if cpus > 1 else 1), done.stderr
    assert dram["pairs"] == cpus * (cpus - 1) // 2
    assert all(1e-9 < trip["seconds"] < 1e-3 for trip in dram["round_trips"])


def test_ctrl_c_ends_it_at_once_with_what_was_measured() -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "nodecheck", "bench", "dram", "--json"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        told = b""
        while b"measuring" not in told:
            told += os.read(leader, 4096)
        assert b" s left" in told
        time.sleep(0.2)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=30)
        took = time.monotonic() - sent
    os.close(leader)
    assert process.returncode == 1
    assert any("interrupted" in text for text in json.loads(printed)["facts"]["dram"]["warnings"])
    assert took < 2  # 0.1 s on an idle machine
