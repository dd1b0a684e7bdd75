"""What a benchmark's report says, whatever it is printed on: sentences, rows and flags in words."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from nodecheck.checks.dram.statistics import has_moved
from nodecheck.model import Latency, Measurement, Struct
from nodecheck.report import Report
from nodecheck.units import GB, count, gb_per_second, gib, percent

OPERATIONS = ("read", "write", "copy", "triad")

DISTURBED = frozenset(("contended", "busy"))
"""Flags of a figure beside which other work ran."""

CONVENTION = "GB/s; bytes read + bytes written, each once, no write-allocate"


class Series(Struct, frozen=True):
    """A name and its points: threads and bytes a second, fewest threads first."""

    name: str
    points: tuple[tuple[int, float], ...]
    disturbed: frozenset[int] = frozenset()
    """Numbers of threads on which other work took part."""


def rate(bytes_per_second: float) -> str:
    """GB/s in three figures at most: 0.94, 24.1, 182."""
    value = bytes_per_second / GB
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def nanoseconds(seconds: float) -> str:
    """A latency in whole nanoseconds."""
    return f"{seconds * 1e9:.0f}"


def between(low: float | None, high: float | None) -> str:
    """Write p10 and p90 of a rate as 23.8-24.4; nothing where they are not known."""
    return f"{rate(low)}-{rate(high)}" if low is not None and high is not None else ""


def sweep(report: Report) -> dict[int, dict[str, Measurement]]:
    """Threads -> operation -> its measurement, NUMA nodes not told apart."""
    found: dict[int, dict[str, Measurement]] = {}
    for each in sorted(report.measurements, key=lambda m: m.threads):
        operation = each.name.removeprefix("dram_")
        if each.memory_node is None and each.name != operation and operation in OPERATIONS:
            found.setdefault(each.threads, {})[operation] = each
    return found


def operations(rows: dict[int, dict[str, Measurement]]) -> list[str]:
    """Those that were measured on any number of threads."""
    return [op for op in OPERATIONS if any(op in row for row in rows.values())]


def curves(report: Report) -> list[Series]:
    """Each operation's rates over threads."""
    rows = sweep(report)
    return [
        _series(operation, {n: row[operation] for n, row in rows.items() if operation in row})
        for operation in operations(rows)
    ]


def _series(name: str, measured: dict[int, Measurement]) -> Series:
    return Series(
        name,
        tuple((n, each.median_bytes_per_second) for n, each in measured.items()),
        frozenset(n for n, each in measured.items() if "contended" in each.flags),
    )


def numa(report: Report) -> dict[tuple[int, int], Measurement]:
    """Node of the CPUs, node of the memory -> how fast the one read the other."""
    return {
        (m.cpu_node, m.memory_node): m
        for m in report.measurements
        if m.name == "dram_read" and m.cpu_node is not None and m.memory_node is not None
    }


def numa_sentence(found: dict[tuple[int, int], Measurement]) -> str:
    """What remote memory costs."""
    local = [m.median_bytes_per_second for (cpus, home), m in found.items() if cpus == home]
    remote = [m.median_bytes_per_second for (cpus, home), m in found.items() if cpus != home]
    if not local or not remote:
        return ""
    least, most = percent(min(remote) / max(local)), percent(max(remote) / max(local))
    share = least if least == most else f"{least.removesuffix(' %')}-{most}"
    return f"Memory of another node is read at {share} of the best local rate."


def named_flags(row: dict[str, Measurement]) -> str:
    """The flags of a row, each with its operations unless all have it."""
    flags = dict.fromkeys(flag for each in row.values() for flag in each.flags)
    parts = []
    for flag in flags:
        marked = [operation for operation, each in row.items() if flag in each.flags]
        parts.append(flag if len(marked) == len(row) else f"{', '.join(marked)} {flag}")
    return "; ".join(parts)


def mark(figure: Measurement | Latency | None) -> str:
    """`!` beside a figure that other work disturbed, `?` beside one with another flag."""
    return mark_of(figure.flags if figure else ())


def mark_of(flags: Collection[str]) -> str:
    """The same for these flags."""
    if not flags:
        return " "
    return "!" if not DISTURBED.isdisjoint(flags) else "?"


def latency_words(latency: Latency) -> str:
    """What else went on while loads waited."""
    if not latency.other_threads:
        return "idle"
    reading = latency.read_bytes_per_second
    rest = f" {gb_per_second(reading)}" if reading else ""
    others = f"{count(latency.other_threads, 'thread')} {_reads(latency.other_threads)}"
    return f"while {others}{rest}"


def _reads(threads: int) -> str:
    return "reads" if threads == 1 else "read"


def kernel_words(report: Report) -> list[str]:
    """Which loop was the fastest, for each operation; on how many threads where that changes."""
    rows = sweep(report)
    return [
        f"{op}: {_won([(n, row[op].kernel) for n, row in rows.items() if op in row])}"
        for op in operations(rows)
    ]


def _won(kernels: list[tuple[int, str]]) -> str:
    """Write "avx2 on 1 thread, avx512 on 2-64 threads"."""
    if len({kernel for _, kernel in kernels}) == 1:
        return kernels[0][1]
    runs = [list(run) for _, run in itertools.groupby(kernels, key=lambda each: each[1])]
    return ", ".join(f"{run[0][1]} on {_threads([n for n, _ in run])}" for run in runs)


def _threads(numbers: list[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return count(first, "thread") if first == last else f"{first}-{last} threads"


def buffer_words(report: Report) -> list[str]:
    """On what memory it was measured."""
    dram = report.facts.dram
    size, share, cache = dram.buffer_bytes_per_thread, dram.huge_page_share, dram.llc_bytes
    parts = []
    if size:
        parts.append(f"{gib(size)} a thread on {count(max(sweep(report), default=1), 'thread')}")
    if share is not None:
        parts.append(f"{percent(share)} of it on 2 MiB pages")
    if cache:
        parts.append(f"last level caches {gib(cache)}")
    return parts


def moved(report: Report) -> str:
    """Whether the CPUs lay as far apart after the measurements as before."""
    pairs = [m.round_trip_seconds for m in report.measurements if m.round_trip_seconds]
    if not pairs:
        return ""
    if shifted := next(filter(has_moved, pairs), None):
        before, after = map(nanoseconds, shifted)
        return f"round trips of {before} ns before and {after} ns after: the host moved the CPUs"
    low, high = nanoseconds(min(map(min, pairs))), nanoseconds(max(map(max, pairs)))
    return f"round trips of {low if low == high else f'{low}-{high}'} ns, before as after"
