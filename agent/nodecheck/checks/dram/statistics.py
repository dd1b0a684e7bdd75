"""From the passes of a kernel to a figure that says how far it can be trusted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Protocol

from nodecheck.model import Load, Struct
from nodecheck.spread import quantile

CLEAN_CPU_SHARE = 0.985
"""Least CPU time / wall time of each thread in a pass that nothing disturbed (measured: 1.00 alone,
0.5 beside a CPU hog)."""

CLEAN_PASSES_MIN = 5
"""Fewer tell nothing of the spread."""

OTHER_CPUS_BUSY_MAX = 0.10
"""A memory stream on another CPU costs a quarter and shows in no thread's CPU time."""

STEAL_MAX = 0.02
RUN_DELAY_MAX = 0.05
"""Of the threads' time. Alone it was 0.00; the passes that waited are left out one by one, this
tells of a node on which many did."""

PRESSURE_MAX = 0.10
SPREAD_MAX = 0.20
"""(p90 - p10) / median. Neighbours on the host show in nothing else; alone it was 0.09 to 0.15."""

DRIFT_MAX = 0.10
BIMODAL_RATIO = 1.25
READ_CONVENTION = "bytes read, each counted once; GB is 10^9 bytes"

MOVED_RATIO = 2.0
"""Between round trips before and after: 50-60 ns within a core complex, 320-390 ns between two."""


class Pass(Protocol):
    """A pass of all threads: its common window, its bytes, the least CPU share of a thread."""

    @property
    def seconds(self) -> float: ...
    @property
    def bytes(self) -> int: ...
    @property
    def cpu_share(self) -> float: ...


class Figure(Struct, frozen=True):
    """What a kernel's passes come to: values in the unit of the values given, and flags."""

    median: float
    p10: float
    p90: float
    most: float
    count: int
    flags: tuple[str, ...]


def clean(passes: Sequence[Pass]) -> tuple[list[Pass], bool]:
    """The passes that nothing disturbed, or all where those are few; and whether they were few."""
    usable = [p for p in passes if p.seconds > 0]
    undisturbed = [p for p in usable if p.cpu_share >= CLEAN_CPU_SHARE]
    few = len(undisturbed) < CLEAN_PASSES_MIN
    return (usable if few else undisturbed), few


def figure(
    values: Sequence[float], *, disturbed: bool, moved: bool = False, undersized: bool = False
) -> Figure:
    """The median of values, at least one, in the order in which they were taken."""
    return Figure(
        median=statistics.median(values),
        p10=quantile(values, 0.1),
        p90=quantile(values, 0.9),
        most=max(values),
        count=len(values),
        flags=tuple(_flags(values, disturbed=disturbed, moved=moved, undersized=undersized)),
    )


def is_disturbed(load: Load) -> bool:
    """Whether other work took part in a measurement."""
    limits = (
        (load.other_cpus_busy_share, OTHER_CPUS_BUSY_MAX),
        (load.steal_share, STEAL_MAX),
        (load.run_delay_share, RUN_DELAY_MAX),
        (load.pressure_share, PRESSURE_MAX),
    )
    return any((share or 0) > limit for share, limit in limits)


def has_moved(round_trip_seconds: tuple[float, float] | None) -> bool:
    """Whether the CPUs lie nearer or further than before: the host has moved them."""
    if round_trip_seconds is None:
        return False
    near, far = sorted(round_trip_seconds)
    return far > MOVED_RATIO * near


def _flags(values: Sequence[float], *, disturbed: bool, moved: bool, undersized: bool) -> list[str]:
    middle = statistics.median(values)
    bimodal = moved or (not disturbed and max(values) > BIMODAL_RATIO * middle)
    spread = quantile(values, 0.9) - quantile(values, 0.1)
    flags = ["bimodal"] if bimodal else []
    if disturbed or (not bimodal and spread > SPREAD_MAX * middle):
        flags.append("contended")
    half = len(values) // 2
    if half:
        first, second = statistics.median(values[:half]), statistics.median(values[half:])
        if abs(first - second) > DRIFT_MAX * middle:
            flags.append("unsteady")
    return [*flags, "undersized"] if undersized else flags
