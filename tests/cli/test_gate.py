"""`nodecheck gate` as a monitoring system runs it: one line, and an exit status that never lies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_plan import QWEN3_8B
from tests.hosts import HEALTHY, THREE_L40
from tests.trees import Tree, plant

SIZE = ("--weights", "16.3GiB", "--layers", "64")
NODECHECK = [sys.executable, "-m", "nodecheck"]


def gate(*arguments: str, command: str = "gate") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NODECHECK, *command.split(), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def planted(tree: Tree, place: Path) -> str:
    plant(tree, place)
    return str(place)


@pytest.fixture
def healthy(tmp_path: Path) -> str:
    return planted(HEALTHY, tmp_path / "healthy")


@pytest.fixture
def masked(tmp_path: Path) -> str:
    return planted(THREE_L40, tmp_path / "masked")


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--strategy", "gpu-resident", "--min-tokens-per-second", "20"], 0, "OK gpu-resident "),
        (["--min-tokens-per-second", "20"], 0, "OK gpu-resident "),
        ([], 0, "OK gpu-resident viable, "),
        (["--strategy", "gpu-resident", "--min-tokens-per-second", "38"], 1,
         "WARNING gpu-resident "),
        (["--strategy", "gpu-resident", "--min-tokens-per-second", "200"], 2,
         "CRITICAL gpu-resident "),
        (["--strategy", "tensor-parallel"], 2, "CRITICAL tensor-parallel is no way"),
    ],
)  # fmt: skip
def test_the_exit_status_is_that_of_the_first_line(
    healthy: str, arguments: list[str], status: int, line: str
) -> None:
    done = gate(*SIZE, "--root", healthy, *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith(line)
    assert len(first.encode()) <= 80
    assert done.stderr == ""


def test_a_model_is_read_from_its_files(healthy: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_8B))
    done = gate(
        "--model", str(tmp_path), "--strategy", "gpu-resident", "--min-tokens-per-second", "20",
        "--root", healthy,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("OK gpu-resident ")
    assert ">= 20" in done.stdout.splitlines()[0]


def test_the_nodes_own_findings_fail_the_gate(masked: str) -> None:
    done = gate(*SIZE, "--root", masked, "--strategy", "gpu-resident",
                "--min-tokens-per-second", "20")  # fmt: skip
    assert done.returncode == 2
    assert done.stdout.startswith("CRITICAL node: cpu.hypervisor_masked and ")
    assert "gpu-resident" in done.stdout


def test_what_is_not_known_fails_unless_told_otherwise(healthy: str) -> None:
    asked = (*SIZE, "--root", healthy, "--strategy", "host-kv-pool")
    assert gate(*asked).returncode == 3
    lenient = gate(*asked, "--unknown", "ok")
    assert lenient.returncode == 0
    assert lenient.stdout.startswith("UNKNOWN ")


def test_unknown_is_lenient_about_nothing_else(masked: str) -> None:
    assert gate(*SIZE, "--root", masked, "--unknown", "ok").returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--surprise"],
        ["--strategy", "magic", *SIZE],
        ["--min-tokens-per-second", "nan", *SIZE],
        ["--min-tokens-per-second", "-1", *SIZE],
        ["--strategy", "model-load", "--min-tokens-per-second", "5", *SIZE],
        ["--layers", "4"],
        [],
        ["--model", "/nonexistent"],
        [*SIZE, "--root", "/nonexistent"],
        [*SIZE, "--from", "/nonexistent"],
        [*SIZE, "--policy", "/nonexistent"],
        [*SIZE, "--quick", "--kernels", "always"],
    ],
)
def test_wrong_usage_and_failures_are_unknown_and_never_critical(arguments: list[str]) -> None:
    done = gate(*arguments)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command", ["--surprise gate", "--root /tmp gate", "--weights gate gate", "--quick gate"]
)
def test_an_error_before_the_command_is_unknown_too(command: str) -> None:
    assert gate(command=command).returncode == 3


@pytest.mark.parametrize("command", ["--surprise", "--root gate --surprise", "bench gate"])
def test_other_commands_keep_their_own_status(command: str) -> None:
    assert gate(command=command).returncode == 2


def test_a_crash_of_ours_is_unknown(healthy: str) -> None:
    script = (
        "import sys, nodecheck.plan as plan;"
        "plan.make_plan = lambda *_: 1 / 0;"
        "from nodecheck.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "gate", *SIZE, "--root", healthy],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "its own fault: ZeroDivisionError" in done.stderr


def test_a_closed_pipe_is_unknown(healthy: str) -> None:
    shell = f"{' '.join([*NODECHECK, 'gate', *SIZE, '--root', healthy])} >&-; echo $? >&2"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "3"
    with Path("/dev/full").open("w") as full:
        command = [*NODECHECK, "gate", *SIZE, "--root", healthy]
        assert subprocess.run(command, stdout=full, stderr=full, check=False).returncode == 3


def test_help_is_no_failure() -> None:
    done = gate("--help")
    assert done.returncode == 0
    assert "--min-tokens-per-second" in done.stdout
