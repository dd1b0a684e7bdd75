"""The other memory benchmarks: how each is run, and what it prints, in one accounting.

Bytes read plus bytes written a second, no write-allocate. Every array is at least ARRAY_BYTES for
each thread; pages are 2 MiB where a tool can be made to use them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tests.bench.peers import environment

ARRAY_MIB = 512
ARRAY_BYTES = ARRAY_MIB << 20
MIB = 1 << 20
OPERATIONS = ("read", "write", "copy", "triad")
ARRAYS = {"read": 1, "write": 1, "copy": 2, "triad": 3}
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
INSTALL = "apt-get install likwid sysbench mbw stress-ng"
FACTORS = {
    "likwid-bench": "MByte/s x 1",
    "sysbench": "MiB/s x 1.048576",
    "mbw": "MiB/s x 2.097152: it counts what is copied once",
    "stress-ng": "MB/s x 1.048576: its MB is a MiB",
    "numpy": "x 1: timed here",
    "llmfit": "GB/s x 1",
}

_LIKWID = {
    "read": {"sse2": ["load_sse"], "avx2": ["load_avx"], "avx512": ["load_avx512"]},
    "write": {
        "sse2": ["store_mem_sse"],
        "avx2": ["store_avx", "store_mem_avx"],
        "avx512": ["store_avx512", "store_mem_avx512"],
    },
    "copy": {
        "sse2": ["copy_mem_sse"],
        "avx2": ["copy_avx", "copy_mem_avx"],
        "avx512": ["copy_avx512", "copy_mem_avx512"],
    },
    "triad": {
        "sse2": ["stream_mem_sse"],
        "avx2": ["stream_avx_fma", "stream_mem_avx_fma"],
        "avx512": ["stream_mem_avx512"],
    },
}
_LIKWID_MB = 540  # of 10^6 bytes: ARRAY_BYTES and a little
_PASSES = 6


class Loop(NamedTuple):
    """One way in which one tool moves memory."""

    tool: str
    operation: str
    name: str


Figures = dict[Loop, float]
"""Bytes read plus bytes written a second, the average over a run."""


@dataclass(frozen=True)
class Run:
    """One process, and the figures that its output holds."""

    command: tuple[str, ...]
    figures: Callable[[str], Figures]
    tool: str
    operation: str
    comparable: bool = True
    """Its arrays lie beyond the caches, its threads share one window of time."""


def runs(threads: int, isas: frozenset[str]) -> list[Run]:
    """Everything that is installed, with the loops that this CPU can run."""
    made = [*_likwid(threads, isas), *_sysbench(threads), *_mbw(threads), *_stress_ng(threads)]
    return [run for run in made if shutil.which(run.tool)] + [
        run for run in (*_numpy(threads), *_llmfit()) if environment.has(run.tool)
    ]


def missing() -> list[str]:
    """Tools that are not installed."""
    debian = ["likwid-bench", "sysbench", "mbw", "stress-ng"]
    absent = [tool for tool in debian if not shutil.which(tool)]
    return absent + [tool for tool in ("numpy", "llmfit") if not environment.has(tool)]


def _likwid(threads: int, isas: frozenset[str]) -> Iterator[Run]:
    for operation, by_isa in _LIKWID.items():
        megabytes = _LIKWID_MB * ARRAYS[operation] * threads
        for name in (name for isa in isas for name in by_isa.get(isa, [])):
            command = ("likwid-bench", "-t", name, "-w", f"N:{megabytes}MB:{threads}")
            loop = Loop("likwid-bench", operation, name)
            figures = partial(_single, loop, likwid_rate)
            yield Run((*command, "-i", str(_PASSES)), figures, loop.tool, operation)


def _sysbench(threads: int) -> Iterator[Run]:
    for operation in ("read", "write"):
        command = (
            *("sysbench", "memory", f"--memory-oper={operation}", "--memory-scope=local"),
            *(f"--memory-block-size={ARRAY_MIB}M", f"--threads={threads}"),
            *(f"--memory-total-size={ARRAY_MIB * _PASSES * threads}M", "run"),
        )
        loop = Loop("sysbench", operation, "4-byte loop")
        yield Run(command, partial(_single, loop, sysbench_rate), loop.tool, operation)


def _mbw(threads: int) -> Iterator[Run]:
    if threads == 1:  # it knows no threads
        yield Run(("mbw", "-n", "3", str(ARRAY_MIB)), _mbw_figures, "mbw", "copy")


def _stress_ng(threads: int) -> Iterator[Run]:
    if threads > 1:  # instances that each time themselves: no rate of all together
        return
    memrate = ["--memrate", "1", "--memrate-bytes", f"{ARRAY_MIB}M", "--memrate-ops", "1"]
    # Arrays are four times the cache that it is told of; below 4.5 s it gives no rate.
    stream = ["--stream", "1", "--stream-l3-size", f"{ARRAY_MIB // 4}M", "--timeout", "8"]
    stream += ["--stream-madvise", "hugepage"]
    for arguments, parse, operation in (
        (memrate, _memrate_figures, "read"),
        (stream, _stream_figures, "triad"),
    ):
        yield Run(("stress-ng", *arguments, "--metrics"), parse, "stress-ng", operation)


def _numpy(threads: int) -> Iterator[Run]:
    script = environment.script("numpy_loops.py")
    command = (str(environment.PYTHON), script, str(ARRAY_BYTES), str(_PASSES), str(threads))
    yield Run(command, numpy_figures, "numpy", "read")


def _llmfit() -> Iterator[Run]:
    # As many threads as its affinity has CPUs; its two arrays of 32 MiB cannot be made larger.
    command = (str(environment.program("llmfit")), "system")
    loop = Loop("llmfit", "copy", "memcpy")
    yield Run(command, partial(_single, loop, llmfit_rate), "llmfit", "copy", comparable=False)


def _single(loop: Loop, parse: Callable[[str], float], output: str) -> Figures:
    return {loop: parse(output)}


def _mbw_figures(output: str) -> Figures:
    return {Loop("mbw", "copy", name): rate for name, rate in mbw_rates(output).items()}


def _memrate_figures(output: str) -> Figures:
    return {
        Loop("stress-ng", "read" if name.startswith("read") else "write", name): rate
        for name, rate in memrate_rates(output).items()
    }


def _stream_figures(output: str) -> Figures:
    return {Loop("stress-ng", "triad", "copy to triad"): stream_rate(output)}


def likwid_rate(output: str) -> float:
    """Its MByte are 10^6 bytes, read and written."""
    return _number(r"^MByte/s:\s+([\d.]+)", output) * 1e6


def sysbench_rate(output: str) -> float:
    """Bytes of all threads over the time of the whole run."""
    return _number(r"\(([\d.]+) MiB/sec\)", output) * MIB


def mbw_rates(output: str) -> Mapping[str, float]:
    """Its averages by method; what is copied was read and written."""
    found = re.findall(r"^AVG\s+Method: (\w+).*Copy: ([\d.]+) MiB/s", output, re.MULTILINE)
    return {name.lower(): float(rate) * 2 * MIB for name, rate in found}


def memrate_rates(output: str) -> Mapping[str, float]:
    """By method; its MB is a MiB."""
    found = re.findall(r"memrate\s+([\d.]+) (\S+) MB per sec", output)
    return {name: float(rate) * MIB for rate, name in found}


def stream_rate(output: str) -> float:
    """Read and written over copy, scale, add and triad together."""
    read, written = (
        _number(rf"stream\s+([\d.]+) memory {way} rate", output) for way in ("read", "write")
    )
    return (read + written) * MIB


def llmfit_rate(output: str) -> float:
    """Read and written; printed in whole GB/s."""
    return _number(r"RAM Bandwidth: ~([\d.]+) GB/s \(measured\)", output) * 1e9


def numpy_figures(output: str) -> Figures:
    """As numpy_loops.py prints them: {operation: {loop: bytes a second}}."""
    return {
        Loop("numpy", operation, name): rate
        for operation, loops in json.loads(output).items()
        for name, rate in loops.items()
    }


def _number(pattern: str, output: str) -> float:
    found = re.search(pattern, output, re.MULTILINE)
    if not found:
        raise ValueError(f"no figure in the output: {output[-200:]!r}")
    return float(found[1])
