"""What our kernels say of a decode's speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import median

from nodecheck.checks.dram import placement, statistics
from nodecheck.checks.dram.room import SCRATCH_BYTES
from nodecheck.judge.rates import ceilings
from nodecheck.judge.rates.ceilings import Range
from nodecheck.machine import kernels
from nodecheck.machine.kernels import Arena, Group, Kernel, Pass, Product
from nodecheck.model import RoundTrip

Cpus = tuple[int, ...]

SETS: Mapping[str, frozenset[str]] = {
    "sse2": frozenset({"sse2"}),
    "sse42": frozenset({"sse2", "sse4.2"}),
    "avx": frozenset({"sse2", "sse4.2", "avx"}),
    "avx2": frozenset({"sse2", "sse4.2", "avx", "avx2"}),
}
"""Instruction sets that an engine's build may use; the native one may use all."""

BYTES = 1 << 29
"""Of all threads together: beyond the last cache."""
COLUMNS = 3072
"""Of most matrices of the models."""
RESIDENT_REPEATS = 100
SECONDS = 0.3
PASSES = 3


@dataclass(frozen=True)
class Rates:
    """Bytes of weights that all threads together use up in a second."""

    resident: float
    from_dram: float


@dataclass(frozen=True)
class Prediction:
    """Tokens a second of one engine, and the state of the machine when it was made."""

    expected: float
    read: float
    """Bytes a second that the threads read from DRAM."""
    round_trips: tuple[RoundTrip, ...]
    """Of a cache line, between the CPUs."""
    rates: dict[str, Rates]

    @property
    def range(self) -> Range:
        """As a report prints it."""
        return ceilings.from_memory(self.expected)


class Kernels:
    """Kernels of one engine for some weight types on some CPUs, their memory filled."""

    def __init__(self, flavour: str, read: Mapping[str, int], cpus: Cpus) -> None:
        """`read` says how many bytes of each weight type a token reads."""
        self._read = read
        self._cpus = cpus
        self._memory = ExitStack()
        self._source = self._arena(huge_pages=True)
        self._products = {weights: self._product(_kernel(flavour, weights)) for weights in read}

    def _arena(self, *, huge_pages: bool) -> Arena:
        arena = Arena(self._cpus, BYTES // len(self._cpus), SCRATCH_BYTES, huge_pages=huge_pages)
        self._memory.enter_context(closing(arena)).touch()
        return arena

    def _product(self, kernel: Kernel) -> tuple[Product, Product]:
        """From memory, and from the caches. Engines ask for no huge pages for their weights."""
        arena = self._arena(huge_pages=False)
        streamed, resident = (arena.decode(kernel, COLUMNS, resident=r) for r in (False, True))
        return streamed, resident

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()

    def predict(self) -> Prediction:
        """Measure now. A token's time is the sum over its weight types: its layers take turns."""
        rates = {weights: _rates(*products) for weights, products in self._products.items()}
        reader = [k for k in kernels.stream_kernels() if k.operation == "read" and k.usable][-1]
        read = _rate(lambda i: self._source.stream(reader, PASSES, first_window=i))
        seconds = sum(size / rates[weights].from_dram for weights, size in self._read.items())
        return Prediction(
            expected=1 / seconds,
            read=read,
            round_trips=placement.along(self._cpus),
            rates=rates,
        )


def _rates(streamed: Product, resident: Product) -> Rates:
    return Rates(
        resident=_rate(lambda _: resident.run(PASSES, repeats=RESIDENT_REPEATS)),
        from_dram=_rate(lambda i: streamed.run(PASSES, first_window=i)),
    )


def _kernel(flavour: str, weights: str) -> Kernel:
    """That of the widest instructions that the build has, as an engine takes it."""
    sets = SETS.get(flavour)
    return next(
        kernel
        for kernel in kernels.decode_kernels()
        if kernel.operation == weights and kernel.usable and (sets is None or kernel.isa in sets)
    )


def _rate(run: Callable[[int], Group]) -> float:
    """Median of the clean passes, bytes a second, each group further on in the memory."""
    passes = list[Pass]()
    end = time.monotonic() + SECONDS
    while not passes or time.monotonic() < end:
        passes += run(len(passes)).passes
    usable, _ = statistics.clean(passes)
    return median(each.bytes / each.seconds for each in usable or passes)
