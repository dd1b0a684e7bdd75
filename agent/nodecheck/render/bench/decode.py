"""How fast weights are used up, and what memory would allow beside it."""

from __future__ import annotations

from nodecheck.model import Measurement, Struct
from nodecheck.render.bench.figures import rate, sweep
from nodecheck.report import Report
from nodecheck.units import count, listed

ALIKE = 1.1
"""Rates closer than this are alike: passes of one measurement lie as far apart on a quiet node."""


ORDER = ("q4_k", "q4_0", "int4_g128", "q6_k", "q8_0", "fp8_e4m3", "f16", "bf16")
"""Weight types as a table lists them, fewest bits first."""


class Decode(Struct, frozen=True, kw_only=True):
    """The products of one weight type, with weights in cache and from memory.

    `one` and `most` are from the cores' own caches on one and on most threads, `memory` from memory
    on most. `allowed` is how many times as fast memory could be read on as many threads.
    """

    weights: str
    kernel: str
    one: Measurement | None
    most: Measurement | None
    memory: Measurement | None
    allowed: float | None


class Column(Struct, frozen=True):
    """A column of the table of weight types: two lines of heading, and which figure it holds."""

    heading: tuple[str, str]
    member: str

    def figure(self, row: Decode) -> Measurement | None:
        """What the column holds of a weight type."""
        figure: Measurement | None = getattr(row, self.member)
        return figure


def columns(rows: list[Decode]) -> list[Column]:
    """Those that any weight type has a figure for."""
    threads = max(m.threads for row in rows for m in (row.most, row.memory, row.one) if m)
    most = count(threads, "thread")
    every = (
        Column(("cache", "1 thread"), "one"),
        Column(("cache", most), "most"),
        Column(("memory", most), "memory"),
    )
    return [column for column in every if any(column.figure(row) for row in rows)]


def decode(report: Report) -> list[Decode]:
    """The weight types, fewest bits first; those that are not known last."""
    names = (m.name for m in report.measurements if m.name.startswith("decode_"))
    kinds = dict.fromkeys(name.removeprefix("decode_").removeprefix("dram_") for name in names)
    known = [kind for kind in ORDER if kind in kinds]
    return [_decode(report, kind) for kind in dict.fromkeys((*known, *kinds))]


def _decode(report: Report, weights: str) -> Decode:
    resident = _by_threads(report, f"decode_{weights}")
    streamed = _by_threads(report, f"decode_dram_{weights}")
    threads = max([*resident, *streamed])
    most, memory = resident.get(threads), streamed.get(threads)
    read = sweep(report).get(threads, {}).get("read")
    kernels = [m.kernel for m in (most, memory, *resident.values()) if m]
    one = resident.get(1) if threads > 1 else None
    return Decode(
        weights=weights,
        kernel=kernels[0],
        one=one,
        most=most,
        memory=memory,
        allowed=_allowed(read, most),
    )


def _allowed(read: Measurement | None, used: Measurement | None) -> float | None:
    """Not known where other work disturbed either: no limit is told from that."""
    if read is None or used is None or "contended" in (*read.flags, *used.flags):
        return None
    return read.median_bytes_per_second / used.median_bytes_per_second


def _by_threads(report: Report, name: str) -> dict[int, Measurement]:
    return {m.threads: m for m in report.measurements if m.name == name}


def limit(row: Decode) -> str:
    """What limits decode; for the cores, how many times as much memory would allow."""
    if row.allowed is None:
        return "-"
    if row.allowed >= ALIKE:
        return f"cores, {times(row.allowed)}"
    return "memory" if row.allowed <= 1 / ALIKE else "both"


def times(factor: float) -> str:
    """Write 1.3x or 17x."""
    return f"{factor:.0f}x" if factor >= 9.95 else f"{factor:.1f}x"


def decode_sentence(rows: list[Decode]) -> str:
    """For which weight types the cores, and for which the memory, is what limits decode."""
    known = [(row, row.allowed) for row in rows if row.allowed is not None]
    slow = [(row.weights, factor) for row, factor in known if factor >= ALIKE]
    fast = [row.weights for row, factor in known if factor <= 1 / ALIKE]
    alike = [row.weights for row, factor in known if 1 / ALIKE < factor < ALIKE]
    parts = []
    if slow:
        least, most = min(f for _, f in slow), max(f for _, f in slow)
        span = times(most) if times(least) == times(most) else f"{times(least)} to {times(most)}"
        parts.append(f"memory would allow {span} more of {listed([w for w, _ in slow])}")
    if fast:
        parts.append(f"memory is the limit of {listed(fast)}")
    if alike:
        parts.append(f"cores and memory limit {listed(alike)} alike")
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _used(cached: Measurement | None, memory: Measurement | None) -> str:
    """From memory, where a model lies; the caches' rate is what the instructions alone could do."""
    places = ((memory, "from memory"), (cached, "from the caches"))
    return ", ".join(f"{_rate(figure)} {place}" for figure, place in places if figure)


def _rate(figure: Measurement) -> str:
    least = " or more" if "contended" in figure.flags else ""
    value = rate(figure.median_bytes_per_second)
    return f"{value} GB/s{least} on {count(figure.threads, 'thread')}"


def unmeasured(report: Report) -> list[str]:
    """The weight types that there was no time for."""
    there = {row.weights for row in decode(report)}
    return [weights for weights in ORDER if weights not in there]


def limit_sentence(row: Decode | None) -> str:
    """How fast one weight type is used up, and whether memory would allow more."""
    if row is None or (row.most is None and row.memory is None):
        return ""
    said = f"{row.weights} weights are used up at {_used(row.most, row.memory)}"
    if row.allowed is None:
        return f"{said}."
    if row.allowed >= ALIKE:
        return (
            f"{said}: the cores, not memory, limit decode on the CPU (memory would allow "
            f"{times(row.allowed)} more)."
        )
    if row.allowed <= 1 / ALIKE:
        return f"{said}: memory is what limits decode on the CPU."
    return f"{said}: cores and memory limit decode on the CPU alike."
