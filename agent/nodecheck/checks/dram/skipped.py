"""What a measurement that was not made leaves behind."""

from __future__ import annotations

from nodecheck.checks.dram.facts import DramFacts, DramProbe
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason


def skipped(reader: Reader, why: str, reason: Reason = Reason.ABSENT) -> DramProbe:
    """No measurement, and why."""
    reader.gap("measurements", reason, f"DRAM bandwidth not measured: {why}")
    return DramProbe(facts=DramFacts(skipped=why))
