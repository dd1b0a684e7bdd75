"""Histories of a node, with figures as a month gives them."""

from __future__ import annotations

import random

from nodecheck.records.differences import Difference
from nodecheck.records.figures import Kind, Metric
from nodecheck.records.history.changes import Change
from nodecheck.records.history.drift import Drift
from nodecheck.records.history.forecast import Forecast
from nodecheck.records.history.growth import Growth
from nodecheck.records.history.history import History
from nodecheck.records.series import Listed, Series

HOUR, DAY = 3600, 86_400
LAST = 1_795_958_880
"""2026-11-29 13:28 UTC."""

FIRST = LAST - 30 * DAY

READ = Metric("dram_read@8", "B/s", Kind.RATE, more_is_better=True)
LATENCY = Metric("dram_latency@0", "s", Kind.RATE, more_is_better=False)
DISK = Metric("disk_available@/srv/models", "B", Kind.ROOM, more_is_better=True)
ECC = Metric("ecc_corrected@0000:41:00.0", "", Kind.COUNTER, more_is_better=False)
XID = Metric("xid_79@0000:41:00.0", "", Kind.COUNTER, more_is_better=False)

FLAGS = ("3dnowprefetch", "abm", "avx", "avx2", "bmi1", "bmi2", "erms", "f16c", "fma", "movbe")


def trait(name: str, where: str | None, before: str | None, after: str | None) -> Difference:
    return Difference(kind="trait", name=name, where=where, before=before, after=after)


def finding(id_: str, where: str, before: str | None, after: str | None) -> Difference:
    return Difference(kind="finding", name=id_, where=where, before=before, after=after)


def change(time: int, snapshot: int, difference: Difference, repeats: int = 1) -> Change:
    first = time - repeats * DAY if repeats > 1 else time
    return Change(time=time, snapshot=snapshot, difference=difference, repeats=repeats, first=first)


HEADLINE = ("The hypervisor hides AVX2 and FMA. Weights on the CPU decode at 0.2-0.5 tok/s (27B "
            "dense, 4-bit). Serving from the GPUs alone is not affected.")  # fmt: skip
LATEST = tuple(
    Listed(id=43_200 - n, time=LAST - 60 * n, status=status, headline=headline)
    for n, (status, headline) in enumerate([("critical", HEADLINE), ("ok", "Nothing was found.")])
)

COLD_START = LAST - 47 * HOUR
FULL = History(
    node="node7",
    time=LAST,
    count=43_200,
    first=FIRST,
    last=LAST,
    changes=(
        change(LAST - 2 * HOUR, 43_080,
               finding("pcie.link_degraded", "0000:41:00.0", None, "warning"), 7),
        change(LAST - 5 * HOUR, 42_900, trait("DIMM", "P0 CHANNEL C DIMM 1", "32 GiB, 3200 MT/s",
                                              None)),
        change(LAST - 5 * HOUR, 42_900, finding("mem.insufficient", "RAM", "warning", "critical")),
        change(COLD_START, 40_380, trait("CPU", None, "Common KVM processor",
                                         "AMD EPYC 7452 32-Core Processor")),
        change(COLD_START, 40_380, Difference(kind="trait", name="CPU flags", where=None,
                                              gained=FLAGS, lost=("pti",))),
        change(COLD_START, 40_380, trait("x86-64 level", None, "v1", "v3")),
        change(COLD_START, 40_380, finding("cpu.hypervisor_masked", "CPU", "critical", None)),
        change(LAST - 9 * DAY, 30_240, trait("GPU driver", None, "550.54.14", "570.86.10")),
        change(LAST - 20 * DAY, 14_400, trait("GPU", "0000:81:00.0", None, "NVIDIA L40")),
    ),
    drifts=(
        Drift(metric=READ, since=LAST - 12 * DAY, before=24.1e9, after=21.9e9, spread=0.012,
              points=700, worse=True, gradual=False),
        Drift(metric=LATENCY, since=LAST - 25 * DAY, before=104e-9, after=98.2e-9, spread=0.021,
              points=512, worse=False, gradual=True),
    ),
    forecasts=(
        Forecast(metric=DISK, left=57 * 2**30, newest=LAST, per_day=(2.2 * 2**30, 3.1 * 2**30),
                 days=(18.4, 25.9)),
    ),
    growths=(
        Growth(metric=ECC, fault=False, by=412, over_seconds=30 * DAY, newest=LAST - HOUR),
        Growth(metric=XID, fault=True, by=3, over_seconds=30 * DAY, newest=LAST - 19 * DAY),
    ),
    notes=("56 of 112 snapshots hold no measurements",
           "Error counters need two readings; fewer were made of RAM"),
    latest=LATEST,
)  # fmt: skip
"""A month in which much happened."""

QUIET = History(node="node7", time=LAST, count=720, first=FIRST, last=LAST, latest=LATEST)
ONE = History(node=None, time=LAST, count=1, first=LAST, last=LAST, latest=LATEST[:1])


def measured(
    *, hours: int = 30 * 24, off: range = range(8 * 24, 10 * 24), flagged: float = 0.02
) -> Series:
    """A memory that became slower, disturbed at times, of a node that was off for two days."""
    noise = random.Random(7)
    points = []
    for hour in (h for h in range(hours) if h not in off):
        value = 24.1e9 * (1 + noise.gauss(0, 0.006)) * (0.91 if hour > 0.6 * hours else 1)
        flag = noise.random() < flagged
        points.append((FIRST + hour * HOUR, value * (noise.uniform(0.5, 0.9) if flag else 1), flag))
    times, values, flags = zip(*points, strict=True)
    return Series(metric=READ, times=times, values=values, flagged=flags)


def series(metric: Metric, *points: tuple[int, float], flagged: bool = False) -> Series:
    """Points by the hour that they are of."""
    return Series(
        metric=metric,
        times=tuple(FIRST + hour * HOUR for hour, _ in points),
        values=tuple(value for _, value in points),
        flagged=(flagged,) * len(points),
    )


FREE = series(DISK, *((hour, (140 - hour / 9) * 2.0**30) for hour in range(0, 720, 3)))
"""A disk that fills up."""
