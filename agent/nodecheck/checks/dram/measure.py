"""Runs the kernels of a report on a live node, each block in a child that dies before all else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from nodecheck.checks.dram import plan, session
from nodecheck.checks.dram.facts import DramFacts, DramProbe
from nodecheck.checks.dram.figures import Result, latencies, measurements
from nodecheck.checks.dram.plan import Block
from nodecheck.checks.dram.room import Room
from nodecheck.checks.dram.session import Stretch
from nodecheck.checks.dram.skipped import skipped
from nodecheck.checks.seen import Facts
from nodecheck.machine import child
from nodecheck.machine.reader import Reader
from nodecheck.model import Measurement, Reason, RoundTrip, Struct
from nodecheck.units import GB, gb_per_second

KERNEL_SECONDS = 2.2
"""Shared by all blocks of a report, the touching of their memory included."""

TURNS = 2
"""Stretches that each number of threads is measured in, in turn with the others: in one also with
weights in the caches, in one with weights in memory."""

LIMIT_SECONDS = 3.0
"""No kernel of a report runs past this, counted from the first."""

TOUCH_SHARE = 0.4
TOUCH_SECONDS = 1.4
"""That touching memory may take beyond its share of a block, where the host backs it only now."""

HUGE_PAGE_SHARE_MIN = 0.5
TOUCH_SLOW = 0.5 * GB
"""1.6 to 2.7 GB/s in small pages and 6 to 8 in 2 MiB pages where the host has backed the memory,
0.15 where it had not."""

LEAST_SECONDS = 0.5
"""In less time memory is hardly touched."""

GRACE_SECONDS = 2.0
"""What a block may take beyond its time and its grace: the last group of a slow kernel."""


def run(reader: Reader, facts: Facts, weight_types: Sequence[str]) -> DramProbe:
    """Read bandwidth and decode rates on one, on half (of many) and on all usable CPUs.

    Rates from memory are measured for `weight_types` alone, the most important first: the others
    than that on all usable CPUs only, and where there is time.
    """
    room = Room.of(reader, facts)
    if isinstance(room, str):
        return skipped(reader, room, Reason.FAILED)
    counts = plan.report_threads(len(room.cpus), facts.limits.thread_budget)
    # the widest first: if time runs out on a busy node, it is the one that is judged
    sets = [plan.spread(room.cpus, threads) for threads in reversed(counts)]
    blocks = [
        [_block(cpus, len(sets), {"decode": True}) for cpus in sets],
        [_block(cpus, len(sets), _from_memory(weight_types, cpus is sets[0])) for cpus in sets],
    ]
    turns = [[block for each in turn if (block := room.sized(each))] for turn in blocks]
    return result(reader, room, _taken_in_turns(reader, facts, turns))


def _from_memory(weight_types: Sequence[str], widest: bool) -> dict[str, Any]:
    return {
        "decode_dram": tuple(weight_types if widest else weight_types[:1]),
        "decode_window_bytes": plan.SHORT_WINDOW_BYTES,
    }


def _block(cpus: tuple[int, ...], sets: int, products: dict[str, Any]) -> Block:
    seconds = KERNEL_SECONDS / TURNS / sets
    return Block(
        cpus=cpus,
        seconds=seconds,
        touch_seconds=TOUCH_SHARE * seconds,
        grace_seconds=TOUCH_SECONDS,
        streams=("read",),
        **products,
    )


def _taken_in_turns(reader: Reader, facts: Facts, turns: Sequence[Sequence[Block]]) -> list[Result]:
    """The host drifts: each figure spans the whole time.

    CPUs that came to nothing get a second chance: memory that was touched slowly is there by then.
    """
    end = time.monotonic() + LIMIT_SECONDS
    results: list[Result] = []
    failures: dict[tuple[int, ...], Failure] = {}
    for number, blocks in enumerate(turns):
        for block in blocks:
            if number and end - time.monotonic() < LEAST_SECONDS:
                break
            found = one(reader, facts, block, end)
            if isinstance(found, Failure):
                failures[block.cpus] = found
            else:
                results.append(found)
    measured = {result.block.cpus for result in results}
    for cpus, failure in failures.items():
        if cpus not in measured:
            failure.note(reader)
    return results


def result(
    reader: Reader, room: Room, results: Sequence[Result], pairs: Sequence[RoundTrip] = ()
) -> DramProbe:
    """The figures of all blocks; where there are none, why."""
    measured = tuple(sorted(measurements(results), key=_order))
    warnings = list(dict.fromkeys(room.warnings))
    for warning in warnings:
        reader.gap("measurements", Reason.UNSUPPORTED, warning)
    trips = tuple(pairs) or _last_round_trips(results)
    if not results and not trips:
        why = warnings[-1] if warnings else "the kernels failed"
        return DramProbe(facts=DramFacts(skipped=why, warnings=tuple(warnings)))
    widest = max(results, key=_width, default=None)
    if widest:
        warnings += _of_memory(widest.stretch)
    reads = [m.kernel for m in measured if m.name == "dram_read" and m.memory_node is None]
    return DramProbe(
        facts=DramFacts(
            kernel=reads[-1] if reads else None,
            buffer_bytes_per_thread=widest.stretch.source_bytes if widest else None,
            huge_page_share=widest.stretch.huge_page_share if widest else None,
            llc_bytes=room.caches.total_bytes if room.caches.known else None,
            llc_count=len(room.caches.caches) if room.caches.known else None,
            round_trips=trips,
            pairs=len(room.cpus) * (len(room.cpus) - 1) // 2,
            warnings=tuple(warnings),
        ),
        measurements=measured,
        latencies=latencies(results),
    )


def _width(each: Result) -> tuple[bool, int]:
    return bool(each.block.streams), len(each.block.cpus)


def _of_memory(stretch: Stretch) -> Iterator[str]:
    share, rate = stretch.huge_page_share, stretch.touch_bytes_per_second
    if share is not None and share < HUGE_PAGE_SHARE_MIN:
        yield "on small pages: figures may be 20 % low"
    if rate < TOUCH_SLOW:
        yield (
            f"fresh memory is touched at {gb_per_second(rate)}: the host backs it only when it is "
            "used, and whatever loads a model first waits for that"
        )


def _order(each: Measurement) -> tuple[int, int, int, str]:
    return (each.memory_node or 0, each.cpu_node or 0, each.threads, each.name)


def _last_round_trips(results: Sequence[Result]) -> tuple[RoundTrip, ...]:
    """Those of the most CPUs, as they lay at last."""
    trips = [result.stretch.round_trips[1] for result in results]
    return max(reversed(trips), key=len, default=())


class Failure(Struct, frozen=True):
    """Why a block came to nothing."""

    reason: Reason
    detail: str

    def note(self, reader: Reader) -> None:
        """As a gap."""
        reader.gap("measurements", self.reason, self.detail)


def one(reader: Reader, facts: Facts, block: Block, end: float) -> Result | Failure:
    """One stretch in a child, not past `end` (monotonic)."""
    where = block.title
    if end - time.monotonic() < LEAST_SECONDS:
        return Failure(Reason.TIMEOUT, f"{where}: no time was left for it")
    throttled_before = _throttled(reader, facts)
    block = _fitted(block, end - time.monotonic())
    touching = block.touch_seconds + block.grace_seconds
    limit = min(end - time.monotonic(), block.seconds + touching + GRACE_SECONDS)
    outcome = child.call(lambda: session.run(reader, block), Stretch, limit)
    if outcome.value is None:
        reason = Reason.TIMEOUT if outcome.hung else Reason.FAILED
        quota = facts.limits.cpu_quota
        held = f" (the quota allows {quota:g} CPUs)" if outcome.hung and quota else ""
        return Failure(reason, f"{where}: {_plainly(outcome.error)}{held}")
    throttled = _throttled(reader, facts) != throttled_before
    return Result(block, outcome.value, outcome.value.load, throttled)


def _fitted(block: Block, left: float) -> Block:
    """The block with no more time than is left, less what its last group may take."""
    return replace(
        block,
        seconds=min(block.seconds, 0.6 * left),
        touch_seconds=min(block.touch_seconds, 0.3 * left),
    )


def _plainly(error: str | None) -> str:
    if error and error.startswith("NoRoom"):
        return "other work took the memory meanwhile"
    return (error or "failed").removeprefix("TooSlow: ")


def _throttled(reader: Reader, facts: Facts) -> str:
    """The line of cpu.stat that moves when the quota stops the process."""
    source = facts.limits.throttled_source
    text = reader.text(source, None) if source else None
    return next((x for x in (text or "").splitlines() if x.startswith("nr_throttled")), "")
