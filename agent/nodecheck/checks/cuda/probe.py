"""Asks libcuda whether programs can start on the cards."""

from __future__ import annotations

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.machine.reader import Reader


def probe(reader: Reader) -> CudaFacts:
    """Nothing yet."""
    del reader
    return CudaFacts()
