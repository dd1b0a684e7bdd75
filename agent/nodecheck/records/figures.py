"""The numbers of a report that can be followed over time and set beside another's.

What changes by itself (free memory, load, temperatures) is told as momentary: it can be drawn, and
is no difference between two reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from nodecheck.checks.pcie.facts import Errors
from nodecheck.model import Latency, Measurement, Struct
from nodecheck.report import Report

REPEATS_SHARE = 0.10
"""How well a measurement repeats: two undisturbed runs on one node lie this close together.
Source: `make repeat` for dram_read on one guest (docs/measuring.md); latency, decode and what is
estimated from them by analogy."""

LOGGED = "xid_"
"""Counters of lines in the kernel's log start so: their absence from a log that was read is 0, and
they fall when the log forgets its oldest lines."""


class Kind(str, Enum):
    """How a number behaves, and so what can be concluded from it."""

    RATE = "rate"
    """Measured: the node's own, but for its spread; it may drift."""
    ROOM = "room"
    """What is left of something that fills up."""
    COUNTER = "counter"
    """Only grows, until the driver or the node starts anew."""
    MOMENTARY = "momentary"
    """As it was just then."""


class Metric(Struct, frozen=True):
    """What a figure is of: `name` is `what` or `what@where`, unique within a report.

    `unit` is B/s, B, s, W, C (degrees Celsius), MHz or empty (a count, a share of 0 to 1).
    `more_is_better` is None where neither end is good.
    """

    name: str
    unit: str
    kind: Kind
    more_is_better: bool | None = None


class Figure(Struct, frozen=True, kw_only=True):
    """One number of a report: with its spread, p10 to p90, where it was measured in passes.

    `flags` are those of the measurement: with any of them it proves nothing.
    """

    metric: Metric
    value: float
    low: float | None = None
    high: float | None = None
    flags: tuple[str, ...] = ()


def figures(report: Report) -> tuple[Figure, ...]:
    """All numbers of a report that are known; of two with one name the first."""
    found: dict[str, Figure] = {}
    for figure in (*_measured(report), *_room(report), *_counted(report), *_momentary(report)):
        found.setdefault(figure.metric.name, figure)
    return tuple(found.values())


def _measured(report: Report) -> Iterator[Figure]:
    for each in report.measurements:
        yield Figure(
            metric=Metric(_measurement_name(each), "B/s", Kind.RATE, more_is_better=True),
            value=each.median_bytes_per_second,
            low=each.p10_bytes_per_second,
            high=each.p90_bytes_per_second,
            flags=each.flags,
        )
    for latency in report.latencies:
        yield Figure(
            metric=Metric(_latency_name(latency), "s", Kind.RATE, more_is_better=False),
            value=latency.median_seconds,
            low=latency.p10_seconds,
            high=latency.p90_seconds,
            flags=latency.flags,
        )


def _measurement_name(each: Measurement) -> str:
    """dram_read@8 is read on 8 threads, dram_read@8,node0-node1 by node 0 from node 1's memory."""
    threads = f"{each.name}@{each.threads}"
    if each.cpu_node is None and each.memory_node is None:
        return threads
    return f"{threads},node{each.cpu_node}-node{each.memory_node}"


def _latency_name(each: Latency) -> str:
    return f"{each.name}@{each.other_threads}"


def _room(report: Report) -> Iterator[Figure]:
    for each in report.facts.disk.filesystems:
        if not each.persistent or each.network:
            continue
        if each.available_bytes is not None:
            yield _one("disk_available", each.mount, each.available_bytes, "B", Kind.ROOM, up=True)
        if each.inodes_free is not None and each.inodes_total:
            yield _one("inodes_free", each.mount, each.inodes_free, "", Kind.ROOM, up=True)


def _counted(report: Report) -> Iterator[Figure]:
    facts = report.facts
    for gpu in facts.gpus:
        where = gpu.pci_address or str(gpu.index)
        yield from _counters(where, {
            "ecc_corrected": gpu.ecc_volatile_correctable,
            "ecc_uncorrected": gpu.ecc_volatile_uncorrectable,
            "rows_remapped": gpu.remapped_rows_uncorrectable,
            "pcie_replays": gpu.pcie_replays,
        })  # fmt: skip
    for address, errors in _link_errors(report).items():
        yield from _counters(address, {
            "aer_correctable": errors.correctable,
            "aer_nonfatal": errors.nonfatal_lost,
            "aer_fatal": errors.fatal,
        })  # fmt: skip
    for controller in facts.memory.controllers:
        yield from _counters(controller.name, {
            "ram_corrected": controller.correctable,
            "ram_uncorrected": controller.uncorrectable,
        })  # fmt: skip
    for filesystem in facts.disk.filesystems:
        if filesystem.persistent:
            yield from _counters(filesystem.mount, {"disk_errors": filesystem.errors_count})
    if facts.kernel_log.source is not None:
        codes = sorted({(x.code, x.pci_address or "unknown") for x in facts.kernel_log.xids})
        for code, address in codes:
            total = sum(
                x.count
                for x in facts.kernel_log.xids
                if (x.code, x.pci_address or "unknown") == (code, address)
            )
            yield from _counters(address, {f"{LOGGED}{code}": total})


def _link_errors(report: Report) -> dict[str, Errors]:
    """Of each device on a way; a refused request is software's and no sign of a bad link."""
    hops = (hop for path in report.facts.pcie.paths for hop in path.hops)
    return {hop.address: hop.aer for hop in hops if hop.aer is not None}


def _counters(where: str, counts: dict[str, int | None]) -> Iterator[Figure]:
    for name, value in counts.items():
        if value is not None:
            yield _one(name, where, value, "", Kind.COUNTER, up=False)


def _momentary(report: Report) -> Iterator[Figure]:
    cpu, memory = report.facts.cpu, report.facts.memory
    for name, value, unit, up in (
        ("memory_available", memory.available_bytes, "B", True),
        ("steal_share", cpu.steal_share, "", False),
        ("busy_share", cpu.busy_share, "", None),
        ("load_1min", cpu.load_1min, "", None),
        ("cpu_clock", cpu.current_mhz, "MHz", True),
    ):
        if value is not None:
            yield _one(name, None, value, unit, Kind.MOMENTARY, up=up)
    for gpu in report.facts.gpus:
        where = gpu.pci_address or str(gpu.index)
        for name, value, unit, up in (
            ("gpu_temperature", gpu.temperature_celsius, "C", False),
            ("gpu_power", gpu.power_watts, "W", None),
            ("gpu_memory_used", gpu.memory_used_bytes, "B", None),
        ):
            if value is not None:
                yield _one(name, where, value, unit, Kind.MOMENTARY, up=up)


def _one(
    name: str, where: str | None, value: float, unit: str, kind: Kind, *, up: bool | None
) -> Figure:
    named = name if where is None else f"{name}@{where}"
    return Figure(metric=Metric(named, unit, kind, up), value=float(value))
