"""Rows with weights on the CPU that cannot all be true of one CPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.figures import between
from nodecheck.judge.rates.ceilings import Range
from nodecheck.judge.runs.rows import Row, cpu_rate, cpu_seconds
from nodecheck.judge.runs.words import named
from nodecheck.model import Struct
from nodecheck.units import GB, gib

APART = 2.0
"""Times that two rows' costs of a byte may differ and still be of one CPU. Source: neighbours on
shared hosts move memory's rate up to 2 times; above it, something else was measured."""


class _Cost(Struct, frozen=True):
    """What a row's bytes on the CPU cost, over what they were to cost; least and most."""

    row: Row
    times: Range

    @property
    def middle(self) -> float:
        return sqrt(self.times.floor * self.times.high)


def contradictions(seen: Seen, rows: Iterable[Row]) -> Iterable[str]:
    """A sentence for each set of rows of one machine, thread count and build that disagree.

    Rows whose CPU part is lost in the rest's noise take no part.
    """
    groups: dict[tuple[object, ...], list[_Cost]] = {}
    for row in rows:
        if times := _times(row):
            run = row.run
            key = (row.machine.here, row.machine.host, run.cpu, run.threads, run.build, run.tool)
            groups.setdefault(key, []).append(_Cost(row, times))
    for group in groups.values():
        yield from _group(seen, sorted(group, key=lambda cost: cost.middle))


def _times(row: Row) -> Range | None:
    """The CPU's seconds over those that its bytes take here, or over its GB if that is unknown."""
    seconds = cpu_seconds(row)
    if seconds is None or row.cut is None:
        return None
    if row.stage is None:
        size = row.cut.on_cpu.weight_bytes
        expected = (size.floor + size.high) / 2 / GB
    else:
        usual = row.stage.seconds(row.cut.on_cpu)
        expected = sqrt(usual.floor * usual.high)
    return seconds.times(1 / expected) if expected else None


def _group(seen: Seen, costs: Sequence[_Cost]) -> Iterable[str]:
    if len(costs) < 2 or not _disagree(costs[0], costs[-1]):
        return
    fast, slow = costs[0].row, costs[-1].row
    apart = between(
        costs[-1].times.floor / costs[0].times.high, costs[-1].times.high / costs[0].times.floor
    )
    both = f"{_told(fast)} and {_told(slow)}"
    if short := _short_of_ram(seen, fast, slow):
        disk = f"{named(slow)} tells of the disk, not of the CPU"
        yield f"{both} lie {apart}x apart: {short}. {disk}."
        return
    said = f"{both} contradict each other, {apart}x apart on one CPU"
    yield f"{said}. {_which(costs)}"


def _disagree(fast: _Cost, slow: _Cost) -> bool:
    return slow.times.floor > APART * fast.times.high


def _told(row: Row) -> str:
    rate = cpu_rate(row)
    implied = between(rate.floor / GB, rate.high / GB) if rate else "?"
    return f"{named(row)} ({implied} GB/s of weights on the CPU)"


def _short_of_ram(seen: Seen, fast: Row, slow: Row) -> str | None:
    """Whether RAM holds what the fast row left on the CPU and not what the slow one did."""
    free = node.free_ram_bytes(seen)
    if free is None or not (fast.cut and slow.cut and slow.machine.here):
        return None
    less, more = fast.cut.on_cpu.room_bytes, slow.cut.on_cpu.room_bytes
    return f"{gib(more)} do not fit the {gib(free)} of free RAM" if less <= free < more else None


def _which(costs: Sequence[_Cost]) -> str:
    """The one that stands alone, where the others agree; else that none is of use."""
    if len(costs) > 2:
        for alone, rest in ((costs[-1], costs[:-1]), (costs[0], costs[1:])):
            if not _disagree(rest[0], rest[-1]):
                return f"{named(alone.row)} stands alone: the other {len(rest)} rows agree."
    return "Neither calibrates anything." if len(costs) == 2 else "They calibrate nothing."
