"""Reports of a large server, two of them some time apart: all that moves by itself has moved."""

from __future__ import annotations

import itertools
import random

from msgspec.structs import replace

from nodecheck.checks.seen import Facts
from nodecheck.model import Load, Measurement
from nodecheck.report import HostInfo, Report
from tests.nodes import AVX2, l40, link, root, three_l40

CARDS, CPUS, NODES = 8, 192, 8


def large_node(seed: int) -> Report:
    """8 GPUs, 192 CPUs, 8 NUMA nodes measured from each other: 100 KB of JSON."""
    chance = random.Random(seed)
    return Report(
        nodecheck_version="1",
        time=f"2026-11-30T10:{seed:02}:00+00:00",
        host=HostInfo(source="live", holds=("cpu", "memory", "disk")),
        facts=_facts(chance),
        measurements=tuple(_measurements(chance)),
    )


def _facts(chance: random.Random) -> Facts:
    facts = three_l40(AVX2).facts
    cards = [
        replace(
            l40(number),
            temperature_celsius=chance.randint(40, 80),
            power_watts=chance.uniform(80, 300),
            memory_used_bytes=chance.randint(0, 46_000) << 20,
            sm_clock_mhz=chance.randint(210, 2490),
        )
        for number in range(CARDS)
    ]
    return replace(
        facts,
        cpu=replace(
            facts.cpu,
            logical_cpus=CPUS,
            load_1min=chance.uniform(0, CPUS),
            current_mhz=chance.uniform(800, 3700),
        ),
        gpus=tuple(cards),
        pcie=replace(facts.pcie, paths=tuple(link(card.pci_address or "") for card in cards)),
        disk=replace(
            facts.disk,
            filesystems=tuple(
                replace(root(chance.randint(1, 1 << 40), 1 << 41), mount=f"/srv/{number}")
                for number in range(40)
            ),
        ),
    )


def _measurements(chance: random.Random) -> list[Measurement]:
    pairs = itertools.product(range(NODES), range(NODES))
    return [
        Measurement(
            name="dram_read",
            kernel="avx2",
            threads=CPUS // NODES,
            median_bytes_per_second=chance.uniform(20e9, 40e9),
            p10_bytes_per_second=chance.uniform(10e9, 20e9),
            p90_bytes_per_second=chance.uniform(40e9, 50e9),
            max_bytes_per_second=chance.uniform(50e9, 60e9),
            passes=20,
            convention="bytes read, each pass over a buffer of its own on the memory node",
            load=Load(other_cpus_busy_share=chance.uniform(0, 0.1), run_delay_share=0.0),
            cpu_node=cpu,
            memory_node=memory,
        )
        for cpu, memory in pairs
    ]
