"""Which CPUs measure what: up to half of them one a core, and never more than is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram import plan
from nodecheck.checks.dram.plan import STREAMS, Block
from nodecheck.machine.reader import Reader
from tests.checks.live_tree import live_tree
from tests.trees import Tree


@pytest.mark.parametrize(
    ("cpus", "budget", "counts"),
    [
        (1, None, (1,)),
        (2, None, (1, 2)),
        (7, None, (1, 7)),
        (8, None, (1, 4, 8)),
        (96, 7, (1, 7)),
        (96, None, (1, 48, 96)),
        (4, 9, (1, 4)),
        (4, 0, (1, 4)),
    ],
)
def test_threads_of_a_report(cpus: int, budget: int | None, counts: tuple[int, ...]) -> None:
    assert plan.report_threads(cpus, budget) == counts


@pytest.mark.parametrize(
    ("cpus", "cores", "budget", "counts"),
    [
        (1, 1, None, (1,)),
        (2, 1, None, (1, 2)),
        (2, 2, None, (1, 2)),
        (8, 8, None, (1, 2, 4, 8)),
        (12, 6, None, (1, 2, 4, 6, 8, 12)),
        (12, 12, None, (1, 2, 4, 8, 12)),
        (96, 48, None, (1, 2, 4, 8, 16, 32, 48, 64, 96)),
        (96, 48, 5, (1, 2, 4, 5)),
        (4, 2, 1, (1,)),
        (3, 3, 100, (1, 2, 3)),
    ],
)
def test_threads_of_a_sweep(
    cpus: int, cores: int, budget: int | None, counts: tuple[int, ...]
) -> None:
    assert plan.sweep_threads(cpus, cores, budget) == counts


def siblings(pairs: dict[int, str]) -> Tree:
    root = "sys/devices/system/cpu"
    return {f"{root}/cpu{c}/topology/thread_siblings_list": f"{s}\n" for c, s in pairs.items()}


@pytest.mark.parametrize(
    "pairs",
    [
        {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"},
        {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"},
    ],
)
def test_half_of_the_threads_are_one_a_core(tmp_path: Path, pairs: dict[int, str]) -> None:
    reader = Reader(live_tree(siblings(pairs), tmp_path / "node"), "dram")
    cpus = plan.by_core(reader, (0, 1, 2, 3))
    chosen = plan.spread(cpus, 2)
    assert len({pairs[cpu] for cpu in chosen}) == 2
    assert plan.spread(cpus, 4) == cpus


def test_a_sibling_that_is_not_ours_does_not_count(tmp_path: Path) -> None:
    tree = siblings({1: "0-1", 3: "2-3", 4: "4-5", 5: "4-5"})
    reader = Reader(live_tree(tree, tmp_path / "node"), "dram")
    assert plan.sibling_ranks(reader, (1, 3, 4, 5)) == {1: 0, 3: 0, 4: 0, 5: 1}
    assert plan.by_core(reader, (5, 4, 3, 1)) == (1, 3, 4, 5)


@pytest.mark.parametrize("text", ["", "x", "9-8", "0-99999999"])
def test_siblings_that_are_not_told_are_cores(tmp_path: Path, text: str) -> None:
    reader = Reader(live_tree(siblings({0: text, 1: text}), tmp_path / "node"), "dram")
    assert plan.sibling_ranks(reader, (0, 1)) == {0: 0, 1: 0}
    assert reader.gaps == []


@given(st.lists(st.integers(0, 4095), unique=True, min_size=1, max_size=300), st.data())
def test_a_spread_is_of_distinct_cpus(cpus: list[int], data: st.DataObject) -> None:
    threads = data.draw(st.integers(1, len(cpus)))
    chosen = plan.spread(tuple(cpus), threads)
    assert len(set(chosen)) == threads
    assert set(chosen) <= set(cpus)
    if threads <= (len(cpus) + 1) // 2:
        assert set(chosen) <= set(cpus[: (len(cpus) + 1) // 2])


@pytest.mark.parametrize(
    ("block", "share"),
    [
        (Block(cpus=(0,), seconds=1.0, streams=("read",)), 0.0),
        (Block(cpus=(0,), seconds=1.0, streams=("read",), decode=True), 0.0),
        (Block(cpus=(0,), seconds=1.0, streams=STREAMS), 0.5),
        (Block(cpus=(0,), seconds=1.0, streams=("read",), decode_dram=("q4_k",)), 0.0),
        (Block(cpus=(0,), seconds=1.0, latency=True), 1.0),
    ],
)
def test_what_is_written_to_takes_memory_too(block: Block, share: float) -> None:
    assert block.destination_share == share
