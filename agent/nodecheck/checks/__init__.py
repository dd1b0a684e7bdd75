"""The checks: a folder a subject, each with facts, a probe and rules.

The tuple holds names, so that judging a saved report never imports a probe.
"""

from __future__ import annotations

CHECKS: tuple[str, ...] = (
    "cpu",
    "virt",
    "limits",
    "memory",
    "numa",
    "disk",
    "pcie",
    "gpu",
    "cuda",
    "kernel_log",
    "engine",
    "python",
    "dram",
)
