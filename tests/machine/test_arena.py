"""Memory is touched step by step, and no more of it than there is room and time for."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("nodecheck._native")

from nodecheck.machine import kernels
from nodecheck.machine.kernels import TOUCH_STEP_BYTES, Arena, Kernel, NoRoom, TooSlow

MIB = 1 << 20
CPUS = sorted(os.sched_getaffinity(0))
CPU = CPUS[0]
READ, WRITE, COPY = (
    next(k for k in kernels.stream_kernels() if k.operation == operation)
    for operation in ("read", "write", "copy")
)


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def verifies(arena: Arena, kernel: Kernel = READ) -> bool:
    """Every window of it; OSError where one is wrong."""
    arena.stream(kernel, max(1, arena.source_bytes // (4 * MIB)), window_bytes=4 * MIB)
    return True


def test_sizes_are_whole_huge_pages() -> None:
    arena = Arena([CPU], 5 * MIB, 3 * MIB)
    assert (arena.source_bytes, arena.destination_bytes) == (4 * MIB, 2 * MIB)


def test_nothing_is_there_before_it_is_touched() -> None:
    before = resident_bytes()
    arena = Arena([CPU, CPU], 64 * MIB, 64 * MIB)
    assert resident_bytes() - before < 16 * MIB
    arena.touch()
    assert resident_bytes() - before > 200 * MIB
    arena.close()
    assert resident_bytes() - before < 64 * MIB


def test_what_is_not_touched_is_caught() -> None:
    with pytest.raises(OSError, match="verify"):
        Arena([CPU], 4 * MIB).stream(READ, 1)


@pytest.mark.parametrize("source", [2, 62, 64, 66, 160])
@pytest.mark.parametrize("destination", [0, 2, 130])
def test_every_byte_is_touched_once_and_room_is_asked_for_before_each_step(
    source: int, destination: int
) -> None:
    asked: list[int] = []

    def has_room(bytes_to_come: int) -> bool:
        asked.append(bytes_to_come)
        return True

    arena = Arena([CPU, CPU], source * MIB, destination * MIB)
    assert arena.touch(has_room=has_room) > 0
    assert asked[0] == 2 * (source + destination) * MIB
    steps = [before - after for before, after in pairwise([*asked, 0])]
    assert all(0 < step <= 2 * TOUCH_STEP_BYTES for step in steps)
    assert verifies(arena)
    if destination:
        assert verifies(arena, COPY)


def test_the_rate_is_that_of_all_threads_together(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([100.0, 100.0, 100.5, 102.0])  # the start, two steps, the end
    monkeypatch.setattr("nodecheck.machine.kernels.time.monotonic", lambda: next(seconds))
    assert Arena([CPU, CPU], 4 * MIB, 2 * MIB).touch() == 2 * 6 * MIB / 2.0


def test_where_room_shrinks_touching_ends() -> None:
    arena = Arena([CPU], 192 * MIB)
    answers = iter([True, False])
    before = resident_bytes()
    with pytest.raises(NoRoom):
        arena.touch(has_room=lambda _: next(answers))
    assert 32 * MIB < resident_bytes() - before < 128 * MIB


def test_after_enough_time_a_shorter_source_is_left_that_still_verifies() -> None:
    arena = Arena([CPU], 256 * MIB, 64 * MIB)
    arena.touch(enough_after=time.monotonic() - 1, least_bytes=100 * MIB)
    assert arena.source_bytes == 128 * MIB
    assert verifies(arena)
    assert verifies(arena, COPY)
    assert arena.stream(READ, 1, window_bytes=1 << 40).passes[0].bytes == 128 * MIB
    assert arena.stream(WRITE, 1).passes[0].bytes == 64 * MIB


def test_a_source_that_is_not_beyond_the_caches_yet_is_not_cut() -> None:
    arena = Arena([CPU], 128 * MIB)
    arena.touch(enough_after=time.monotonic() - 1, least_bytes=128 * MIB)
    assert arena.source_bytes == 128 * MIB
    assert verifies(arena)


def test_touching_that_takes_too_long_ends_and_says_how_slow_it_was() -> None:
    def has_room(_: int) -> bool:
        time.sleep(0.05)
        return True

    arena = Arena([CPU], 640 * MIB)
    with pytest.raises(TooSlow, match=r"touched at \d+\.\d\d GB/s"):
        arena.touch(has_room=has_room, too_late_after=time.monotonic() + 0.02)


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_memory_is_touched_where_it_is_to_lie() -> None:
    """The thread that touches runs on the home CPU: one that cannot be had shows it."""
    arena = Arena([CPU], 4 * MIB)
    with pytest.raises(OSError, match=r"pin a thread \(CPU 4095\)"):
        arena.touch(home_cpus=[4095])
    arena.touch(home_cpus=[CPUS[1]])
    assert verifies(arena)


def test_huge_pages_are_counted_where_the_kernel_gives_them() -> None:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("transparent huge pages are off here")
    arena = Arena([CPU, CPU], 32 * MIB, 32 * MIB)
    arena.touch()
    if arena.huge_page_bytes == 0:
        pytest.skip("the kernel had no huge page to give")
    assert arena.huge_page_bytes % (2 * MIB) == 0
    assert arena.huge_page_bytes <= 128 * MIB


def test_small_pages_where_they_are_asked_for() -> None:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[madvise]" not in enabled.read_text():
        pytest.skip("here the kernel gives huge pages to all or to none")
    arena = Arena([CPU], 32 * MIB, huge_pages=False)
    arena.touch()
    assert arena.huge_page_bytes in (0, -1)
