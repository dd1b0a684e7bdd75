"""Buffers lie beyond the caches and within what memory is free, or nothing is measured."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram import buffers, caches
from nodecheck.checks.dram.buffers import Buffers
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.units import MIB
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
GIB = 1 << 30


def plan(
    threads: int,
    *,
    share: int,
    total: int | None = None,
    available: int = 256 * GIB,
    guest: bool = False,
    destination: float = 0.0,
) -> Buffers | None:
    return buffers.plan(
        threads=threads,
        cache_share_bytes=share,
        cache_total_bytes=share * threads if total is None else total,
        available_bytes=available,
        guest=guest,
        destination_share=destination,
    )


@pytest.mark.parametrize(
    ("found", "size", "undersized"),
    [
        (plan(1, share=32 * MIB), 256 * MIB, False),
        (plan(1, share=96 * MIB), 384 * MIB, False),
        (plan(1, share=16 * MIB, guest=True), 512 * MIB, False),  # it may be told any size
        (plan(8, share=16 * MIB, guest=True), 256 * MIB, False),
        (plan(8, share=4 * MIB, available=4 * GIB), 128 * MIB, False),
        (plan(64, share=4 * MIB), 32 * MIB, False),  # 2 GiB in all
        (plan(192, share=12 * MIB), 48 * MIB, False),  # all caches together are above 2 GiB
        (plan(4, share=32 * MIB, available=GIB), 64 * MIB, True),
    ],
)
def test_sizes(found: Buffers | None, size: int, undersized: bool) -> None:
    assert found is not None
    assert (found.source_bytes, found.undersized) == (size, undersized)
    assert found.destination_bytes == 0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (plan(1, share=32 * MIB, destination=0.5), Buffers(256 * MIB, 128 * MIB, 64 * MIB, False)),
        (plan(1, share=32 * MIB, destination=1.0), Buffers(256 * MIB, 256 * MIB, 64 * MIB, False)),
        # 256 MiB in all: two parts of three are the source
        (
            plan(1, share=20 * MIB, available=GIB, destination=0.5),
            Buffers(168 * MIB, 84 * MIB, 40 * MIB, False),
        ),
        (plan(1, share=0), Buffers(256 * MIB, 0, 4 * MIB, False)),
    ],
)
def test_a_destination_takes_its_share(found: Buffers | None, expected: Buffers) -> None:
    assert found == expected


def test_memory_for_less_than_twice_the_cache_measures_nothing() -> None:
    assert plan(4, share=32 * MIB, available=GIB - 32 * MIB) is None
    assert plan(1, share=0, available=MIB) is None


SIZES = st.integers(0, 1 << 40)


@given(
    st.integers(1, 4096),
    st.integers(0, GIB),
    SIZES,
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_no_plan_takes_more_than_a_quarter(
    threads: int, share: int, available: int, guest: bool, destination: float
) -> None:
    found = plan(threads, share=share, available=available, guest=guest, destination=destination)
    if found is not None:
        assert (found.source_bytes + found.destination_bytes) * threads <= available / 4
        assert found.source_bytes >= found.least_bytes >= 2 * share
        assert found.source_bytes % (2 * MIB) == found.destination_bytes % (2 * MIB) == 0
        assert found.destination_bytes == destination * found.source_bytes
        assert found.undersized is (found.source_bytes < 4 * share)


def cache(cpu: int, level: int, size: str, shared: str, kind: str = "Unified") -> Tree:
    root = f"sys/devices/system/cpu/cpu{cpu}/cache/index{level}"
    return {
        f"{root}/level": f"{level}\n",
        f"{root}/type": f"{kind}\n",
        f"{root}/size": f"{size}\n",
        f"{root}/shared_cpu_list": f"{shared}\n",
    }


def test_each_last_level_cache_counts_once(node: Node) -> None:
    tree: Tree = {}
    for cpu in range(4):
        tree |= cache(cpu, 1, "32K", str(cpu), "Data")
        tree |= cache(cpu, 2, "1024K", str(cpu))
        tree |= cache(cpu, 3, "32M", "0-1" if cpu < 2 else "2-3,64")
    found = caches.read(Reader(node(tree), "dram"), (0, 1, 2, 3))
    assert found.known
    assert found.total_bytes == 64 * MIB
    assert found.share_bytes((0,)) == 32 * MIB
    assert found.share_bytes((0, 2)) == 32 * MIB
    assert found.share_bytes((0, 1, 2, 3)) == 16 * MIB


@pytest.mark.parametrize("size", ["", "x", "-1K", "Unknown", "0K", "99999999999999G"])
def test_without_a_size_one_is_assumed(node: Node, size: str) -> None:
    found = caches.read(Reader(node(cache(0, 3, size, "0")), "dram"), (0,))
    assert not found.known
    assert found.total_bytes == caches.UNKNOWN_BYTES


def test_cpuid_tells_where_sysfs_does_not(node: Node) -> None:
    # 16 ways, 64 B lines, 32768 sets, unified, level 3
    leaf = '{"8000001d.3": [355, 62914623, 32767, 0], "4.0": [33, 0, 0, 0]}'
    found = caches.read(Reader(node({"cpuid.json": leaf}), "dram"), (0, 1))
    assert found.known
    assert found.total_bytes == 32 * MIB
    assert found.share_bytes((0, 1)) == 16 * MIB
