"""`nodecheck bench`: what memory, latency, placement and decode come to, as long as it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from nodecheck.checks.dram import measure, placement, plan
from nodecheck.checks.dram.facts import DramProbe
from nodecheck.checks.dram.figures import Result
from nodecheck.checks.dram.plan import STREAMS, WEIGHT_TYPES, Block
from nodecheck.checks.dram.room import Room
from nodecheck.checks.dram.skipped import skipped
from nodecheck.checks.seen import Facts
from nodecheck.machine import child, lock
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, RoundTrip, Struct

PARTS = ("dram", "latency", "placement", "decode")

STREAM_SECONDS = 3.0
DECODE_SECONDS = 5.0
LATENCY_SECONDS = 1.5
READ_SECONDS = 1.0
PLACEMENT_SECONDS = 3.0
"""Of one block. Streams and products are measured in two turns each, so that their passes lie
several seconds apart: the host drifts, and moves vCPUs."""

TURNS = 2
TOUCH_SECONDS = 10.0
"""That touching memory may take where the host backs it only now: seconds a GiB."""

LEAST_SHARE = 0.2
"""Of a block's time, below which it is left out rather than cut."""

Progress = Callable[[str, float | None], None]
Pairs = tuple[RoundTrip, ...]


def run(
    reader: Reader,
    facts: Facts,
    what: Sequence[str],
    *,
    max_seconds: float | None = None,
    progress: Progress = lambda _doing, _left: None,
) -> DramProbe:
    """Measure the PARTS in `what`. On KeyboardInterrupt what was measured until then is given.

    `progress` is told what is being measured and how many seconds are left.
    """
    with lock.measuring() as alone:
        if not alone:
            return skipped(reader, "another nodecheck is measuring on this node")
        room = Room.of(reader, facts)
        if isinstance(room, str):
            return skipped(reader, room, Reason.FAILED)
        return _measured(reader, facts, room, _Wish(tuple(what), max_seconds, progress))


class _Wish(Struct, frozen=True):
    what: tuple[str, ...]
    max_seconds: float | None
    progress: Progress


def _measured(reader: Reader, facts: Facts, room: Room, wish: _Wish) -> DramProbe:
    wanted = (
        replace(each, touch_seconds=TOUCH_SECONDS, grace_seconds=TOUCH_SECONDS)
        for each in _wanted(reader, facts, room, wish.what)
    )
    blocks = [block for each in wanted if (block := room.sized(each))]
    turns = [*blocks, *(b for b in blocks if b.streams or b.decode)]
    share = _share(turns, wish)
    placing = share * PLACEMENT_SECONDS
    turns = [
        replace(each, seconds=share * each.seconds, touch_seconds=share * each.touch_seconds)
        for each in turns
    ]
    if "placement" in wish.what and len(room.cpus) == 1:
        room.warnings.append("placement: there is only one CPU, which has no neighbour")
    results: list[Result] = []
    failures: dict[str, measure.Failure] = {}
    pairs: Pairs = ()
    interrupted = None
    began = time.monotonic()
    end = began + wish.max_seconds if wish.max_seconds else math.inf
    try:
        if "placement" in wish.what and len(room.cpus) > 1:
            wish.progress("measuring placement", _left(turns, placing))
            pairs = _placement(reader, room, min(end, began + placing))
        for number, block in enumerate(turns):
            wish.progress(f"measuring {block.title}", _left(turns[number:], 0.0))
            found = measure.one(reader, facts, block, end)
            if isinstance(found, measure.Failure):
                failures[block.title] = found
            else:
                results.append(found)
    except KeyboardInterrupt:
        interrupted = True
        room.warnings.append(f"interrupted after {time.monotonic() - began:.1f} s")
    measured = {result.block.title for result in results}
    for title, failure in failures.items():
        if title not in measured:
            failure.note(reader)
    probed = measure.result(reader, room, results, pairs)
    return replace(probed, facts=replace(probed.facts, interrupted=interrupted))


def _left(blocks: Sequence[Block], seconds: float) -> float:
    return seconds + sum(block.seconds for block in blocks)


def _wanted(reader: Reader, facts: Facts, room: Room, what: Sequence[str]) -> Iterator[Block]:
    """The blocks of the parts, without their memory."""
    budget = facts.limits.thread_budget
    cores = sum(rank == 0 for rank in plan.sibling_ranks(reader, room.cpus).values())
    most = plan.most_threads(len(room.cpus), budget)
    everyone = plan.spread(room.cpus, most)
    if "dram" in what:
        for threads in reversed(plan.sweep_threads(len(room.cpus), cores, budget)):
            cpus = plan.spread(room.cpus, threads)
            yield Block(cpus=cpus, seconds=STREAM_SECONDS, streams=STREAMS)
        yield from _across_nodes(facts, room)
    if "decode" in what:
        for cpus in dict.fromkeys((everyone, everyone[:1])):
            yield Block(cpus=cpus, seconds=DECODE_SECONDS, decode=True, decode_dram=WEIGHT_TYPES)
            if "dram" not in what:
                yield Block(cpus=cpus, seconds=READ_SECONDS, streams=("read",))
    if "latency" in what:
        for cpus in dict.fromkeys((everyone[:1], everyone)):
            yield Block(cpus=cpus, seconds=LATENCY_SECONDS, latency=True)


def _across_nodes(facts: Facts, room: Room) -> Iterator[Block]:
    """Each NUMA node's CPUs reading each node's memory, where there are several."""
    nodes = facts.numa.nodes
    found = {node.id: tuple(c for c in room.cpus if c in (node.cpus or ())) for node in nodes}
    homes = {node: cpus for node, cpus in found.items() if cpus}
    if len(homes) < 2:
        return
    for reader_node, cpus in homes.items():
        for memory_node, owners in homes.items():
            used = cpus[: min(len(cpus), len(owners))]
            yield Block(
                cpus=used,
                home_cpus=owners[: len(used)],
                cpu_node=reader_node,
                memory_node=memory_node,
                seconds=STREAM_SECONDS / 2,
                streams=("read",),
            )


def _share(blocks: Sequence[Block], wish: _Wish) -> float:
    """What each part gets of its time, where all of it is more than allowed."""
    whole = _left(blocks, PLACEMENT_SECONDS if "placement" in wish.what else 0.0)
    if wish.max_seconds is None or whole <= wish.max_seconds:
        return 1.0
    return max(LEAST_SHARE, wish.max_seconds / whole)


def _placement(reader: Reader, room: Room, end: float) -> Pairs:
    """Round trips between all pairs, in a child, as far as the time goes."""
    seconds = end - time.monotonic()
    outcome = child.call(
        lambda: placement.everywhere(room.cpus, seconds), Pairs, seconds + measure.GRACE_SECONDS
    )
    if outcome.value is None:
        reader.gap("round_trips", Reason.FAILED, f"ping-pong between CPUs: {outcome.error}")
        return ()
    return outcome.value
