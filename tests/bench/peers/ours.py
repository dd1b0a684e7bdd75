"""Our own loops, run as the peers are: fresh memory for each run, then passes back to back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from statistics import median

from tests.bench.peers.tools import ARRAY_BYTES, Loop

from nodecheck.machine.kernels import HUGE_PAGE_BYTES, Arena, Group, Kernel, stream_kernels

NAME = "nodecheck"
PASSES = 6
"""Over whole arrays, as the peers'."""

_WINDOWS = 48  # of 64 MiB, as in a report
_RACE_ROUNDS, _RACE_PASSES = 4, 4
_CLEAN_SHARE = 0.985
_SOURCE = {"read": 1, "write": 0, "copy": 1, "triad": 2}
"""Arrays that an operation reads."""

Cpus = Sequence[int]


def usable(operation: str) -> list[Kernel]:
    """The loops of one operation that this CPU can run."""
    return [k for k in stream_kernels() if k.operation == operation and k.usable]


def loop_of(kernel: Kernel) -> Loop:
    """As tables name it."""
    return Loop(NAME, kernel.operation, kernel.name)


def fastest(operation: str, cpus: Cpus) -> Kernel:
    """By the median clean pass, over rounds in which the loops take turns."""
    kernels = usable(operation)
    rates: dict[Kernel, list[float]] = {kernel: [] for kernel in kernels}
    with closing(_arena(operation, cpus)) as arena:
        for number in range(_RACE_ROUNDS):
            for kernel in kernels:
                first = number * _RACE_PASSES
                rates[kernel] += _clean(arena.stream(kernel, _RACE_PASSES, first_window=first))
    return max(kernels, key=lambda kernel: median(rates[kernel]))


def average(kernel: Kernel, cpus: Cpus) -> float:
    """Bytes read and written a second over all passes of one run, as the peers average."""
    with closing(_arena(kernel.operation, cpus)) as arena:
        group = arena.stream(kernel, PASSES, window_bytes=ARRAY_BYTES)
    return sum(each.bytes for each in group.passes) / sum(each.seconds for each in group.passes)


def clean_median(kernel: Kernel, cpus: Cpus) -> float:
    """The statistic that rules use: the median of the passes that had their CPU for themselves."""
    with closing(_arena(kernel.operation, cpus)) as arena:
        group = arena.stream(kernel, _WINDOWS)
    return median(_clean(group))


def _clean(group: Group) -> list[float]:
    clean = [each for each in group.passes if each.cpu_share > _CLEAN_SHARE] or group.passes
    return [each.bytes / each.seconds for each in clean]


def _arena(operation: str, cpus: Cpus) -> Arena:
    source = max(HUGE_PAGE_BYTES, _SOURCE[operation] * ARRAY_BYTES)
    arena = Arena(cpus, source, 0 if operation == "read" else ARRAY_BYTES)
    arena.touch()
    return arena
