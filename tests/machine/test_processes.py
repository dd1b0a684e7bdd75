"""Who keeps the CPUs busy, seen on a real process."""

from __future__ import annotations

import subprocess
import sys

from nodecheck.machine.processes import busiest

SPIN = """
import time
end = time.monotonic() + 20
while time.monotonic() < end: pass
"""


def test_a_process_that_spins_is_named() -> None:
    spin = [
        sys.executable,
        "-c",
        "import time\nend = time.time() + 20\nwhile time.time() < end: pass",
    ]
    hogs = [subprocess.Popen(spin) for _ in range(4)]
    try:
        seen = busiest(0.5)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert seen is not None
    assert seen.pid in {hog.pid for hog in hogs}
    assert seen.name.startswith("python")
    assert 0.05 < seen.cpus < 1.5
