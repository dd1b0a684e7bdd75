"""How well the memory measurement repeats: `make repeat`, on an otherwise idle machine.

Consecutive full reports, pair by pair: within 10 % of each other, or a flag says why not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from nodecheck.spread import quantile

RUNS = 21
CLOSE = 0.10
TOLD = {"contended", "bimodal"}
NODECHECK = str(Path(sys.executable).with_name("nodecheck"))

Figures = dict[int, tuple[float, frozenset[str]]]


def measure() -> Figures:
    """GB/s and flags by number of threads, of one report."""
    command = [NODECHECK, "--json", "--kernels", "always"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {
        m["threads"]: (m["median_bytes_per_second"] / 1e9, frozenset(m["flags"]))
        for m in json.loads(done.stdout)["measurements"]
        if m["name"] == "dram_read"
    }


def main() -> int:
    """Print every figure and the count of pairs; 1 where under 90 % agree or tell why not."""
    runs = [_shown(measure()) for _ in range(RUNS)]
    pairs = list(pairwise(runs))
    good = True
    for threads in runs[0]:
        rates = [run[threads][0] for run in runs if threads in run]
        spread = quantile(rates, 0.9) / quantile(rates, 0.1)
        print(f"{threads} threads: p90/p10 of {len(rates)} runs {spread:.2f}")
        close = sum(_is_close(a, b, threads) for a, b in pairs)
        told = sum(not _is_close(a, b, threads) and _is_told(a, b, threads) for a, b in pairs)
        good &= close + told >= 0.9 * len(pairs)
        print(f"{threads} threads: {close} of {len(pairs)} pairs within 10 %, {told} more flagged")
    return 0 if good else 1


def _shown(figures: Figures) -> Figures:
    print("  ".join(f"{n}: {rate:.1f} {'+'.join(sorted(f))}" for n, (rate, f) in figures.items()))
    return figures


def _is_close(one: Figures, other: Figures, threads: int) -> bool:
    if threads not in one or threads not in other:
        return False
    low, high = sorted((one[threads][0], other[threads][0]))
    return high <= (1 + CLOSE) * low


def _is_told(one: Figures, other: Figures, threads: int) -> bool:
    missing = threads not in one or threads not in other
    return missing or bool(TOLD & (one[threads][1] | other[threads][1]))


if __name__ == "__main__":
    sys.exit(main())
