"""Runs the read kernels on a live node, in a child that the kernel kills before anything else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nodecheck.checks.dram import activity, buffers, caches, statistics
from nodecheck.checks.dram.facts import DramFacts, DramProbe
from nodecheck.checks.dram.skipped import skipped
from nodecheck.checks.seen import Facts
from nodecheck.machine import child
from nodecheck.machine.reader import Reader
from nodecheck.model import Load, Reason, Struct
from nodecheck.units import count, gib

if TYPE_CHECKING:
    from nodecheck.machine.native import DramRead

KERNEL_SECONDS = 2.4
"""Shared by all thread counts, the filling of the buffers included."""

TURNS = 2
"""Stretches that each thread count is measured in, in turn with the others."""

LEAST_SECONDS = 0.5
"""In less time buffers are hardly filled."""

LIMIT_SECONDS = 3.0
"""No kernel runs past this, counted from the first."""

SCALING_CPUS = 8
"""From here on half of the threads are measured too: whether the last ones add anything."""

HUGE_PAGE_SHARE_MIN = 0.5


class _Block(Struct, frozen=True):
    """What a kernel read in one stretch, and what else the node did meanwhile."""

    read: DramRead
    load: Load
    throttled: bool
    undersized: bool


def run(reader: Reader, facts: Facts) -> DramProbe:
    """Read bandwidth on one, on half (of many) and on all usable CPUs."""
    cpus = by_core(reader, facts.limits.usable_cpus or ())
    available = _available(facts)
    if not cpus or available is None:
        what = "the usable CPUs are" if not cpus else "MemAvailable is"
        return skipped(reader, f"{what} not known", Reason.FAILED)
    llc = caches.read(reader, cpus)
    warnings = [] if llc.known else ["size of the last level cache not known, 64 MiB assumed"]
    counts = thread_counts(len(cpus), facts.limits.thread_budget)
    kernels: list[_Kernel] = []
    # the widest first: if time runs out on a busy node, it is the one that is judged
    for threads in reversed(counts):
        chosen = spread(cpus, threads)
        plan = buffers.plan(
            threads=threads,
            cache_share_bytes=llc.share_bytes(chosen),
            cache_total_bytes=llc.total_bytes,
            available_bytes=available,
            guest=facts.virt.guest is not False,
        )
        if plan is None:
            warnings.append(_not_measurable(threads, llc.share_bytes(chosen), available))
            reader.gap("measurements", Reason.UNSUPPORTED, warnings[-1])
            continue
        kernels.append(_Kernel(chosen, plan, KERNEL_SECONDS / TURNS / len(counts)))
    return _result(_taken_in_turns(reader, facts, kernels), llc, warnings)


def _taken_in_turns(reader: Reader, facts: Facts, kernels: list[_Kernel]) -> list[_Block]:
    """Every kernel's blocks put together. The host drifts: each figure spans the whole time."""
    end = time.monotonic() + LIMIT_SECONDS
    blocks: dict[int, list[_Block]] = {}
    for turn in range(TURNS):
        for kernel in kernels:
            threads = len(kernel.cpus)
            if turn and (threads not in blocks or end - time.monotonic() < LEAST_SECONDS):
                continue
            if block := _one(reader, facts, kernel, end):
                blocks.setdefault(threads, []).append(block)
    return [_merged(parts) for parts in blocks.values()]


def _merged(parts: list[_Block]) -> _Block:
    loads = [part.load for part in parts]
    return _Block(
        read=replace(parts[0].read, passes=tuple(p for part in parts for p in part.read.passes)),
        load=Load(
            other_cpus_busy_share=_highest(load.other_cpus_busy_share for load in loads),
            steal_share=_highest(load.steal_share for load in loads),
            thread_cpu_share_min=min(
                (p.cpu_share for x in parts for p in x.read.passes), default=None
            ),
        ),
        throttled=any(part.throttled for part in parts),
        undersized=parts[0].undersized,
    )


def _highest(shares: Iterable[float | None]) -> float | None:
    return max((share for share in shares if share is not None), default=None)


def by_core(reader: Reader, cpus: Sequence[int]) -> tuple[int, ...]:
    """One CPU of each core first, then their siblings."""
    ranks = {}
    for cpu in cpus:
        path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        siblings = [n for n in reader.numbers(path, None) or () if n in cpus]
        ranks[cpu] = siblings.index(cpu) if cpu in siblings else 0
    return tuple(sorted(cpus, key=lambda cpu: (ranks[cpu], cpu)))


def spread(cpus: Sequence[int], threads: int) -> tuple[int, ...]:
    """`threads` of the CPUs; up to half of them lie evenly over the first half (one a core)."""
    half = cpus[: (len(cpus) + 1) // 2]
    pool = half if threads <= len(half) else cpus
    return tuple(pool[index * len(pool) // threads] for index in range(threads))


def thread_counts(cpus: int, budget: int | None) -> tuple[int, ...]:
    """1, all that quota and mask allow, and half of them where they are many."""
    most = max(1, min(cpus, budget or cpus))
    return tuple(sorted({1, most, most // 2 if most >= SCALING_CPUS else most}))


def _available(facts: Facts) -> int | None:
    """What the process may still take of the node's memory and of its cgroup's."""
    sizes = (facts.memory.available_bytes, facts.limits.memory_headroom_bytes)
    return None if sizes[0] is None else min(size for size in sizes if size is not None)


def _not_measurable(threads: int, share: float, available: int) -> str:
    return (
        f"not measurable on {threads} threads: a quarter of the available {gib(available)} is less "
        f"than twice their caches ({gib(share)} each)"
    )


class _Kernel:
    """The child's work: read one buffer a CPU for some seconds."""

    def __init__(self, cpus: tuple[int, ...], plan: buffers.Buffers, seconds: float) -> None:
        self.cpus = cpus
        self.plan = plan
        self.seconds = seconds

    def __call__(self) -> DramRead:
        from nodecheck.machine import native

        native.die_with_parent()
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        return native.dram_read(self.cpus, self.plan.bytes_per_thread, self.seconds)


def _one(reader: Reader, facts: Facts, kernel: _Kernel, end: float) -> _Block | None:
    """One stretch of a kernel; None, with a gap, if it failed."""
    from nodecheck.machine.native import DramRead

    where = f"read kernel on {count(len(kernel.cpus), 'thread')}"
    if end - time.monotonic() < LEAST_SECONDS:
        reader.gap("measurements", Reason.TIMEOUT, f"{where}: the node left no time for it")
        return None
    throttled_before = _throttled(reader, facts)
    before = activity.read(reader)
    outcome = child.call(kernel, DramRead, end - time.monotonic())
    after = activity.read(reader)
    if outcome.value is None:
        reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
        reader.gap("measurements", reason, f"{where}: {outcome.error}")
        return None
    load = Load(
        other_cpus_busy_share=activity.busy_share(before, after, after.keys() - set(kernel.cpus)),
        steal_share=activity.steal_share(before, after, after),
    )
    throttled = _throttled(reader, facts) != throttled_before
    return _Block(outcome.value, load, throttled, kernel.plan.undersized)


def _throttled(reader: Reader, facts: Facts) -> str:
    """The line of cpu.stat that moves when the quota stops the process."""
    source = facts.limits.throttled_source
    text = reader.text(source, None) if source else None
    return next((x for x in (text or "").splitlines() if x.startswith("nr_throttled")), "")


def _result(blocks: list[_Block], llc: caches.Caches, warnings: list[str]) -> DramProbe:
    figures = [
        statistics.measurement(x.read, x.load, throttled=x.throttled, undersized=x.undersized)
        for x in blocks
    ]
    measured = tuple(figure for figure in figures if figure is not None)
    if not measured:
        why = warnings[-1] if warnings else "the read kernel failed"
        return DramProbe(facts=DramFacts(skipped=why, warnings=tuple(warnings)))
    widest = max(blocks, key=lambda block: block.read.threads).read
    share = _huge_page_share(widest)
    if share is not None and share < HUGE_PAGE_SHARE_MIN:
        warnings.append("on small pages: figures may be 20 % low")
    return DramProbe(
        facts=DramFacts(
            kernel=widest.kernel,
            buffer_bytes_per_thread=widest.buffer_bytes_per_thread,
            huge_page_share=share,
            llc_bytes=llc.total_bytes if llc.known else None,
            warnings=tuple(warnings),
        ),
        measurements=tuple(reversed(measured)),
    )


def _huge_page_share(read: DramRead) -> float | None:
    whole = read.threads * read.buffer_bytes_per_thread
    return min(1.0, read.huge_page_bytes / whole) if read.huge_page_bytes >= 0 else None
