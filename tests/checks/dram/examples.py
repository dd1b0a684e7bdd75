"""Inputs that raise each finding of this subject, and inputs that do not."""

from __future__ import annotations

import json
from itertools import combinations

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.dram.facts import DramFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import RoundTrip
from nodecheck.policy import Policy
from tests.trees import Tree


def cpuinfo(brand: str, *, family: int, model: int, cpus: int, flags: str) -> str:
    return "\n".join(
        f"processor\t: {n}\nvendor_id\t: GenuineIntel\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: {brand}\nstepping\t: 1\nphysical id\t: 0\nsiblings\t: {cpus}\n"
        f"core id\t\t: {n}\ncpu cores\t: {cpus}\nflags\t\t: {flags}\n"
        for n in range(cpus)
    )


BASE = "fpu cx8 cmov fxsr mmx syscall lm sse sse2 pni cx16"


def guest(rates: dict[int, float]) -> Tree:
    """A guest of 8 vCPUs whose CPU is a hypervisor's model, with measured read rates in GB/s."""
    return {
        "proc/cpuinfo": cpuinfo(
            "Common KVM processor", family=15, model=6, cpus=8, flags=f"{BASE} hypervisor"
        ),
        "measurements.json": json.dumps({"dram_read_gbps": rates}),
    }


def placed(nanoseconds: dict[tuple[int, int], float]) -> Seen:
    """A guest of one socket, and the round trips between all pairs of its vCPUs."""
    trips = tuple(RoundTrip(cpus=cpus, seconds=ns * 1e-9) for cpus, ns in nanoseconds.items())
    facts = Facts(
        cpu=CpuFacts(sockets=1, logical_cpus=8, physical_cores=8),
        virt=VirtFacts(guest=True),
        dram=DramFacts(round_trips=trips, pairs=len(trips), llc_count=1),
    )
    return Seen(facts=facts, policy=Policy())


def four_cores(threads: float) -> dict[tuple[int, int], float]:
    """Eight CPUs, each pair 2n and 2n + 1 so many ns apart, all others 70 ns."""
    return {(a, b): threads if a // 2 == b // 2 else 70.0 for a, b in combinations(range(8), 2)}


def measured(decode: float) -> Tree:
    """A guest that reads 20 GB/s and uses up so many GB/s of weights."""
    rates = {"dram_read": 20.0, "decode_q4_k": decode}
    figures = [
        {"name": name, "kernel": "sse2", "threads": 8, "median_bytes_per_second": rate * 1e9}
        for name, rate in rates.items()
    ]
    return guest({}) | {"measurements.json": json.dumps({"measurements": figures})}


RAISES: dict[str, Tree | Seen] = {
    "cpu.placement_split": placed({(0, 1): 52.0, (0, 2): 330.0, (1, 2): 341.0}),
    "cpu.siblings_hidden": placed(four_cores(threads=20.0)),
    "cpu.decode_compute_bound": measured(decode=2.0),
    "mem.bandwidth_low": guest({1: 7.0, 8: 12.0}),
    "mem.bandwidth_bound": guest({1: 20.0, 4: 36.0, 8: 36.5}),
}
SILENT: dict[str, Tree | Seen] = {
    "cpu.placement_split": placed({(0, 1): 52.0, (0, 2): 58.0, (1, 2): 61.0}),
    "cpu.siblings_hidden": placed(four_cores(threads=60.0)),
    "cpu.decode_compute_bound": measured(decode=12.0),
    "mem.bandwidth_low": guest({1: 7.0, 8: 17.0}),
    "mem.bandwidth_bound": guest({1: 20.0, 4: 36.0, 8: 52.0}),
}
