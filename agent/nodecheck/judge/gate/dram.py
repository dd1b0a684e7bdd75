"""Whether memory is known to be read as fast as was asked for, or known not to be.

Other work only slows a measurement down, a buffer that the caches hold only speeds it up: what is
disturbed proves a rate that it reaches and none that it misses.
"""

from __future__ import annotations

import math

from nodecheck.judge.gate.answers import Answer, sign, why_unknown
from nodecheck.model import Measurement, Status
from nodecheck.report import Report
from nodecheck.units import gb_per_second

NAME = "dram_read"

UNSTABLE = ("bimodal", "unsteady")
"""Flags of a rate that moved while it was measured: it is anything between p10 and p90."""


def dram_read(report: Report, least: float) -> Answer:
    """The rate at which memory is read, against bytes a second."""
    reads = [m for m in report.measurements if m.name == NAME and m.memory_node is None]
    if not reads:
        return _answer(Status.UNKNOWN, f"not measured: {_why_not(report)}", None, least)
    low = max(_bounds(m)[0] for m in reads)
    if low >= least:
        return _answer(Status.OK, _told(low, least), low, least)
    best = max(reads, key=lambda m: m.median_bytes_per_second)
    rate = best.median_bytes_per_second
    if _highest(reads) < least:
        return _answer(Status.CRITICAL, _told(rate, least), rate, least)
    doubt = f"{gb_per_second(rate)}, whether it reaches {gb_per_second(least)} is not known"
    why = ", ".join(best.flags) or "fewer threads alone are sure"
    return _answer(Status.UNKNOWN, f"{doubt}: {why}", None, least)


def _answer(status: Status, said: str, value: float | None, least: float) -> Answer:
    text = f"DRAM read {said}"
    return Answer(name=NAME, status=status, text=text, value=value, critical_below=least)


def _told(rate: float, least: float) -> str:
    relation = sign(rate, least, gb_per_second)
    return f"{gb_per_second(rate)} {relation} {gb_per_second(least)}"


def _why_not(report: Report) -> str:
    return report.facts.dram.skipped or why_unknown(report, "dram", "measurements")


def _highest(reads: list[Measurement]) -> float:
    """What memory delivers at most; of fewer threads than a sound figure has nothing is asked."""
    widest = max((m.threads for m in reads if not m.flags), default=0)
    return max(_bounds(m)[1] for m in reads if m.threads >= widest)


def _bounds(read: Measurement) -> tuple[float, float]:
    """Between what the node's own rate on these threads lies, bytes a second."""
    low = high = read.median_bytes_per_second
    if any(flag in UNSTABLE for flag in read.flags):
        low, high = read.p10_bytes_per_second or 0.0, read.p90_bytes_per_second or math.inf
    if "contended" in read.flags:
        high = math.inf
    if "undersized" in read.flags:
        low = 0.0
    return low, high
