"""Measures how fast the node reads its memory, or takes the figures that a capture holds."""

from __future__ import annotations

import time

from nodecheck.checks.dram.facts import DramProbe
from nodecheck.checks.dram.skipped import skipped
from nodecheck.checks.seen import Facts
from nodecheck.machine.reader import Reader
from nodecheck.model import NOT_ASKED, Reason
from nodecheck.policy import ReferenceWorkload
from nodecheck.thresholds import Thresholds
from nodecheck.units import percent

BUSY_SAMPLE_SECONDS = 0.2
SHIPPED = Thresholds()
SHIPPED_WEIGHT_TYPES = (ReferenceWorkload().weight_type,)


def probe(
    reader: Reader,
    facts: Facts,
    kernels: str,
    thresholds: Thresholds = SHIPPED,
    weight_types: tuple[str, ...] = SHIPPED_WEIGHT_TYPES,
) -> DramProbe:
    """The measurements. `facts` are those of all other checks; `kernels` is auto, always or never.

    `weight_types` are those of the model in question, most of what it reads first.

    `auto` leaves the kernels out on a node that serves: they would slow it down and be slowed down.
    """
    if not reader.host.live:
        from nodecheck.checks.dram import captured

        return captured.read(reader)
    if kernels == "never":
        return skipped(reader, NOT_ASKED)
    serving = _serving(reader, facts, thresholds) if kernels == "auto" else None
    if serving:
        return skipped(reader, serving)
    from nodecheck.checks.dram import measure
    from nodecheck.machine import lock

    with lock.measuring() as alone:
        if not alone:
            return skipped(reader, "another nodecheck is measuring on this node")
        try:
            return measure.run(reader, facts, weight_types)
        except Exception as error:  # noqa: BLE001 - without the extension its error cannot be imported
            return skipped(reader, str(error), Reason.UNSUPPORTED)


def _serving(reader: Reader, facts: Facts, thresholds: Thresholds) -> str | None:
    """What shows that the node is at work, None where nothing does."""
    for gpu in facts.gpus:
        share = gpu.utilisation_share
        if share is not None and share >= thresholds.busy_gpu_share:
            return f"{gpu.name or 'a GPU'} is busy ({percent(share)})"
    from nodecheck.checks.dram import activity

    before = activity.read(reader)
    time.sleep(BUSY_SAMPLE_SECONDS)
    after = activity.read(reader)
    busy = activity.busy_share(before, after, after.cpus)
    if busy is None or busy <= thresholds.busy_node_share:
        return None
    from nodecheck.machine.processes import busiest

    most = busiest(BUSY_SAMPLE_SECONDS)
    named = f", most by {most.name} ({most.pid}) with {most.cpus:.1f}" if most else ""
    return f"the CPUs are busy ({percent(busy)}{named})"
