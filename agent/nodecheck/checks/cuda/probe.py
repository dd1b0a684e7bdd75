"""Asks libcuda whether programs can start on the cards, or takes what a capture holds."""

from __future__ import annotations

from nodecheck.checks.cuda.facts import CudaProbe
from nodecheck.machine.reader import Reader
from nodecheck.model import NOT_ASKED, Reason

CARDS = "/proc/driver/nvidia/gpus"
"""The driver's own list: it starts them one after the other where they sleep."""


def probe(reader: Reader, kernels: str) -> CudaProbe:
    """Whether CUDA starts. It wakes idle cards, so it is not asked where `kernels` is never."""
    if not reader.host.live:
        from nodecheck.checks.cuda import captured

        return captured.read(reader)
    from nodecheck.machine import cuda

    if not cuda.worth_trying(reader.host):
        return CudaProbe()
    if kernels == "never":
        reader.gap("state", Reason.ABSENT, f"CUDA not started: {NOT_ASKED}")
        return CudaProbe()
    from nodecheck.checks.cuda import answer

    facts, _ = answer.ask(reader, len(reader.names(CARDS)))
    return CudaProbe(facts=facts)
