"""Threads on one NUMA node, memory or a card on another."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.model import Measurement
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    HEALTHY,
    ON_CARD,
    REMOTE,
    gpu,
    ids,
    judged,
    node,
    threads,
    two_nodes,
    with_process,
)


def rate(cpu_node: int, memory_node: int, gigabytes: float) -> Measurement:
    return Measurement(
        name="dram_read",
        kernel="avx2",
        threads=8,
        median_bytes_per_second=gigabytes * 1e9,
        cpu_node=cpu_node,
        memory_node=memory_node,
    )


def test_the_weights_were_cached_on_the_other_socket() -> None:
    measured = (rate(0, 0, 100), rate(0, 1, 40))
    [found] = judged(node(REMOTE, numa=two_nodes(), measurements=measured))
    assert found.id == "engine.remote_memory"
    assert (
        found.summary
        == "4 GiB of its 4.2 GiB of memory are not on node 0, where its threads compute"
    )
    assert found.headline == "94 % of its memory is on another NUMA node than its threads"
    assert found.evidence[0].value == ("node 0: 256 MiB, node 1: 4 GiB; its threads run on node 0")
    assert "40 GB/s against 100 GB/s" in found.impact
    assert found.remedy.commands == (
        "sudo sysctl -w vm.drop_caches=3",
        "numactl --cpunodebind=0 --membind=0 llama-server --numa numactl",
    )


def test_what_one_node_does_not_hold_is_spread() -> None:
    [found] = judged(node(REMOTE, numa=two_nodes(memory=4 * GIB)))
    assert found.remedy.commands == ("llama-server --numa distribute",)


@pytest.mark.parametrize(("far", "raised"), [(1.0, False), (1.1, True)])
def test_interleaved_memory_is_meant(far: float, raised: bool) -> None:
    made = with_process(HEALTHY, numa_bytes={0: 4 * GIB, 1: int(far * 4 * GIB)})
    assert bool(judged(node(made, numa=two_nodes()))) is raised


def test_threads_on_both_nodes_have_no_other() -> None:
    made = replace(REMOTE, threads=tuple(threads(12, 0.9, 0.0)))
    assert ids(node(made, numa=two_nodes())) == []


@pytest.mark.parametrize(
    ("made", "facts"),
    [
        (REMOTE, {}),
        (REMOTE, {"numa": NumaFacts(nodes=two_nodes().nodes[:1])}),
        (with_process(HEALTHY, numa_bytes={0: 4 * GIB}), {"numa": NumaFacts(nodes=tuple(
            NumaNode(id=n, cpus=tuple(range(16)), memory_bytes=GIB) for n in range(2)
        ))}),  # the firmware's map is wrong
        (with_process(HEALTHY, numa_bytes=None), {"numa": two_nodes()}),
        (with_process(HEALTHY, numa_bytes={1: GIB // 2}), {"numa": two_nodes()}),  # a small one
        (replace(REMOTE, threads=tuple(replace(t, cpu=None) for t in REMOTE.threads)),
         {"numa": two_nodes()}),
        (with_process(ON_CARD, numa_bytes={1: 4 * GIB}), {"numa": two_nodes()}),
        (replace(REMOTE, threads=tuple(threads(1, 0.01))), {"numa": two_nodes()}),
    ],
)  # fmt: skip
def test_what_looks_like_it(made: EngineFacts, facts: dict[str, Any]) -> None:
    assert ids(node(made, **facts)) == []


def test_a_card_beside_which_it_may_not_run() -> None:
    made = with_process(ON_CARD, allowed_cpus=tuple(range(8)))
    [found] = judged(node(made, gpu(numa_node=1), numa=two_nodes()))
    assert found.id == "engine.remote_memory"
    assert found.summary == ("It may not use the CPUs of the NUMA node of the card that it uses")
    assert found.headline == "It may not run on the NUMA node of its card"
    assert "decode within the card does not" in found.impact
    assert "numactl --cpunodebind=1 --membind=1" in found.remedy.commands[0]


@pytest.mark.parametrize(
    ("allowed", "card"),
    [
        (tuple(range(16)), gpu(numa_node=1)),
        (None, gpu(numa_node=1)),
        (tuple(range(8)), gpu(numa_node=None)),
        (tuple(range(8)), gpu(numa_node=0)),
        (tuple(range(8)), gpu("0000:09:00.0", numa_node=1)),  # a card that it does not use
    ],
)
def test_a_card_that_it_may_run_beside(allowed: tuple[int, ...] | None, card: Any) -> None:
    made = with_process(ON_CARD, allowed_cpus=allowed)
    assert ids(node(made, card, numa=two_nodes())) == []


def test_servers_are_told_in_their_own_words() -> None:
    made = replace(with_process(ON_CARD, allowed_cpus=tuple(range(8))), engine="vllm")
    [found] = judged(node(made, gpu(numa_node=1), numa=two_nodes()))
    assert found.remedy.commands == ("vllm serve --numa-bind",)
    [found] = judged(node(replace(made, engine="sglang"), gpu(numa_node=1), numa=two_nodes()))
    assert found.remedy.commands == ("python3 -m sglang.launch_server --numa-node 1",)
