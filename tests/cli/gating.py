"""Runs `nodecheck gate` as a monitoring system would, and reads what it says as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.perfdata import Figure, parsed
from tests.trees import Tree, plant

NODECHECK = [sys.executable, "-m", "nodecheck"]

STATUSES = {
    "nagios": {"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3},
    "npd": {"OK": 0, "WARNING": 1, "CRITICAL": 1, "UNKNOWN": 2},
    "posix": {"OK": 0, "WARNING": 1, "CRITICAL": 1, "UNKNOWN": 1},
}
"""Exit style -> first word -> exit status."""

AT_ONCE = 3

Done = subprocess.CompletedProcess[str]


def gate(*arguments: str, command: str = "gate", **environment: str) -> Done:
    return subprocess.run(
        [*NODECHECK, *command.split(), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def gates(commands: Iterable[Sequence[str]], **environment: str) -> list[Done]:
    """Several, a few at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda arguments: gate(*arguments, **environment), commands))


def forked_gates(commands: Sequence[Sequence[str]]) -> list[Done]:
    """Each in a process of its own that is forked from one interpreter."""
    script = Path(__file__).with_name("forked_gates.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps([list(arguments) for arguments in commands]),
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        subprocess.CompletedProcess(list(arguments), *result)
        for arguments, result in zip(commands, json.loads(done.stdout), strict=True)
    ]


def planted(tree: Tree, place: Path) -> str:
    plant(tree, place)
    return str(place)


def first_word(done: Done) -> str:
    return done.stdout.split(" ", 1)[0]


def answered(done: Done, style: str = "nagios") -> dict[str, Figure]:
    """Check one line of an answer, in form; its figures."""
    assert done.stderr == ""
    assert done.stdout.endswith("\n")
    assert done.stdout.count("\n") == 1, done.stdout
    line, bar, figures = done.stdout.rstrip("\n").partition(" | ")
    assert len(line.encode()) <= 80
    assert line.split(" ", 1)[0] in STATUSES["nagios"]
    assert "|" not in line
    assert bool(bar) == (style == "nagios")
    return parsed(figures) if bar else {}


def failed(done: Done, style: str = "nagios") -> str:
    """Check that it could not judge and says why in one line on both ways; that line."""
    assert done.returncode == STATUSES[style]["UNKNOWN"], done.stdout + done.stderr
    assert done.stdout.startswith("UNKNOWN ")
    assert done.stdout.count("\n") == 1
    assert "|" not in done.stdout
    assert len(done.stdout.rstrip("\n").encode()) <= 80
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.removeprefix("Error: ").rstrip("\n")
