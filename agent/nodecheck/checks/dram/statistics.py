"""From the passes of a read kernel to a figure that says how far it can be trusted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Protocol

from nodecheck.model import Load, Measurement

CLEAN_CPU_SHARE = 0.985
"""Least CPU time / wall time of each thread in a pass that nothing disturbed (measured: 1.00 alone,
0.5 beside a CPU hog)."""

CLEAN_PASSES_MIN = 5
"""Fewer tell nothing of the spread."""

OTHER_CPUS_BUSY_MAX = 0.10
"""A memory stream on another CPU costs a quarter and shows in no thread's CPU time."""

STEAL_MAX = 0.02
SPREAD_MAX = 0.20
"""(p90 - p10) / median. Neighbours on the host show in nothing else; alone it was 0.09 to 0.15."""

DRIFT_MAX = 0.10
BIMODAL_RATIO = 1.25

CONVENTION = "bytes read, each counted once; GB is 10^9 bytes"


class Pass(Protocol):
    """A pass of all threads over their buffers: seconds, bytes, least CPU share of a thread."""

    @property
    def seconds(self) -> float: ...
    @property
    def bytes(self) -> int: ...
    @property
    def cpu_share(self) -> float: ...


class Run(Protocol):
    """What a read kernel did on a number of threads."""

    @property
    def kernel(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def passes(self) -> Sequence[Pass]: ...


def measurement(run: Run, load: Load, *, throttled: bool, undersized: bool) -> Measurement | None:
    """The median of the clean passes, of all where few are clean; None without a usable one."""
    usable = [p for p in run.passes if p.seconds > 0 and p.bytes > 0]
    clean = [p for p in usable if p.cpu_share >= CLEAN_CPU_SHARE]
    few = len(clean) < CLEAN_PASSES_MIN
    rates = [p.bytes / p.seconds for p in (usable if few else clean)]
    if not rates:
        return None
    disturbed = few or throttled or _is_disturbed(load)
    return Measurement(
        name="dram_read",
        kernel=run.kernel,
        threads=run.threads,
        median_bytes_per_second=statistics.median(rates),
        p10_bytes_per_second=quantile(rates, 0.1),
        p90_bytes_per_second=quantile(rates, 0.9),
        max_bytes_per_second=max(rates),
        passes=len(rates),
        convention=CONVENTION,
        flags=tuple(_flags(rates, disturbed=disturbed, undersized=undersized)),
        load=load,
    )


def _is_disturbed(load: Load) -> bool:
    others, steal = load.other_cpus_busy_share or 0, load.steal_share or 0
    return others > OTHER_CPUS_BUSY_MAX or steal > STEAL_MAX


def _flags(rates: Sequence[float], *, disturbed: bool, undersized: bool) -> list[str]:
    middle = statistics.median(rates)
    bimodal = not disturbed and max(rates) > BIMODAL_RATIO * middle
    spread = quantile(rates, 0.9) - quantile(rates, 0.1)
    flags = ["bimodal"] if bimodal else []
    if disturbed or (not bimodal and spread > SPREAD_MAX * middle):
        flags.append("contended")
    half = len(rates) // 2
    if half:
        first, second = statistics.median(rates[:half]), statistics.median(rates[half:])
        if abs(first - second) > DRIFT_MAX * middle:
            flags.append("unsteady")
    return [*flags, "undersized"] if undersized else flags


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, linear between neighbours."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
