"""The crontab: lines that cron takes, and commands that store a snapshot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.cli.test_commands import run

WAIT_MAX_SECONDS = 600


@pytest.fixture(scope="module")
def crontab() -> list[str]:
    printed = run("init", "cron", "nodecheck").stdout
    return [line for line in printed.splitlines() if line and not line.startswith("#")]


def jobs(crontab: list[str]) -> list[tuple[list[str], str, str]]:
    """Times, user and command of every line that is no variable."""
    lines = [line.split(None, 6) for line in crontab if not re.match(r"[A-Z]+=", line)]
    return [(fields[:5], fields[5], fields[6]) for fields in lines]


def test_a_light_one_each_hour_and_a_full_one_each_day(crontab: list[str]) -> None:
    (hourly, _, light), (daily, _, full) = jobs(crontab)
    assert re.fullmatch(r"[1-5]?\d \* \* \* \*", " ".join(hourly))
    assert re.fullmatch(r"[1-5]?\d [0-6] \* \* \*", " ".join(daily))
    assert "snapshot --quick" in light
    assert "snapshot >" in full


def test_what_cron_would_misread_is_not_in_it(crontab: list[str]) -> None:
    """A % is a line break to cron; /etc/cron.d takes no file with a dot in its name."""
    assert all(user == "root" and "%" not in command for _, user, command in jobs(crontab))
    assert "/etc/cron.d/nodecheck\n" in run("init", "cron").stdout


@pytest.mark.parametrize("which", [0, 1])
def test_its_command_waits_and_stores_a_snapshot(
    which: int, crontab: list[str], tmp_path: Path
) -> None:
    shell = next(line for line in crontab if line.startswith("SHELL=")).removeprefix("SHELL=")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    (tmp_path / "sleep").write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/waited\n')
    (tmp_path / "sleep").chmod(0o755)
    command = jobs(crontab)[which][2]
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "NODECHECK_HISTORY": str(tmp_path / "history.db"),
    }
    done = subprocess.run(
        [shell, "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert 0 <= int((tmp_path / "waited").read_text()) < WAIT_MAX_SECONDS
    told = run("history", NODECHECK_HISTORY=environment["NODECHECK_HISTORY"])
    assert "@1" in told.stdout


def test_the_waits_differ(crontab: list[str]) -> None:
    wait = jobs(crontab)[0][2].partition(";")[0].removeprefix("sleep ")
    told = subprocess.run(
        ["bash", "-c", f"for n in {{1..400}}; do echo {wait}; done"],
        capture_output=True,
        text=True,
        check=True,
    )
    waits = [int(line) for line in told.stdout.split()]
    assert max(waits) < WAIT_MAX_SECONDS
    assert len(set(waits)) > 100
