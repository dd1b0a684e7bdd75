"""Reports to set side by side: the three-L40 node before and after its CPU type was changed."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

from msgspec.structs import replace

from nodecheck.collect import collect
from nodecheck.diagnose import diagnose
from nodecheck.model import Measurement
from nodecheck.policy import Policy
from nodecheck.report import Report
from tests.hosts import HEALTHY_FLAGS, THREE_L40, cpuinfo
from tests.trees import Tree, plant

HOST_TYPE: Tree = {
    **{path: content for path, content in THREE_L40.items() if path != "witness.json"},
    "proc/cpuinfo": cpuinfo(
        8, f"{HEALTHY_FLAGS} hypervisor", "AMD EPYC 7313 16-Core Processor", "AuthenticAMD", 25, 1
    ),
}
"""THREE_L40 with the CPU type host: the same memory, cards and disk."""

FAST: Tree = {
    **HOST_TYPE,
    "measurements.json": json.dumps({"dram_read_gbps": {"1": 12.9, "8": 42.0}}),
}
"""On another host of the cluster beside that, with faster memory."""


@functools.cache
def facts(name: str) -> Report:
    """The node as it was seen, not judged."""
    trees = {"masked": THREE_L40, "host type": HOST_TYPE, "fast": FAST}
    with tempfile.TemporaryDirectory() as place:
        seen = collect(plant(trees[name], Path(place) / "node"))
    return replace(seen, time="2026-11-28T10:00:00+00:00" if name == "masked" else LATER)


LATER = "2026-11-29T10:00:00+00:00"


def judged(report: Report, policy: Policy | None = None) -> Report:
    return diagnose(report, policy or Policy())


def node(name: str) -> Report:
    """The node as it was judged: masked, host type or fast."""
    return judged(facts(name))


def read(median: float, low: float | None = None, high: float | None = None,
         *flags: str, threads: int = 8) -> Measurement:  # fmt: skip
    """A read measurement and its p10 and p90, GB/s."""
    return Measurement(
        name="dram_read",
        kernel="avx2",
        threads=threads,
        median_bytes_per_second=median * 1e9,
        p10_bytes_per_second=None if low is None else low * 1e9,
        p90_bytes_per_second=None if high is None else high * 1e9,
        passes=20,
        flags=flags,
    )


def measuring(*measurements: Measurement, name: str = "host type") -> Report:
    """The node with these measurements."""
    return judged(replace(facts(name), measurements=measurements))
