"""Who keeps the CPUs busy, seen on real processes."""

from __future__ import annotations

import subprocess
import sys

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
