"""Fleets of reports: one healthy node many times, a little apart, and what tests change of some."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from nodecheck.model import Finding, Measurement, Status
from nodecheck.records.fleet.fleet import Fleet, OddNode, make_fleet
from nodecheck.records.fleet.nodes import node
from nodecheck.report import Report
from nodecheck.units import GIB
from tests.nodes import l40
from tests.records.sides import facts, judged, read

MIDDLE = {("dram_read", 64): 204.0, ("dram_read", 1): 12.9, ("decode_q4_k", 64): 310.0}
"""GB/s of a node in the middle."""


@functools.cache
def model() -> Report:
    """A guest with 64 CPUs, 504 GiB of RAM and eight L40."""
    seen = facts("fast")
    cards = tuple(replace(l40(0), index=n, pci_address=f"0000:{n + 1:02x}:00.0") for n in range(8))
    report = replace(
        seen,
        facts=replace(
            seen.facts,
            cpu=replace(seen.facts.cpu, logical_cpus=64),
            memory=replace(seen.facts.memory, total_bytes=round(503.6 * GIB)),
            gpu=replace(seen.facts.gpu, state="ok", driver_version="550.54.14"),
            gpus=cards,
        ),
        measurements=measured({}),
        gaps=(),
    )
    return judged(report)


def measured(
    factors: dict[tuple[str, int], float], chance: random.Random | None = None
) -> tuple[Measurement, ...]:
    """What is measured, by a factor, with 2 % noise, the passes within 1 %."""
    found = []
    for (name, threads), middle in MIDDLE.items():
        noise = chance.gauss(1, 0.02) if chance else 1.0
        rate = middle * factors.get((name, threads), 1.0) * noise
        each = read(rate, 0.99 * rate, 1.01 * rate, threads=threads)
        found.append(replace(each, name=name))
    return tuple(found)


def member(number: int, **factors: float) -> Report:
    """One node of the fleet; factors by name and threads: dram_read_64=0.5."""
    by_key = {(name.rpartition("_")[0], int(name.rpartition("_")[2])): factor
              for name, factor in factors.items()}  # fmt: skip
    report = model()
    return replace(
        report,
        time=f"2026-11-29T10:{number // 60 % 60:02}:{number % 60:02}+00:00",
        host=replace(report.host, name=f"gpu{number:03}"),
        measurements=measured(by_key, random.Random(number)),
        strategies=(),
    )


def with_facts(report: Report, **subjects: dict[str, Any]) -> Report:
    """Other members of the facts of subjects: cpu={"sockets": 1}."""
    changed = {
        name: replace(getattr(report.facts, name), **members) for name, members in subjects.items()
    }
    return replace(report, facts=replace(report.facts, **changed))


def with_cards(report: Report, number: int, **first: Any) -> Report:
    """As many of its cards, and other members of the first."""
    one, *rest = report.facts.gpus[:number]
    return replace(report, facts=replace(report.facts, gpus=(replace(one, **first), *rest)))


def with_finding(report: Report, finding: Finding) -> Report:
    verdict = replace(report.verdict, status=Status(finding.severity.value))
    return replace(report, findings=(*report.findings, finding), verdict=verdict)


def healthy(number: int) -> list[Report]:
    return [member(n) for n in range(number)]


def mixed(number: int = 20) -> list[Report]:
    """A slow node, one with a card fewer, one with an older driver, and one that was disturbed."""
    reports = healthy(number)
    reports[1] = member(1, dram_read_64=0.5, decode_q4_k_64=0.5)
    reports[2] = with_cards(reports[2], 7)
    reports[3] = with_facts(reports[3], gpu={"driver_version": "535.183.01"})
    one, *rest = reports[4].measurements
    reports[4] = replace(reports[4], measurements=(replace(one, flags=("contended",)), *rest))
    return reports


def fleet(reports: Iterable[Report]) -> Fleet:
    return make_fleet([
        node(report, f"reports/{report.host.name}-{place}.json")
        for place, report in enumerate(reports)
    ])  # fmt: skip


def changed(number: int, at: int, change: Callable[[Report], Report]) -> Fleet:
    """A fleet of which one node was changed."""
    reports = healthy(number)
    reports[at] = change(reports[at])
    return fleet(reports)


def odd(made: Fleet) -> dict[str, OddNode]:
    return {each.node: each for each in made.odd}


def told(made: Fleet) -> dict[str, list[tuple[str, object, object]]]:
    """Odd node -> name, value and the others' value of what is odd about it."""
    return {n.node: [(o.name, o.value, o.usual) for o in n.oddities] for n in made.odd}
