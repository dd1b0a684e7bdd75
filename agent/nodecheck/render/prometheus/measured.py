"""What was measured, and what each way to serve the model can reach by it."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.model import Latency, Measurement, Strategy, Transfer, Viability
from nodecheck.render.prometheus.text import Sample, Series
from nodecheck.report import Report

_PLACE = ("operation", "threads", "cpu_node", "memory_node")
BANDWIDTH = Series(
    "nodecheck_memory_bandwidth_bytes_per_second",
    "Median rate that was measured, on so many threads; by NUMA nodes where they were told apart.",
    _PLACE,
)
SPREAD = Series(
    "nodecheck_memory_bandwidth_p10_bytes_per_second",
    "Rate that nine in ten passes reached.",
    _PLACE,
)
UNDISTURBED = Series(
    "nodecheck_memory_bandwidth_undisturbed",
    "1 where nothing disturbed the measurement; of one that was disturbed nothing follows.",
    _PLACE,
)
LATENCY = Series(
    "nodecheck_memory_latency_seconds",
    "How long a load from memory takes while so many other threads read.",
    ("other_threads",),
)
TRANSFER = Series(
    "nodecheck_gpu_transfer_bytes_per_second",
    "Rate at which a card copied, while so many cards did so at once.",
    ("gpu", "peer", "operation", "cards"),
)
_WAY = ("strategy", "bound")
TOKENS = Series(
    "nodecheck_strategy_tokens_per_second",
    "What a way to serve the model can reach by the figures of this node: low and high.",
    _WAY,
)
SECONDS = Series("nodecheck_strategy_seconds", "How long it takes, where it is told in time.", _WAY)
VIABILITY = Series(
    "nodecheck_strategy_viability",
    "1 for what a way to serve the model is on this node.",
    ("strategy", "viability"),
)
WORKLOAD = Series(
    "nodecheck_workload_info", "The model that the strategies are judged for, always 1.", ("model",)
)
SERIES = (
    BANDWIDTH, SPREAD, UNDISTURBED, LATENCY, TRANSFER, TOKENS, SECONDS, VIABILITY, WORKLOAD,
)  # fmt: skip


def samples(report: Report) -> Iterator[Sample]:
    """Nothing where nothing was measured, but for the strategies."""
    for each in report.measurements:
        yield from _measurement(each)
    yield from map(_latency, report.latencies)
    yield from map(_transfer, report.transfers)
    for strategy in report.strategies:
        yield from _strategy(strategy)
    if report.workload is not None:
        yield Sample(WORKLOAD, 1, (report.workload.name,))


def _measurement(each: Measurement) -> Iterator[Sample]:
    """dram_read is read, decode_dram_q4_k stays as it is: it comes from other kernels."""
    nodes = ("" if node is None else str(node) for node in (each.cpu_node, each.memory_node))
    place = (each.name.removeprefix("dram_"), str(each.threads), *nodes)
    yield Sample(BANDWIDTH, each.median_bytes_per_second, place)
    if each.p10_bytes_per_second is not None:
        yield Sample(SPREAD, each.p10_bytes_per_second, place)
    yield Sample(UNDISTURBED, not each.flags, place)


def _latency(each: Latency) -> Sample:
    return Sample(LATENCY, each.median_seconds, (str(each.other_threads),))


def _transfer(each: Transfer) -> Sample:
    place = (each.card, each.peer or "", each.name, str(each.cards))
    return Sample(TRANSFER, each.median_bytes_per_second, place)


def _strategy(each: Strategy) -> Iterator[Sample]:
    for viability in Viability:
        now = each.viability is viability
        yield Sample(VIABILITY, now, (each.strategy, viability.value))
    series = TOKENS if each.unit == "tok/s" else SECONDS
    for bound, value in (("low", each.low), ("high", each.high)):
        if value is not None:
            yield Sample(series, value, (each.strategy, bound))
