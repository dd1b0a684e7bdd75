"""One stretch of measuring, in the child: every figure's passes spread over the whole of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from nodecheck.checks.dram import activity, placement
from nodecheck.checks.dram.activity import Activity
from nodecheck.checks.dram.plan import Block
from nodecheck.machine import child, kernels, memory_limit, native
from nodecheck.machine.kernels import Arena, Group, Kernel, Pass, Product
from nodecheck.machine.reader import Reader
from nodecheck.model import Load, RoundTrip, Struct

GROUP_PASSES = 4
"""Passes of one kernel back to back."""

LEAST_GROUPS = 2
"""Of one kernel that stands alone: fewer passes tell nothing of the spread."""

RESIDENT_PASSES = 8
"""Of weights in cache, which are short: enough for a figure in one group."""

RACE_PASSES = 4
RACE_WINDOW_BYTES = 16 << 20
"""Small, for the sake of slow nodes."""

PASS_SECONDS = 2e-3
"""What a pass over weights in cache is repeated to take."""

COLUMNS = 4096
LEAST_SHARE = 0.6
"""Of a stretch's time, which touching memory leaves to the kernels however long it takes."""

DECODE_SHARE = 0.4
"""Of what a stretch that reads memory too has left, for all products together."""

SEVERAL_SHARE = 0.6
"""The same where they are of several types in memory: each is filled in first."""

LATENCY_LOADS = 20_000


class Series(Struct, frozen=True):
    """The passes of one kernel, and what kept its threads waiting."""

    name: str
    kernel: str
    passes: tuple[Pass, ...]
    run_delay_seconds: float | None = None


class Chase(Struct, frozen=True):
    """Loads that waited for one another: seconds of one, a figure a pass."""

    name: str
    seconds: tuple[float, ...]
    cpu_share: float
    spread_bytes: int
    read_bytes_per_second: float | None


class Stretch(Struct, frozen=True):
    """What a child has measured. `round_trips` are those before and after it.

    `load` is what else ran while the kernels did: not while memory was touched, when the time that
    a host takes to back it shows as steal.
    """

    series: tuple[Series, ...]
    chase: Chase | None
    round_trips: tuple[tuple[RoundTrip, ...], tuple[RoundTrip, ...]]
    source_bytes: int
    huge_page_share: float | None
    touch_bytes_per_second: float
    load: Load


class _Task:
    """A kernel that is run group by group; the one that had least time comes next."""

    def __init__(self, name: str, kernel: str, run: Callable[[int], Group]) -> None:
        self.name = name
        self.kernel = kernel
        self.run = run
        self.groups: list[Group] = []
        self.spent = 0.0

    def make_group(self) -> None:
        """One more group, its passes going on where the last one's ended."""
        began = time.monotonic()
        self.groups.append(self.run(len(self.groups) * GROUP_PASSES))
        self.spent += time.monotonic() - began

    def series(self) -> Series:
        delays = [group.run_delay_seconds for group in self.groups]
        known = [delay for delay in delays if delay is not None]
        return Series(
            name=self.name,
            kernel=self.kernel,
            passes=tuple(each for group in self.groups for each in group.passes),
            run_delay_seconds=sum(known) if len(known) == len(delays) else None,
        )


def run(reader: Reader, block: Block) -> Stretch:
    """Measure. OSError, kernels.NoRoom and kernels.TooSlow as the kernels raise them."""
    native.die_with_parent()
    child.be_first_to_die()
    before = placement.along(block.cpus)
    began = time.monotonic()
    with contextlib.closing(
        Arena(
            block.cpus,
            block.source_bytes,
            block.destination_bytes,
            huge_pages=bool(block.streams or block.latency),  # engines ask for none
        )
    ) as arena:
        touch_rate = _touch(reader, arena, block)
        idle = activity.read(reader)
        end = max(began + block.seconds, time.monotonic() + LEAST_SHARE * block.seconds)
        streams, products = list(_streams(arena, block)), list(_products(arena, block))
        left = end - time.monotonic()
        share = SEVERAL_SHARE if len(block.decode_dram) > 1 else DECODE_SHARE
        _spend(streams, end - share * left if products else end)
        if block.streams and block.decode_dram:
            _spend_in_turn(products, end)
        else:
            _spend(products, end)
        chase = _chase(arena, block, end) if block.latency else None
        return Stretch(
            series=tuple(task.series() for task in (*streams, *products) if task.groups),
            chase=chase,
            round_trips=(before, placement.along(block.cpus)),
            source_bytes=arena.source_bytes,
            huge_page_share=_huge_page_share(arena),
            touch_bytes_per_second=touch_rate,
            load=_load(idle, activity.read(reader), block),
        )


def _load(before: Activity, after: Activity, block: Block) -> Load:
    others = after.cpus.keys() - set(block.cpus)
    return Load(
        other_cpus_busy_share=activity.busy_share(before, after, others),
        steal_share=activity.steal_share(before, after),
        pressure_share=activity.pressure_share(before, after),
    )


def _touch(reader: Reader, arena: Arena, block: Block) -> float:
    def has_room(bytes_to_come: int) -> bool:
        """Whether as much would be left as is still to be taken."""
        left = memory_limit.available_bytes(reader)
        return left is None or left >= 2 * bytes_to_come

    began = time.monotonic()
    return arena.touch(
        home_cpus=block.home_cpus,
        has_room=has_room,
        least_bytes=block.least_bytes,
        enough_after=began + block.touch_seconds,
        too_late_after=began + block.touch_seconds + block.grace_seconds,
    )


def _huge_page_share(arena: Arena) -> float | None:
    taken = len(arena.cpus) * (arena.source_bytes + arena.destination_bytes)
    return min(1.0, arena.huge_page_bytes / taken) if arena.huge_page_bytes >= 0 else None


def _spend(tasks: Sequence[_Task], end: float) -> None:
    """The task that had least time comes next, until time is up; one at least."""
    while tasks:
        min(tasks, key=lambda task: task.spent).make_group()
        if time.monotonic() >= end:
            return


def _spend_in_turn(tasks: Sequence[_Task], end: float) -> None:
    """Each task for its part of the time, in the order of their worth: late ones may get none."""
    for number, task in enumerate(tasks):
        now = time.monotonic()
        if number and now >= end:
            return
        _spend([task], now + (end - now) / (len(tasks) - number))
        while len(task.groups) < LEAST_GROUPS:
            task.make_group()


def _streams(arena: Arena, block: Block) -> Iterator[_Task]:
    for operation in block.streams:
        kernel = _fastest(arena, operation)

        def group(first: int, kernel: Kernel = kernel) -> Group:
            return arena.stream(kernel, GROUP_PASSES, first_window=first)

        yield _Task(f"dram_{operation}", kernel.name, group)


def _fastest(arena: Arena, operation: str) -> Kernel:
    """Which variant moves most differs by CPU and number of threads: they are raced."""
    usable = [k for k in kernels.stream_kernels() if k.operation == operation and k.usable]

    def seconds(kernel: Kernel) -> float:
        run = arena.stream(kernel, RACE_PASSES, window_bytes=RACE_WINDOW_BYTES)
        return _best_seconds(run)

    return min(usable, key=seconds)


def _best_seconds(group: Group) -> float:
    return min(each.seconds for each in group.passes)


def engine_kernels() -> tuple[Kernel, ...]:
    """For each weight type what an engine uses here: its first choice of those that can run."""
    chosen: dict[str, Kernel] = {}
    for kernel in kernels.decode_kernels():
        if kernel.usable:
            chosen.setdefault(kernel.operation, kernel)
    return tuple(chosen.values())


def _products(arena: Arena, block: Block) -> Iterator[_Task]:
    chosen = engine_kernels()
    window, alone = block.decode_window_bytes, bool(block.streams) and not block.decode
    from_memory = (k for k in chosen if k.operation in block.decode_dram)
    for kernel in sorted(from_memory, key=lambda k: block.decode_dram.index(k.operation)):
        run = product(arena, kernel, resident=False, window_bytes=window, alone=alone)
        yield _Task(f"decode_dram_{kernel.operation}", kernel.isa, run)
    for kernel in chosen if block.decode else ():
        run = product(arena, kernel, resident=True)
        yield _Task(f"decode_{kernel.operation}", kernel.isa, run)


def product(
    arena: Arena,
    kernel: Kernel,
    *,
    resident: bool,
    window_bytes: int | None = None,
    alone: bool = False,
) -> Callable[[int], Group]:
    """Groups of passes over weights of one type.

    Filled anew for each group, since others fill the same memory, unless none comes between
    (`alone`).
    """
    kept: list[Product] = []

    def group(first: int) -> Group:
        if not (kept and alone):
            kept[:] = [arena.decode(kernel, COLUMNS, resident=resident, window_bytes=window_bytes)]
        filled = kept[0]
        if not resident:
            return filled.run(GROUP_PASSES, first_window=first)
        once = _best_seconds(filled.run(1))
        return filled.run(RESIDENT_PASSES, repeats=max(1, round(PASS_SECONDS / once)))

    return group


def _chase(arena: Arena, block: Block, end: float) -> Chase:
    """Loads by the first CPU for what is left of the time, while the others read."""
    reader = next(
        k for k in kernels.stream_kernels() if k.operation == "read" and k.variant == "plain"
    )
    chain = arena.chain()
    once = _best_seconds(chain.follow(reader, loads=LATENCY_LOADS, passes=1))
    passes = max(GROUP_PASSES, min(100, int((end - time.monotonic()) / once)))
    made = chain.follow(reader, loads=LATENCY_LOADS, passes=passes)
    read_bytes = sum(each.bytes for each in made.passes)
    seconds = sum(each.seconds for each in made.passes)
    others = len(block.cpus) - 1
    return Chase(
        name="dram_latency_loaded" if others else "dram_latency",
        seconds=tuple(each.seconds / LATENCY_LOADS for each in made.passes),
        cpu_share=min(each.cpu_share for each in made.passes),
        spread_bytes=chain.spread_bytes,
        read_bytes_per_second=read_bytes / seconds if others else None,
    )
