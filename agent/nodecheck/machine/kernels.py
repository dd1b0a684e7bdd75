"""The measuring kernels: threads pinned to CPUs that stream, multiply, chase or play ping-pong.

Every call runs one short group of passes and returns; spreading groups over time, and what becomes
of them, is the caller's matter. Rates follow from bytes and seconds: GB is 10^9 bytes.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nodecheck.machine.native import check, ffi, lib, text
from nodecheck.model import Struct
from nodecheck.units import GB

HUGE_PAGE_BYTES = 2 << 20
SMALL_PAGE_BYTES = 4 << 10
LARGEST_BYTES = 1 << 50
TOUCH_STEP_BYTES = 64 << 20
WINDOW_BYTES = 64 << 20
"""What one thread reads, of weights too, in a pass from memory."""

RESIDENT_BYTES = 192 << 10
"""Weights that stay within a core's own caches: half of the smallest second level in use."""


class Kernel(Struct, frozen=True):
    """A loop for one operation (read, write, copy, triad, or a weight type's product).

    `isa` is the instruction set, `variant` how it fetches or stores, or what it multiplies with.
    """

    index: int
    operation: str
    isa: str
    variant: str
    usable: bool

    @property
    def name(self) -> str:
        """As reports name it: "avx2", "avx2 non-temporal"."""
        return self.isa if self.variant == "plain" else f"{self.isa} {self.variant}"


class Pass(Struct, frozen=True):
    """One pass of all threads over `bytes` in all.

    seconds is the common window, last end - first start; cpu_share the least CPU time / wall time
    of any thread, below 1 where something else ran on its CPU.
    """

    seconds: float
    bytes: int
    cpu_share: float


class Group(Struct, frozen=True):
    """Passes made back to back; what the scheduler kept the threads waiting."""

    passes: tuple[Pass, ...]
    run_delay_seconds: float | None
    involuntary_switches: int


class NoRoom(Exception):
    """The memory that was left shrank while it was being touched."""


class TooSlow(Exception):
    """Memory could not be touched in time: the message says at what rate it was."""


def stream_kernels() -> tuple[Kernel, ...]:
    """All loops over memory of this architecture; for one operation the widest come last."""
    return tuple(_described(lib.nc_stream_describe))


def decode_kernels() -> tuple[Kernel, ...]:
    """All matrix-vector products; for one weight type the engines' first choice comes first."""
    return tuple(_described(lib.nc_decode_describe))


def _described(describe: Callable[[int, Any], bool]) -> Iterator[Kernel]:
    out = ffi.new("nc_kernel_description *")
    index = 0
    while describe(index, out):
        operation, isa, variant = map(text, (out.operation, out.isa, out.variant))
        yield Kernel(index, operation, isa, variant, bool(out.usable))
        index += 1


class Arena:
    """Memory of threads, one a CPU: a source that stays as it is and a destination to write to."""

    def __init__(
        self,
        cpus: Sequence[int],
        source_bytes: int,
        destination_bytes: int = 0,
        *,
        huge_pages: bool = True,
    ) -> None:
        """Map it; nothing is there before it is touched. OSError where it cannot be had.

        Without `huge_pages` it lies in the pages that the system gives any program.
        """
        if not cpus or min(cpus) < 0:
            raise ValueError("cpus must name at least one CPU, none negative")
        if not HUGE_PAGE_BYTES <= source_bytes <= LARGEST_BYTES:
            raise ValueError("source_bytes must be at least 2 MiB, at most 1 PiB")
        if not 0 <= destination_bytes <= LARGEST_BYTES:
            raise ValueError("destination_bytes must be at most 1 PiB")
        self.cpus = tuple(cpus)
        self.source_bytes = source_bytes // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
        self.destination_bytes = destination_bytes // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
        self._cpus = ffi.new("int[]", self.cpus)
        out = ffi.new("nc_arena **")
        code = lib.nc_arena_new(
            self._cpus, len(cpus), self.source_bytes, self.destination_bytes, huge_pages, out
        )
        check(code, "cannot map memory")
        self._memory = ffi.gc(out[0], lib.nc_arena_free)
        self._closed = False

    def touch(
        self,
        *,
        home_cpus: Sequence[int] | None = None,
        has_room: Callable[[int], bool] = lambda _: True,
        least_bytes: int = HUGE_PAGE_BYTES,
        enough_after: float = math.inf,
        too_late_after: float = math.inf,
    ) -> float:
        """Touch it step by step, and give the bytes a second of all threads together.

        `home_cpus`, one for each CPU, touch it instead: they decide its NUMA node. `has_room` is
        asked before every step, with the bytes still to come: NoRoom where it says no. A host that
        backs memory only now takes seconds a GiB: `enough_after` a time (monotonic) sources are
        left with what has been touched, if that is `least_bytes`; TooSlow after `too_late_after`.
        """
        homes = tuple(home_cpus or self.cpus)
        if len(homes) != len(self.cpus):
            raise ValueError("home_cpus must be as many as cpus")
        cpus = ffi.new("int[]", homes)
        whole = self.source_bytes + self.destination_bytes
        began = time.monotonic()
        done = 0
        for start, end in _steps(self.source_bytes, whole):
            now = time.monotonic()
            if now > enough_after and start >= least_bytes and start < self.source_bytes:
                lib.nc_arena_shrink(self.handle, start)
                self.source_bytes = start
                break
            if now > too_late_after:
                raise TooSlow(f"memory is touched at {done / (now - began) / GB:.2f} GB/s")
            if not has_room(whole * len(self.cpus) - done):
                raise NoRoom
            group = ffi.new("nc_group *")
            code = lib.nc_arena_touch(self.handle, cpus, start, end, group)
            _check_group(code, group)
            done += (end - start) * len(self.cpus)
        return done / max(time.monotonic() - began, 1e-9)

    def close(self) -> None:
        """Give the memory back."""
        self._closed = True
        ffi.release(self._memory)

    @property
    def handle(self) -> Any:
        """The C arena, while it is there."""
        if self._closed:
            raise ValueError("the arena is closed")
        return self._memory

    @property
    def huge_page_bytes(self) -> int:
        """Bytes of it that lie in 2 MiB pages; -1 where the kernel does not tell."""
        return int(lib.nc_arena_huge_page_bytes(self.handle))

    def stream(
        self,
        kernel: Kernel,
        passes: int,
        *,
        window_bytes: int = WINDOW_BYTES,
        first_window: int = 0,
        omit_bytes: int = 0,
    ) -> Group:
        """Passes of one loop, each over the next window of every thread's memory.

        OSError where the loop did not do all that it should have, or cannot run here; `omit_bytes`
        of each window are left out, so that a test sees that.
        """
        if window_bytes < SMALL_PAGE_BYTES or window_bytes % SMALL_PAGE_BYTES:
            raise ValueError("window_bytes must be whole 4 KiB pages")
        request = {
            "kernel": kernel.index,
            "cpus": self._cpus,
            "window_bytes": window_bytes,
            "first_window": first_window,
            "omit_bytes": omit_bytes,
        }
        c_request = ffi.new("nc_stream_request *", request)
        return _run(lambda group: lib.nc_stream_run(self.handle, c_request, group), passes)

    def chain(self) -> Chain:
        """The lines of the first destination, linked to one random cycle."""
        return Chain(self, self._cpus)

    def decode(
        self, kernel: Kernel, columns: int, *, resident: bool, window_bytes: int | None = None
    ) -> Product:
        """A matrix of one weight type, filled at random, for every thread.

        A `resident` one lies in the destination; another takes the place of the source, which no
        loop can read after that, and a thread uses up the next `window_bytes` (64 MiB) of it in a
        pass. The last 2 MiB of the destination hold the vector. OSError where products differ from
        plain ones, or the kernel cannot run here.
        """
        window = RESIDENT_BYTES if resident else window_bytes or WINDOW_BYTES
        return Product(self, self._cpus, kernel, columns, window, resident=resident)


def _steps(source_bytes: int, whole_bytes: int) -> Iterator[tuple[int, int]]:
    """Start and end of each step of touching: the destination first, a source may be cut short."""
    for first, last in ((source_bytes, whole_bytes), (0, source_bytes)):
        for start in range(first, last, TOUCH_STEP_BYTES):
            yield start, min(start + TOUCH_STEP_BYTES, last)


class Product:
    """The matrices of an arena's threads, to be multiplied with a vector each."""

    def __init__(
        self,
        arena: Arena,
        cpus: Any,
        kernel: Kernel,
        columns: int,
        window_bytes: int,
        *,
        resident: bool,
    ) -> None:
        self._arena = arena
        self._request = ffi.new(
            "nc_decode_request *",
            {
                "kernel": kernel.index,
                "cpus": cpus,
                "columns": columns,
                "window_bytes": window_bytes,
                "resident": resident,
                "repeats": 1,
            },
        )
        self._keep = cpus
        group = ffi.new("nc_group *")
        _check_group(lib.nc_decode_fill(arena.handle, self._request, group), group)

    def run(self, passes: int, *, first_window: int = 0, repeats: int = 1) -> Group:
        """Products of all rows of a window; a resident one `repeats` times over in a pass."""
        if repeats < 1:
            raise ValueError("repeats must be at least 1")
        self._request.first_window = first_window
        self._request.repeats = repeats
        return _run(
            lambda group: lib.nc_decode_run(self._arena.handle, self._request, group), passes
        )


class Chain:
    """Lines of an arena's memory of which each tells where the next one is."""

    def __init__(self, arena: Arena, cpus: Any) -> None:
        self._arena = arena
        self._cpus = cpus
        group = ffi.new("nc_group *")
        self.spread_bytes = int(lib.nc_latency_link(arena.handle, cpus, group))
        _check_group(0 if self.spread_bytes else errno.ENOMEM, group)
        self._at = ffi.new("uint64_t *")

    def follow(self, reader: Kernel, *, loads: int, passes: int) -> Group:
        """`loads` a pass by the first CPU; the others read their sources with `reader` meanwhile.

        The bytes of the passes are those that the others read.
        """
        request = {"cpus": self._cpus, "loads": loads, "reader": reader.index}
        c_request = ffi.new("nc_latency_request *", request)
        return _run(
            lambda group: lib.nc_latency_run(self._arena.handle, c_request, group, self._at), passes
        )


def ping_pong(first: int, second: int, passes: int = 9) -> tuple[float, ...]:
    """Seconds that a cache line takes from one CPU to another and back, one figure a pass.

    OSError where the two are one, or cannot be had.
    """
    cpus = ffi.new("int[2]", [first, second])
    made = _run(lambda group: lib.nc_ping_pong(cpus, group), passes)
    return tuple(each.seconds for each in made.passes)


def stream_once(
    kernel: Kernel, source: bytes, second_source: bytes, value: int = 0
) -> tuple[int, bytes]:
    """The sum that a loop returns, and what it leaves in its destination, on arrays of any content.

    ValueError where the loop cannot run here, or the size is no whole number of its iterations.
    """
    arrays = [_aligned(data) for data in (source, second_source, bytes(len(source)))]
    out = ffi.new("uint64_t *", value)
    if not lib.nc_stream_once(kernel.index, *(start for _, start in arrays), len(source), out):
        raise ValueError(f"{kernel.name} cannot take {len(source)} bytes here")
    return int(out[0]), bytes(ffi.buffer(arrays[2][1], len(source)))


def _aligned(data: bytes) -> tuple[Any, Any]:
    owner = ffi.new("char[]", len(data) + 64)
    start = owner + -int(ffi.cast("uintptr_t", owner)) % 64
    ffi.memmove(start, data, len(data))
    return owner, start


def _run(call: Callable[[Any], int], passes: int) -> Group:
    """After one pass that is not counted: what others left dirty in the caches is written back."""
    records = ffi.new("nc_pass[]", passes)
    group = ffi.new("nc_group *", {"warm_ups": 1, "passes": passes, "records": records})
    _check_group(call(group), group)
    delay = float(group.run_delay_seconds)
    return Group(
        passes=tuple(
            Pass(each.seconds, int(group.bytes_per_pass), each.cpu_share)
            for each in records[0:passes]
        ),
        run_delay_seconds=None if delay < 0 else delay,
        involuntary_switches=int(group.involuntary_switches),
    )


def _check_group(code: int, group: Any) -> None:
    if code:
        where = f" (CPU {group.failed_cpu})" if group.failed_cpu >= 0 else ""
        check(code, f"cannot {text(group.failed_step)}{where}")
