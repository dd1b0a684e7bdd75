"""One run of a peer on given CPUs, and the pages that its memory lay in."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from tests.bench.peers.tools import HUGE_PAGES, Figures, Run

TIMEOUT_SECONDS = 60
_LOOK_SECONDS = 0.01


def figures(run: Run, cpus: Sequence[int]) -> Figures:
    """What it measured. Raises ValueError where it printed no figure, SubprocessError as run()."""
    done = subprocess.run(
        _command(run, cpus),
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    return run.figures(done.stdout + done.stderr)


def huge_share(run: Run, cpus: Sequence[int]) -> float:
    """Of its memory what lay in 2 MiB pages, when it had most; looking slows it down."""
    most = {"Rss": 1, "AnonHugePages": 0}
    quiet = subprocess.DEVNULL
    command = _command(run, cpus)
    with subprocess.Popen(command, env=_environment(), stdout=quiet, stderr=quiet) as process:
        while process.poll() is None:
            for memory in _memory(process.pid):
                most = max(most, memory, key=lambda each: each["Rss"])
            time.sleep(_LOOK_SECONDS)
    return most["AnonHugePages"] / most["Rss"]


def _memory(pid: int) -> Iterator[dict[str, int]]:
    """KiB of it and of its children."""
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for each in family:
            text = Path(f"/proc/{each.pid}/smaps_rollup").read_text()
            found = re.findall(r"^(Rss|AnonHugePages):\s+(\d+)", text, re.MULTILINE)
            yield {name: int(size) for name, size in found}
    except (OSError, psutil.Error):
        return  # it ended meanwhile


def _command(run: Run, cpus: Sequence[int]) -> list[str]:
    return ["taskset", "--cpu-list", ",".join(map(str, cpus)), *run.command]


def _environment() -> dict[str, str]:
    return os.environ | HUGE_PAGES
