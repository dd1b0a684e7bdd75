"""The figures that the page follows: few, and the same from report to report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodecheck.records.figures import Figure, Kind, figures
from nodecheck.report import Report

MEASURED = ("dram_read", "decode_dram_q4_k")
"""Rates that are told, on most threads. Source: four bits are what most models are served in."""

IDLE_LATENCY = "dram_latency@0"

MOMENTARY = ("memory_available", "steal_share", "busy_share")

OF_CARDS = ("gpu_temperature", "gpu_power", "gpu_memory_used")
"""Of several cards the one with most is told."""

ROOMS_MOST = 4
"""The fullest disks: a container host has hundreds."""


def followed(report: Report) -> list[Figure]:
    """What was measured, the room on disks, what goes on now."""
    found = figures(report)
    return [*_measured(found), *_rooms(found), *_now(found)]


def _measured(found: Sequence[Figure]) -> Iterator[Figure]:
    """Of each rate the one on most threads, wherever its memory lies; then the latency."""
    most: dict[str, tuple[int, Figure]] = {}
    for each in found:
        name, _, threads = each.metric.name.partition("@")
        if name in MEASURED and threads.isdecimal():
            before = most.setdefault(name, (0, each))
            most[name] = max(before, (int(threads), each), key=lambda pair: pair[0])
    yield from (most[name][1] for name in MEASURED if name in most)
    yield from (each for each in found if each.metric.name == IDLE_LATENCY)


def _rooms(found: Sequence[Figure]) -> list[Figure]:
    disks = [f for f in found if f.metric.kind is Kind.ROOM and f.metric.unit]
    return sorted(disks, key=lambda each: each.value)[:ROOMS_MOST]


def _now(found: Sequence[Figure]) -> Iterator[Figure]:
    yield from (each for each in found if each.metric.name in MOMENTARY)
    for name in OF_CARDS:
        of_cards = [f for f in found if f.metric.name.partition("@")[0] == name]
        if of_cards:
            yield max(of_cards, key=lambda each: each.value)
