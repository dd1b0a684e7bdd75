"""How CPUs and memory lie on NUMA nodes."""

from __future__ import annotations

from nodecheck.model import Struct


class NumaNode(Struct, frozen=True, kw_only=True):
    """A node directory. `memory_bytes` is None where meminfo was not there (which is not 0)."""

    id: int
    cpus: tuple[int, ...] | None = None
    memory_bytes: int | None = None
    side_cache: bool = False
    distances: tuple[int, ...] = ()


class NumaFacts(Struct, frozen=True, kw_only=True):
    """Every `node<N>` directory, whatever it holds, and the kernel's own lists of nodes."""

    nodes: tuple[NumaNode, ...] = ()
    online: tuple[int, ...] | None = None
    has_memory: tuple[int, ...] | None = None
    has_cpu: tuple[int, ...] | None = None
    balancing: bool | None = None
