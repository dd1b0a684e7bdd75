"""Runs the read kernels on a live node, in a child that the kernel kills before anything else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodecheck.checks.dram import activity, buffers, caches, statistics
from nodecheck.checks.dram.facts import DramFacts, DramProbe
from nodecheck.checks.dram.skipped import skipped
from nodecheck.checks.seen import Facts
from nodecheck.machine import child
from nodecheck.machine.reader import Reader
from nodecheck.model import Load, Measurement, Reason, Struct
from nodecheck.units import count, gib

if TYPE_CHECKING:
    from nodecheck.machine.native import DramRead

KERNEL_SECONDS = 2.4
"""Shared by all thread counts, the filling of the buffers included."""

LEAST_SECONDS = 0.5
"""In less time buffers are hardly filled."""

LIMIT_SECONDS = 3.0
"""No kernel runs past this, counted from the first."""

SCALING_CPUS = 8
"""From here on half of the threads are measured too: whether the last ones add anything."""

HUGE_PAGE_SHARE_MIN = 0.5


class _Run(Struct, frozen=True):
    measurement: Measurement
    read: DramRead


def run(reader: Reader, facts: Facts) -> DramProbe:
    """Read bandwidth on one, on half (of many) and on all usable CPUs."""
    cpus = by_core(reader, facts.limits.usable_cpus or ())
    available = _available(facts)
    if not cpus or available is None:
        what = "the usable CPUs are" if not cpus else "MemAvailable is"
        return skipped(reader, f"{what} not known", Reason.FAILED)
    llc = caches.read(reader, cpus)
    counts = thread_counts(len(cpus), facts.limits.thread_budget)
    end = time.monotonic() + LIMIT_SECONDS
    warnings = [] if llc.known else ["size of the last level cache not known, 64 MiB assumed"]
    runs: list[_Run] = []
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
        kernel = _Kernel(chosen, plan, KERNEL_SECONDS / len(counts))
        done = _one(reader, facts, kernel, end)
        runs += [done] if done else []
    return _result(runs, llc, warnings)


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


def _one(reader: Reader, facts: Facts, kernel: _Kernel, end: float) -> _Run | None:
    """One measurement and what else the node did meanwhile; None, with a gap, if it failed."""
    from nodecheck.machine.native import DramRead

    if end - time.monotonic() < LEAST_SECONDS:
        where = f"read kernel on {count(len(kernel.cpus), 'thread')}"
        reader.gap("measurements", Reason.TIMEOUT, f"{where}: the node left no time for it")
        return None
    throttled_before = _throttled(reader, facts)
    before = activity.read(reader)
    outcome = child.call(kernel, DramRead, end - time.monotonic())
    after = activity.read(reader)
    read = outcome.value
    if read is None:
        reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
        where = f"read kernel on {count(len(kernel.cpus), 'thread')}"
        reader.gap("measurements", reason, f"{where}: {outcome.error}")
        return None
    others = after.keys() - set(kernel.cpus)
    load = Load(
        other_cpus_busy_share=activity.busy_share(before, after, others),
        steal_share=activity.steal_share(before, after, after),
        thread_cpu_share_min=min((p.cpu_share for p in read.passes), default=None),
    )
    throttled = _throttled(reader, facts) != throttled_before
    figure = statistics.measurement(
        read, load, throttled=throttled, undersized=kernel.plan.undersized
    )
    return _Run(figure, read) if figure else None


def _throttled(reader: Reader, facts: Facts) -> str:
    """The line of cpu.stat that moves when the quota stops the process."""
    source = facts.limits.throttled_source
    text = reader.text(source, None) if source else None
    return next((x for x in (text or "").splitlines() if x.startswith("nr_throttled")), "")


def _result(runs: Sequence[_Run], llc: caches.Caches, warnings: list[str]) -> DramProbe:
    if not runs:
        why = warnings[-1] if warnings else "the read kernel failed"
        return DramProbe(facts=DramFacts(skipped=why, warnings=tuple(warnings)))
    widest = max(runs, key=lambda done: done.read.threads).read
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
        measurements=tuple(done.measurement for done in reversed(runs)),
    )


def _huge_page_share(read: DramRead) -> float | None:
    whole = read.threads * read.buffer_bytes_per_thread
    return min(1.0, read.huge_page_bytes / whole) if read.huge_page_bytes >= 0 else None
