"""From what the children measured to the figures of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nodecheck.checks.dram import statistics
from nodecheck.checks.dram.buffers import CACHE_MULTIPLE, CACHE_MULTIPLE_MIN
from nodecheck.checks.dram.plan import Block
from nodecheck.checks.dram.session import Chase, Series, Stretch
from nodecheck.machine.kernels import Pass
from nodecheck.model import Latency, Load, Measurement, RoundTrip, Struct

CONVENTIONS = {
    "dram_read": statistics.READ_CONVENTION,
    "dram_write": "bytes written, none of them zero; what the CPU reads before is not counted",
    "dram_copy": "bytes read + bytes written; what the CPU reads before it writes is not counted",
    "dram_triad": "a = b + c / 2: bytes read + bytes written; what the CPU reads before it writes "
    "is not counted",
    "decode_dram": "bytes of weights from memory, multiplied with one vector",
    "decode": "bytes of weights from the cores' own caches, multiplied with one vector",
    "dram_latency": "one load of 8 bytes that waits for the one before it",
}
"""By the longest beginning of a measurement's name: what is counted."""


class Result(Struct, frozen=True):
    """What a stretch came to, and what else the node did meanwhile."""

    block: Block
    stretch: Stretch
    load: Load
    throttled: bool


def measurements(results: Sequence[Result]) -> tuple[Measurement, ...]:
    """A figure for each kernel on each set of CPUs, from all stretches of it together."""
    found: dict[tuple[Block, str], list[tuple[Result, Series]]] = {}
    for result in results:
        for series in result.stretch.series:
            found.setdefault((_identity(result.block), series.name), []).append((result, series))
    figures = [_measurement(parts) for parts in found.values()]
    return tuple(figure for figure in figures if figure is not None)


def _identity(block: Block) -> Block:
    """What stretches have in common that are put together."""
    return Block(
        cpus=block.cpus,
        seconds=0.0,
        cpu_node=block.cpu_node,
        memory_node=block.memory_node,
    )


def _measurement(parts: Sequence[tuple[Result, Series]]) -> Measurement | None:
    block, name = parts[0][0].block, parts[0][1].name
    kernel = _most_used([series.kernel for _, series in parts])
    chosen = [(result, series) for result, series in parts if series.kernel == kernel]
    passes = [each for _, series in chosen for each in series.passes]
    usable, few = statistics.clean(passes)
    if not usable:
        return None
    load = _load([_own_load(result, series) for result, series in chosen])
    trips = _round_trips([result.stretch for result, _ in chosen])
    throttled = any(result.throttled for result, _ in chosen)
    from_memory = "dram" in name
    figure = statistics.figure(
        [each.bytes / each.seconds for each in usable],
        disturbed=few or throttled or statistics.is_disturbed(load),
        moved=from_memory and statistics.has_moved(trips),
        undersized=from_memory and any(_is_undersized(result) for result, _ in chosen),
    )
    return Measurement(
        name=name,
        kernel=kernel,
        threads=len(block.cpus),
        median_bytes_per_second=figure.median,
        p10_bytes_per_second=figure.p10,
        p90_bytes_per_second=figure.p90,
        max_bytes_per_second=figure.most,
        passes=figure.count,
        convention=_convention(name),
        flags=figure.flags,
        load=load,
        round_trip_seconds=trips,
        cpu_node=block.cpu_node,
        memory_node=block.memory_node,
    )


def _is_undersized(result: Result) -> bool:
    """Also where slow memory left a source of less than four times the cache."""
    cut = (
        result.stretch.source_bytes < CACHE_MULTIPLE * result.block.least_bytes / CACHE_MULTIPLE_MIN
    )
    return result.block.undersized or cut


def _most_used(names: Sequence[str]) -> str:
    return max(names, key=names.count)


def _convention(name: str) -> str:
    return next(text for start, text in CONVENTIONS.items() if name.startswith(start))


def _own_load(result: Result, series: Series) -> Load:
    """The load of a stretch, with what the kernel's own threads were kept waiting."""
    wall = sum(each.seconds for each in series.passes) * len(result.block.cpus)
    delay = series.run_delay_seconds
    return Load(
        other_cpus_busy_share=result.load.other_cpus_busy_share,
        steal_share=result.load.steal_share,
        pressure_share=result.load.pressure_share,
        thread_cpu_share_min=_least_share(series.passes),
        # the delay is a whole group's, its warm-up too
        run_delay_share=min(1.0, delay / wall) if delay is not None and wall else None,
    )


def _least_share(passes: Iterable[Pass]) -> float | None:
    return min((each.cpu_share for each in passes), default=None)


def _load(loads: Sequence[Load]) -> Load:
    """The worst of each."""
    return Load(
        other_cpus_busy_share=_worst(max, (x.other_cpus_busy_share for x in loads)),
        steal_share=_worst(max, (x.steal_share for x in loads)),
        thread_cpu_share_min=_worst(min, (x.thread_cpu_share_min for x in loads)),
        run_delay_share=_worst(max, (x.run_delay_share for x in loads)),
        pressure_share=_worst(max, (x.pressure_share for x in loads)),
    )


def _worst(choose: Callable[[list[float]], float], shares: Iterable[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return choose(known) if known else None


def _round_trips(stretches: Sequence[Stretch]) -> tuple[float, float] | None:
    """The slowest before the first and after the last; the two that differ most, where several."""
    pairs = [tuple(map(_slowest, stretch.round_trips)) for stretch in stretches]
    known = [time for pair in pairs for time in pair if time]
    if not known:
        return None
    first, last = pairs[0][0], pairs[-1][1]
    low, high = min(known), max(known)
    return (first, last) if not statistics.has_moved((low, high)) else (low, high)


def _slowest(trips: Iterable[RoundTrip]) -> float:
    return max((trip.seconds for trip in trips), default=0.0)


def latencies(results: Sequence[Result]) -> tuple[Latency, ...]:
    """The figures of the blocks that chased loads."""
    return tuple(
        _latency(result, result.stretch.chase) for result in results if result.stretch.chase
    )


def _latency(result: Result, chase: Chase) -> Latency:
    load = Load(
        other_cpus_busy_share=result.load.other_cpus_busy_share,
        steal_share=result.load.steal_share,
        pressure_share=result.load.pressure_share,
        thread_cpu_share_min=chase.cpu_share,
    )
    # the slowest passes are those that something interrupted: a median of many does not see them
    disturbed = result.throttled or statistics.is_disturbed(load)
    figure = statistics.figure(
        chase.seconds, disturbed=disturbed, undersized=result.block.undersized
    )
    return Latency(
        name=chase.name,
        other_threads=len(result.block.cpus) - 1,
        median_seconds=figure.median,
        p10_seconds=figure.p10,
        p90_seconds=figure.p90,
        passes=figure.count,
        spread_bytes=chase.spread_bytes,
        read_bytes_per_second=chase.read_bytes_per_second,
        convention=_convention(chase.name),
        flags=figure.flags,
        load=load,
    )
