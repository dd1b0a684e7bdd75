"""Which CPUs measure what, for how long, on how much memory."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.machine.reader import Reader
from nodecheck.model import Struct
from nodecheck.units import count

STREAMS = ("read", "write", "copy", "triad")
WEIGHT_TYPES = ("q4_0", "q4_k", "q6_k", "q8_0", "f16", "bf16", "fp8_e4m3", "int4_g128")

SHORT_WINDOW_BYTES = 16 << 20
"""Of weights in memory that a thread uses up in a pass where there are tenths of a second for all:
16 ms of a narrow instruction set. Longer windows give the same figures, since each pass takes the
next one of all memory; shorter ones more spread."""

SCALING_CPUS = 8
"""From here on a report measures half of the threads too: whether the last ones add anything."""


class Block(Struct, frozen=True, kw_only=True):
    """What one child measures in one stretch, on a thread for each of `cpus`.

    `least_bytes` of a thread's source are twice its cache: after `touch_seconds` it makes do with
    them, on a host that backs memory only now, and after `grace_seconds` more it gives up.
    `home_cpus` touch the memory first and so decide its NUMA node. `streams` are the operations on
    memory; `decode` asks for the products of weights in cache, `decode_dram` for those of these
    types in memory, after which nothing else can be read, `decode_window_bytes` of a thread in a
    pass; `latency` for loads that wait for one another, by the first CPU, while the others read.
    """

    cpus: tuple[int, ...]
    seconds: float
    source_bytes: int = 0
    destination_bytes: int = 0
    least_bytes: int = 0
    touch_seconds: float = 0.0
    grace_seconds: float = 0.0
    undersized: bool = False
    home_cpus: tuple[int, ...] | None = None
    cpu_node: int | None = None
    memory_node: int | None = None
    streams: tuple[str, ...] = ()
    decode: bool = False
    decode_dram: tuple[str, ...] = ()
    decode_window_bytes: int | None = None
    latency: bool = False

    @property
    def title(self) -> str:
        """What it measures, for people."""
        subject = "memory" if self.streams else "latency" if self.latency else "decode"
        return f"{subject} on {count(len(self.cpus), 'thread')}"

    @property
    def destination_share(self) -> float:
        """Of the source: each array of a triad is half of it, a chain of loads is as long."""
        if self.latency:
            return 1.0
        return 0.5 if set(self.streams) - {"read"} else 0.0


def by_core(reader: Reader, cpus: Sequence[int]) -> tuple[int, ...]:
    """One CPU of each core first, then their siblings."""
    ranks = sibling_ranks(reader, cpus)
    return tuple(sorted(cpus, key=lambda cpu: (ranks[cpu], cpu)))


def sibling_ranks(reader: Reader, cpus: Sequence[int]) -> dict[int, int]:
    """CPU -> its place among those of its core that are in `cpus`; 0 where siblings are unknown."""
    ranks = {}
    for cpu in cpus:
        path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        siblings = [n for n in reader.numbers(path, None) or () if n in cpus]
        ranks[cpu] = siblings.index(cpu) if cpu in siblings else 0
    return ranks


def spread(cpus: Sequence[int], threads: int) -> tuple[int, ...]:
    """`threads` of the CPUs; up to half of them lie evenly over the first half (one a core)."""
    half = cpus[: (len(cpus) + 1) // 2]
    pool = half if threads <= len(half) else cpus
    return tuple(pool[index * len(pool) // threads] for index in range(threads))


def most_threads(cpus: int, budget: int | None) -> int:
    """What mask and quota allow."""
    return max(1, min(cpus, budget or cpus))


def report_threads(cpus: int, budget: int | None) -> tuple[int, ...]:
    """1, all that mask and quota allow, and half of them where they are many."""
    most = most_threads(cpus, budget)
    return tuple(sorted({1, most, most // 2 if most >= SCALING_CPUS else most}))


def sweep_threads(cpus: int, cores: int, budget: int | None) -> tuple[int, ...]:
    """1, 2, 4 .. all that mask and quota allow, and one on each physical core."""
    most = most_threads(cpus, budget)
    powers = {1 << shift for shift in range(most.bit_length()) if 1 << shift <= most}
    return tuple(sorted({*powers, min(cores, most), most}))
