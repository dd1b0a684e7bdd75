"""What a kind of cores is called where the kernel gives it a number only."""

from __future__ import annotations

from nodecheck.checks.cpu.facts import CpuFacts

_ARM = {
    "0xd03": "Cortex-A53",
    "0xd04": "Cortex-A35",
    "0xd05": "Cortex-A55",
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd09": "Cortex-A73",
    "0xd0a": "Cortex-A75",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse N1",
    "0xd0d": "Cortex-A77",
    "0xd40": "Neoverse V1",
    "0xd41": "Cortex-A78",
    "0xd42": "Cortex-A78AE",
    "0xd44": "Cortex-X1",
    "0xd46": "Cortex-A510",
    "0xd47": "Cortex-A710",
    "0xd48": "Cortex-X2",
    "0xd49": "Neoverse N2",
    "0xd4d": "Cortex-A715",
    "0xd4e": "Cortex-X3",
    "0xd4f": "Neoverse V2",
    "0xd80": "Cortex-A520",
    "0xd81": "Cortex-A720",
    "0xd82": "Cortex-X4",
    "0xd83": "Neoverse V3AE",
    "0xd84": "Neoverse V3",
    "0xd85": "Cortex-X925",
    "0xd87": "Cortex-A725",
    "0xd8e": "Neoverse N3",
}
"""`CPU part` of implementer 0x41, as in util-linux's lscpu-arm.c."""

_INTEL = {"cpu_core": "performance cores", "cpu_atom": "efficiency cores"}
"""Names of the performance counters of a hybrid processor."""


def core_name(cpu: CpuFacts, trait: str) -> str:
    """A reader's name of the cores that `trait` tells apart: "Cortex-A510", "1280K of L2 cache"."""
    if cpu.implementer == "0x41" and trait in _ARM:
        return _ARM[trait]
    if trait.startswith("0x"):
        return f"part {trait}"
    kind, _, size = trait.partition(" ")
    return f"{size} of L2 cache" if kind == "L2" else _INTEL.get(trait, trait)
