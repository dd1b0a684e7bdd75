"""A node has room for what lies beyond its caches and within a quarter of its free memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodecheck.checks.dram.caches import Cache, Caches
from nodecheck.checks.dram.plan import STREAMS, Block
from nodecheck.checks.dram.room import SCRATCH_BYTES, Room
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.seen import Facts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.machine.reader import Reader
from nodecheck.units import GIB, MIB
from tests.checks.live_tree import live_tree

READ = Block(cpus=(0, 1), seconds=1.0, streams=("read",))


def room(available: int, *, cpus: int = 2, cache: int = 32 * MIB, known: bool = True) -> Room:
    numbers = tuple(range(cpus))
    caches = Caches((Cache(cache, frozenset(numbers)),), known=known)
    return Room(numbers, available, caches, guest=False)


def of(directory: Path, facts: Facts) -> Room | str:
    return Room.of(Reader(live_tree({"proc/version": ""}, directory), "dram"), facts)


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        (Facts(), "the usable CPUs are"),
        (Facts(limits=LimitsFacts(usable_cpus=())), "the usable CPUs are"),
        (Facts(limits=LimitsFacts(usable_cpus=(0,))), "MemAvailable is"),
    ],
)
def test_what_is_not_known_is_said(tmp_path: Path, facts: Facts, missing: str) -> None:
    assert of(tmp_path / "node", facts) == f"{missing} not known"


@pytest.mark.parametrize(("headroom", "available"), [(None, 8), (3, 3), (9, 8)])
def test_the_groups_bound_what_is_free(
    tmp_path: Path, headroom: int | None, available: int
) -> None:
    facts = Facts(
        limits=LimitsFacts(usable_cpus=(0, 1), memory_headroom_bytes=headroom and headroom * GIB),
        memory=MemoryFacts(available_bytes=8 * GIB),
    )
    found = of(tmp_path / "node", facts)
    assert isinstance(found, Room)
    assert found.available_bytes == available * GIB


@pytest.mark.parametrize(("guest", "careful"), [(True, True), (None, True), (False, False)])
def test_who_may_be_a_guest_is_told_no_cache_size(
    tmp_path: Path, guest: bool | None, careful: bool
) -> None:
    facts = Facts(
        virt=VirtFacts(guest=guest),
        limits=LimitsFacts(usable_cpus=(0,)),
        memory=MemoryFacts(available_bytes=8 * GIB),
    )
    found = of(tmp_path / "node", facts)
    assert isinstance(found, Room)
    assert found.guest is careful


def test_a_block_with_room() -> None:
    free = room(64 * GIB)
    block = free.sized(READ)
    assert block is not None
    assert (block.source_bytes, block.destination_bytes) == (256 * MIB, 0)
    assert (block.least_bytes, block.undersized) == (32 * MIB, False)
    assert free.warnings == []


def test_memory_that_allows_little_is_said_to_be_little() -> None:
    block = room(320 * MIB).sized(READ)
    assert block is not None
    assert block.undersized


def test_memory_that_allows_less_than_twice_the_cache_is_said_plainly() -> None:
    full = room(200 * MIB)
    assert full.sized(READ) is None
    [warning] = full.warnings
    assert warning == (
        "not measurable on 2 threads: a quarter of the available 200 MiB is less than twice their "
        "caches (16 MiB each)"
    )


def test_an_assumed_cache_is_said_to_be_assumed() -> None:
    assert room(GIB, known=False).warnings == [
        "size of the last level cache not known, 64 MiB assumed"
    ]


def test_weights_in_the_caches_need_a_little_memory_too() -> None:
    block = room(64 * GIB).sized(Block(cpus=(0, 1), seconds=1.0, streams=("read",), decode=True))
    assert block is not None
    assert block.destination_bytes == SCRATCH_BYTES


WANTED = st.builds(
    Block,
    cpus=st.integers(1, 256).map(lambda count: tuple(range(count))),
    seconds=st.just(1.0),
    streams=st.sampled_from([(), ("read",), STREAMS]),
    decode=st.booleans(),
    decode_dram=st.sampled_from([(), ("q4_k",)]),
    latency=st.booleans(),
)


@given(WANTED, st.integers(0, 1 << 38) | st.integers(0, GIB), st.integers(0, GIB))
@example(Block(cpus=(0, 1), seconds=1.0, streams=("read",), decode=True), 512 * MIB, MIB)
def test_no_block_takes_more_than_a_quarter(wanted: Block, available: int, cache: int) -> None:
    threads = len(wanted.cpus)
    block = room(available, cpus=threads, cache=cache).sized(wanted)
    if block is not None:
        assert threads * (block.source_bytes + block.destination_bytes) <= available / 4
