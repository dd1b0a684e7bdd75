"""numpy's fastest loops over memory, by threads that start together, one on each usable CPU.

Run by the peers' own environment: numpy_loops.py ARRAY_BYTES PASSES THREADS. Prints
{operation: {loop: bytes read and written a second}}, averages over the passes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # dot's own threads would come on top

import numpy as np  # after that setting

Arrays = tuple[Any, Any]
LOOPS: dict[str, tuple[str, int, Callable[[Any, Any], object]]] = {
    "sum": ("read", 1, lambda one, _: one.sum()),
    "max": ("read", 1, lambda one, _: one.max()),
    "dot": ("read", 2, np.dot),
    "fill": ("write", 1, lambda one, _: one.fill(1.5)),
    "copyto": ("copy", 2, np.copyto),
}


def main() -> None:
    """Measure each loop in turn."""
    array_bytes, passes, threads = map(int, sys.argv[1:])
    arrays = [_filled(array_bytes) for _ in range(threads)]
    rates: dict[str, dict[str, float]] = {}
    for name, (operation, touched, loop) in LOOPS.items():
        seconds = sum(_together(loop, arrays) for _ in range(passes))
        moved = array_bytes * touched * threads * passes
        rates.setdefault(operation, {})[name] = moved / seconds
    print(json.dumps(rates))


def _filled(array_bytes: int) -> Arrays:
    return np.full(array_bytes // 8, 1.25), np.full(array_bytes // 8, 1.75)


def _together(loop: Callable[[Any, Any], object], arrays: list[Arrays]) -> float:
    """Seconds from the first start to the last end."""
    barrier = threading.Barrier(len(arrays))
    spans: list[tuple[float, float]] = []

    def work(cpu: int, pair: Arrays) -> None:
        os.sched_setaffinity(0, {cpu})
        barrier.wait()
        start = time.perf_counter()
        loop(*pair)
        spans.append((start, time.perf_counter()))

    cpus = sorted(os.sched_getaffinity(0))
    workers = [threading.Thread(target=work, args=pair) for pair in zip(cpus, arrays, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)


if __name__ == "__main__":
    main()
