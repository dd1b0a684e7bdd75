"""Hold nodecheck's budgets against peers: `make bench`. Interleaved rounds, medians, ratios.

The cores may be shared and noisy, so no figure here is an absolute time: each is a ratio to a peer
that ran in the same rounds. A peer that is not installed is named and left out.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from pathlib import Path

ROUNDS = 15
NODECHECK = str(Path(sys.executable).with_name("nodecheck"))
COMMANDS = {
    "python -c 'import click'": [sys.executable, "-c", "import click"],
    "nodecheck --help": [NODECHECK, "--help"],
    "nodecheck --quick": [NODECHECK, "--quick"],
    "nodecheck --json --quick": [NODECHECK, "--json", "--quick"],
    "inxi -F": ["inxi", "-F"],
    "lshw": ["lshw"],
    "lscpu": ["lscpu"],
}
BUDGETS = (
    ("nodecheck --help", "python -c 'import click'", 1.5),
    ("nodecheck --quick", "inxi -F", 0.5),
    ("nodecheck --quick", "lshw", None),
    ("nodecheck --quick", "lscpu", None),
)
"""A command, the peer it is held against, and the ratio it may have (None: shown only)."""

QUICK_MEMORY_BYTES = 40_000_000
FULL_REPORT_SECONDS = 4.0


def run(argv: list[str]) -> tuple[float, int]:
    """Wall seconds and the peak resident bytes of the largest process of one run."""
    start = time.perf_counter()
    pid = os.posix_spawnp(
        argv[0],
        argv,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)],
    )
    _, _, usage = os.wait4(pid, 0)
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def main() -> int:
    """Print every figure; 1 when a budget is not held."""
    present = {name: argv for name, argv in COMMANDS.items() if shutil.which(argv[0])}
    for name in COMMANDS.keys() - present.keys():
        print(f"{name}: not installed, left out")
    seconds, memory = _rounds(present)
    held = [_held(name, peer, limit, seconds) for name, peer, limit in BUDGETS if peer in present]
    peak = memory["nodecheck --quick"] / 1e6
    held.append(_shown("nodecheck --quick peak memory, MB", peak, QUICK_MEMORY_BYTES / 1e6))
    full = statistics.median(run([NODECHECK, "--json", "--kernels", "always"])[0] for _ in range(5))
    held.append(_shown("nodecheck full report, s", full, FULL_REPORT_SECONDS))
    return 0 if all(held) else 1


def _rounds(commands: dict[str, list[str]]) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Seconds of every round and peak bytes by command, the commands taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    memory: dict[str, int] = dict.fromkeys(commands, 0)
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            took, peak = run(argv)
            seconds[name].append(took)
            memory[name] = max(memory[name], peak)
    for name, times in seconds.items():
        low, middle, high = (1000 * t for t in (min(times), statistics.median(times), max(times)))
        print(
            f"{name:28} median {middle:6.0f} ms ({low:.0f}-{high:.0f})  {memory[name] / 1e6:.1f} MB"
        )
    return seconds, memory


def _held(name: str, peer: str, budget: float | None, seconds: dict[str, list[float]]) -> bool:
    ratio = statistics.median(a / b for a, b in zip(seconds[name], seconds[peer], strict=True))
    return _shown(f"{name} / {peer}", ratio, budget)


def _shown(what: str, value: float, budget: float | None) -> bool:
    held = budget is None or value <= budget
    judged = "" if budget is None else f"  budget {budget:g}: {'held' if held else 'NOT HELD'}"
    print(f"{what:45} {value:6.2f}{judged}")
    return held


if __name__ == "__main__":
    sys.exit(main())
