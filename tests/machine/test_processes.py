"""Who keeps the CPUs busy, seen on real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nodecheck.machine import processes

SPIN = """
import time
end = time.monotonic() + 20
while time.monotonic() < end: pass
"""


def test_a_process_that_spins_is_seen_and_the_busiest_is_named() -> None:
    hogs = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(4)]
    try:
        before = processes._cpu_seconds()
        seen = processes.busiest(0.5)
        after = processes._cpu_seconds()
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    used = max(after[hog.pid] - before.get(hog.pid, 0.0) for hog in hogs)
    assert used > 0
    assert seen is not None
    assert seen.name
    assert seen.cpus > 0.05  # it, or something busier that runs on this machine too
    assert seen.pid in {hog.pid for hog in hogs} or seen.cpus >= 0.5 * used


def planted(place: Path, names: dict[int, str]) -> str:
    """A /proc with these processes."""
    for pid, name in names.items():
        directory = place / str(pid)
        directory.mkdir(parents=True)
        fields = " ".join(["S", "1", *["0"] * 49])
        (directory / "stat").write_text(f"{pid} ({name[:15]}) {fields}\n")
        (directory / "cmdline").write_text(f"/usr/bin/{name}\0")
    (place / "stat").write_text("cpu 1 1 1 1 1 1 1 1 1 1\nbtime 1700000000\n")
    return str(place)


@pytest.mark.parametrize(
    ("names", "runs"),
    [
        ({1: "systemd", 2: "kthreadd", 812: "nv-fabricmanager"}, True),
        ({1: "systemd", 2: "kthreadd", 812: "nv-hostengine"}, False),
        ({1: "bash", 812: "nv-fabricmanager"}, None),  # a container's processes
        ({1: "bash", 2: "python3"}, None),
    ],
)
def test_whether_a_program_of_the_host_runs(
    names: dict[int, str], runs: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    psutil.process_iter.cache_clear()
    monkeypatch.setattr(psutil, "PROCFS_PATH", planted(tmp_path, names))
    assert processes.host_runs("nv-fabricmanager") is runs
    psutil.process_iter.cache_clear()
