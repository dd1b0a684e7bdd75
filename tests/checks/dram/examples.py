"""Inputs that raise each finding of this subject, and inputs that do not."""

from __future__ import annotations

import json

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


RAISES: dict[str, Tree] = {
    "mem.bandwidth_low": guest({1: 7.0, 8: 12.0}),
    "mem.bandwidth_bound": guest({1: 20.0, 4: 36.0, 8: 36.5}),
}
SILENT: dict[str, Tree] = {
    "mem.bandwidth_low": guest({1: 7.0, 8: 17.0}),
    "mem.bandwidth_bound": guest({1: 20.0, 4: 36.0, 8: 52.0}),
}
