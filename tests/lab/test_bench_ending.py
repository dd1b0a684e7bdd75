"""`nodecheck bench` ends when it is told to, with what was measured, and leaves nobody behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from tests.processes import is_running

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

BENCH = (sys.executable, "-m", "nodecheck", "bench")
AFTER_SECONDS = 4.0
ANSWER_SECONDS_MAX = 1.0
"""0.1 s on a machine that does nothing else."""

LATE_SECONDS_MAX = 1.5
"""Start-up, the facts before the measurement and the judging after it."""


def interrupted(send: Callable[[int, int], None]) -> float:
    """Seconds from SIGINT until it has printed what was measured."""
    process = subprocess.Popen(
        [*BENCH, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(AFTER_SECONDS)
    there = in_session(process.pid)
    assert there - {process.pid}, "no child was at work"
    began = time.monotonic()
    send(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    seconds = time.monotonic() - began
    assert process.returncode == 1
    assert json.loads(printed)["facts"]["dram"]["round_trips"]
    assert [pid for pid in there if is_running(pid)] == []
    assert in_session(process.pid) == set()
    return seconds


def in_session(leader: int) -> set[int]:
    """The processes of its session."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["parent", "group"])
def test_ctrl_c(send: Callable[[int, int], None]) -> None:
    taken = [interrupted(send) for _ in range(3)]
    sys.stdout.write(f"ended {median(taken) * 1000:.0f} ms after SIGINT (median of {len(taken)})\n")
    assert median(taken) < ANSWER_SECONDS_MAX


@pytest.mark.parametrize("seconds", [2, 5])
def test_a_time_that_was_set_is_kept(seconds: int) -> None:
    command = [*BENCH, "--json", "--max-seconds", str(seconds)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    took = time.monotonic() - began
    sys.stdout.write(f"{took:.1f} s of {seconds} s\n")
    assert took < seconds + LATE_SECONDS_MAX
    assert done.returncode in (0, 1), done.stderr.decode()
    assert json.loads(done.stdout)["facts"]["dram"]
