"""What reading a model takes: processor time and peak memory of a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_PROGRAM = """
import sys, time
from pathlib import Path
{setup}
from nodecheck.workload.errors import WorkloadError
begin, said = time.process_time(), ""
try:
    {work}
except WorkloadError as error:
    said = str(error)
status = Path("/proc/self/status").read_text()
print(time.process_time() - begin, status.split("VmHWM:")[1].split()[0], said, sep="\\n")
"""


TRIES, QUICK_SECONDS = 5, 1.0


class Spent(NamedTuple):
    seconds: float
    peak_kib: int
    said: str


def spent(setup: str, work: str, path: Path) -> Spent:
    """Of `work` on `Path(sys.argv[1])`, after the imports of `setup`; `said` is its error.

    Neighbours on the host slow a processor down unseen: the quickest of some that are not quick.
    """
    tries: list[Spent] = []
    while len(tries) < TRIES and not any(each.seconds < QUICK_SECONDS for each in tries):
        tries.append(_spent(setup, work, path))
    return min(tries, key=lambda each: each.seconds)


def _spent(setup: str, work: str, path: Path) -> Spent:
    program = _PROGRAM.format(setup=setup, work=work)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    seconds, peak, said = done.stdout.split("\n", 2)
    return Spent(float(seconds), int(peak), said.rstrip("\n"))
