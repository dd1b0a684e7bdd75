"""Loops over memory: each moves all that it says, and is caught where it does not."""

from __future__ import annotations

import errno
import os
import random
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nodecheck._native")

from nodecheck.machine import kernels
from nodecheck.machine.kernels import Arena, Group, Kernel
from tests.machine.emulated import X86_64, under_qemu
from tests.processes import descriptors, mapped_bytes, tasks

MIB = 1 << 20
WORD_MASK = (1 << 64) - 1
CPUS = sorted(os.sched_getaffinity(0))
CPU = CPUS[0]
LANES = {"sse2": 2, "neon": 2, "avx2": 4, "avx512": 8}

USABLE = [kernel for kernel in kernels.stream_kernels() if kernel.usable]
READING = [kernel for kernel in USABLE if kernel.operation == "read"]
STORING = [kernel for kernel in USABLE if kernel.operation != "read"]
each_kernel = pytest.mark.parametrize("kernel", USABLE, ids=lambda k: f"{k.operation} {k.name}")
each_reading = pytest.mark.parametrize("kernel", READING, ids=lambda k: k.name)
each_storing = pytest.mark.parametrize("kernel", STORING, ids=lambda k: f"{k.operation} {k.name}")


def iteration_bytes(kernel: Kernel) -> int:
    """Four vectors."""
    return 4 * 8 * LANES[kernel.isa]


def touched(cpus: list[int], source: int = 4 * MIB, destination: int = 4 * MIB) -> Arena:
    arena = Arena(cpus, source, destination)
    arena.touch()
    return arena


def usable(operation: str) -> Kernel:
    return next(kernel for kernel in USABLE if kernel.operation == operation)


def doubles(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"{len(data) // 8}d", data)


# --- one loop on any content ---


def test_each_operation_is_there_in_each_instruction_set_of_the_cpu() -> None:
    flags = Path("/proc/cpuinfo").read_text().split()
    wider = {"avx2": "avx2", "avx512": "avx512vl"} if X86_64 else {}
    sets = {"sse2" if X86_64 else "neon"} | {isa for isa, flag in wider.items() if flag in flags}
    assert {(k.operation, k.isa) for k in USABLE} == {
        (operation, isa) for operation in ("read", "write", "copy", "triad") for isa in sets
    }


def test_names_tell_variants_apart() -> None:
    names = [(kernel.operation, kernel.name) for kernel in kernels.stream_kernels()]
    assert len(set(names)) == len(names)
    assert usable("read").name == usable("read").isa
    assert any(name == f"{STORING[0].isa} non-temporal" for _, name in names)


@pytest.mark.parametrize("iterations", [1, 2, 3, 7, 64, 65])
@each_kernel
def test_a_loop_does_what_it_says(kernel: Kernel, iterations: int) -> None:
    numbers = random.Random(iterations)
    size = iterations * iteration_bytes(kernel)
    source, second = (
        struct.pack(f"{size // 8}d", *(numbers.uniform(-9, 9) for _ in range(size // 8)))
        for _ in range(2)
    )
    value = numbers.getrandbits(64)
    total, stored = kernels.stream_once(kernel, source, second, value)
    if kernel.operation == "read":
        assert total == sum(struct.unpack(f"{size // 8}Q", source)) & WORD_MASK
        assert stored == bytes(size)
    elif kernel.operation == "write":
        assert stored == struct.pack("Q", value) * (size // 8)
    elif kernel.operation == "copy":
        assert stored == source
    else:
        pairs = zip(doubles(source), doubles(second), strict=True)
        assert doubles(stored) == tuple(b + c / 2 for b, c in pairs)


@each_reading
def test_a_loop_reads_every_word(kernel: Kernel) -> None:
    size = 3 * iteration_bytes(kernel)
    words = [random.Random(5).getrandbits(64) for _ in range(size // 8)]
    whole = sum(words)
    for i, word in enumerate(words):
        data = struct.pack(f"{len(words)}Q", *words[:i], 0, *words[i + 1 :])
        assert kernels.stream_once(kernel, data, data)[0] == (whole - word) & WORD_MASK


@each_kernel
def test_a_loop_refuses_a_part_of_an_iteration(kernel: Kernel) -> None:
    data = bytes(iteration_bytes(kernel) + 8)
    with pytest.raises(ValueError, match="cannot take"):
        kernels.stream_once(kernel, data, data)


def test_an_unknown_loop() -> None:
    unknown = Kernel(1000, "read", "mmx", "plain", usable=True)
    with pytest.raises(ValueError, match="cannot take"):
        kernels.stream_once(unknown, bytes(512), bytes(512))
    with pytest.raises(OSError, match="run this kernel") as caught:
        touched([CPU]).stream(unknown, 1)
    assert caught.value.errno == errno.ENOTSUP


# --- passes of threads ---


@pytest.mark.parametrize("cpus", [CPUS[:1], (CPUS * 2)[:2]], ids=["one", "two"])
@each_kernel
def test_passes_account_for_their_bytes(kernel: Kernel, cpus: list[int]) -> None:
    arrays = {"read": 1, "write": 1, "copy": 2, "triad": 3}[kernel.operation]
    group = touched(cpus, 8 * MIB).stream(kernel, 5, window_bytes=2 * MIB)
    assert len(group.passes) == 5
    for each in group.passes:
        assert each.bytes == len(cpus) * arrays * 2 * MIB
        assert 0 < each.cpu_share <= 1
        assert 1e6 < each.bytes / each.seconds < 1e13
    assert group.run_delay_seconds is None or 0 <= group.run_delay_seconds < 60
    assert group.involuntary_switches >= 0


@pytest.mark.parametrize("omit_bytes", [4096, 512])
@each_kernel
def test_what_is_left_out_is_caught(kernel: Kernel, omit_bytes: int) -> None:
    with pytest.raises(OSError, match="verify what a kernel did") as caught:
        touched([CPU], 8 * MIB).stream(kernel, 2, window_bytes=MIB, omit_bytes=omit_bytes)
    assert caught.value.errno == errno.EIO


@each_storing
def test_what_another_loop_left_is_not_taken_for_this_ones_work(kernel: Kernel) -> None:
    arena = touched([CPU], 8 * MIB)
    arena.stream(kernel, 2, window_bytes=MIB)
    with pytest.raises(OSError, match="verify"):
        arena.stream(kernel, 2, window_bytes=MIB, omit_bytes=4096)


def test_a_window_is_no_larger_than_the_memory() -> None:
    arena = touched([CPU], 8 * MIB, 2 * MIB)
    sizes = {
        operation: arena.stream(usable(operation), 1).passes[0].bytes
        for operation in ("read", "write", "copy", "triad")
    }
    assert sizes == {"read": 8 * MIB, "write": 2 * MIB, "copy": 4 * MIB, "triad": 6 * MIB}


def test_every_window_of_the_source_is_read_in_turn() -> None:
    arena = touched([CPU], 8 * MIB, 0)
    for first in (0, 1, 3, 4, 1000):
        arena.stream(usable("read"), 9, window_bytes=2 * MIB, first_window=first)


def test_passes_begin_where_they_are_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two windows of a source are touched, a pass that is not counted comes before each group."""
    monkeypatch.setattr(kernels, "TOUCH_STEP_BYTES", 2 * MIB)
    steps = iter([True, False])
    arena = Arena([CPU], 4 * MIB)
    with pytest.raises(kernels.NoRoom):
        arena.touch(has_room=lambda _: next(steps))
    arena.stream(usable("read"), 1, window_bytes=MIB)
    arena.stream(usable("read"), 1, window_bytes=MIB, first_window=4)  # the first again
    with pytest.raises(OSError, match="verify"):
        arena.stream(usable("read"), 1, window_bytes=MIB, first_window=1)


@pytest.mark.parametrize(("delay", "told"), [(-1.0, None), (0.0, 0.0), (0.25, 0.25)])
def test_a_delay_that_the_kernel_does_not_tell_is_not_known(
    delay: float, told: float | None
) -> None:
    def call(group: Any) -> int:
        group.run_delay_seconds = delay
        return 0

    assert kernels._run(call, 2).run_delay_seconds == told


def test_without_a_destination_nothing_is_written() -> None:
    with pytest.raises(OSError, match="run this kernel") as caught:
        touched([CPU], destination=0).stream(usable("write"), 1)
    assert caught.value.errno == errno.EINVAL


def test_a_source_stays_as_it_was_filled() -> None:
    arena = touched([CPU, CPU])
    for kernel in STORING:
        arena.stream(kernel, 3)
    arena.stream(usable("read"), 3)


def test_a_busy_neighbour_shows_in_the_cpu_share() -> None:
    hog = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{CPU}}})\nwhile 1: pass"]
    arena = touched([CPU], 64 * MIB, 0)
    with subprocess.Popen(hog) as process:
        try:
            groups = [arena.stream(usable("read"), 9) for _ in range(9)]
        finally:
            process.kill()
    assert min(each.cpu_share for group in groups for each in group.passes) < 0.9
    assert sum(group.run_delay_seconds or 0 for group in groups) > 0
    assert sum(group.involuntary_switches for group in groups) > 0


# --- what goes wrong ---


@pytest.mark.parametrize("cpus", [[4095], [CPU, 4095], [4095, CPU]])
def test_an_impossible_cpu_is_an_oserror(cpus: list[int]) -> None:
    with pytest.raises(OSError, match=r"pin a thread \(CPU 4095\)") as caught:
        touched(cpus)
    assert caught.value.errno == errno.EINVAL


def test_memory_that_cannot_be_had_is_an_oserror() -> None:
    with pytest.raises(OSError, match="map memory") as caught:
        Arena([CPU, CPU], 1 << 50)
    assert caught.value.errno == errno.ENOMEM


@pytest.mark.parametrize("bytes_", [0, 1, 5000, -4096])
def test_a_window_is_whole_pages(bytes_: int) -> None:
    arena = Arena([CPU], 4 * MIB)
    arena.touch()
    with pytest.raises(ValueError, match="whole 4 KiB"):
        arena.stream(kernels.stream_kernels()[0], 1, window_bytes=bytes_)


def test_an_arena_that_is_closed_is_told_not_read() -> None:
    arena = Arena([CPU], 2 * MIB, 4 * MIB)
    arena.touch()
    product = arena.decode(kernels.decode_kernels()[-1], 1024, resident=True)
    arena.close()
    for use in (lambda: arena.huge_page_bytes, arena.touch, arena.chain, lambda: product.run(1)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_homes_are_as_many_as_cpus() -> None:
    with pytest.raises(ValueError, match="as many"):
        Arena([CPU, CPU], 2 * MIB).touch(home_cpus=[CPU])


@pytest.mark.parametrize(
    ("cpus", "size"), [([], 4 * MIB), ([-1], 4 * MIB), ([0], MIB), ([0], 1 << 63)]
)
def test_wrong_use_is_a_valueerror(cpus: list[int], size: int) -> None:
    with pytest.raises(ValueError, match="must"):
        Arena(cpus, size)


def measure_and_fail() -> None:
    arena = touched([CPU, CPU], 4 * MIB, 8 * MIB)
    arena.stream(usable("copy"), 1)
    arena.chain().follow(usable("read"), loads=10, passes=1)
    arena.decode(kernels.decode_kernels()[-1], 1024, resident=True).run(1)
    with pytest.raises(OSError, match="pin"):
        touched([CPU, 4095], 2 * MIB, 0)
    arena.close()


def test_measuring_leaves_nothing_behind() -> None:
    for _ in range(5):
        measure_and_fail()
    before = descriptors(), tasks()
    mapped_before = mapped_bytes()
    for _ in range(30):
        measure_and_fail()
    assert (descriptors(), tasks()) == before
    assert mapped_bytes() - mapped_before < 30 * 2 * MIB


def test_the_caller_stays_unpinned_and_python_goes_on_meanwhile() -> None:
    affinity = os.sched_getaffinity(0)
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.002):
            ticks += 1

    arena = touched([CPU], 64 * MIB, 0)
    ticker = threading.Thread(target=tick)
    ticker.start()
    groups: list[Group] = []
    while ticks <= 5 and len(groups) < 1000:
        groups.append(arena.stream(usable("read"), 9))
    done.set()
    ticker.join()
    assert os.sched_getaffinity(0) == affinity
    assert ticks > 5


# --- other CPUs, by emulation ---


@pytest.mark.parametrize(
    ("model", "sets"),
    [("kvm64", ["sse2"]), ("Nehalem", ["sse2"]), ("Haswell", ["avx2", "sse2"])],
)
def test_loops_suit_the_emulated_cpu(model: str, sets: list[str]) -> None:
    found = "sorted({k.isa for k in kernels.stream_kernels() if k.usable})"
    assert under_qemu(model, "kernels", found) == sets


def test_kvm64_refuses_the_wide_loops() -> None:
    once = (
        "[kernels.lib.nc_stream_once(k.index, *[kernels._aligned(bytes(512))[1]] * 3, 512, "
        "kernels.ffi.new('uint64_t *')) for k in kernels.stream_kernels() if k.isa != 'sse2']"
    )
    refused = under_qemu("kvm64", "kernels", once)
    assert isinstance(refused, list)
    assert refused
    assert not any(refused)
