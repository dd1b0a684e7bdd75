"""NUMA nodes: what is there, what is odd, and what only looks odd."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.numa.probe import parse_mask, probe
from nodecheck.checks.numa.rules import RULES
from nodecheck.checks.seen import Facts, Seen
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Finding, Severity
from nodecheck.policy import Policy
from tests.checks.numa.examples import (
    NODES,
    ONE,
    RAISES,
    ROOT,
    SILENT,
    TWO,
    beside_a_gpu,
    node_files,
)
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]


def judge(seen: Seen) -> dict[str, Finding]:
    found = [finding for rule in RULES for finding in rule.judge(seen)]
    assert len({finding.id for finding in found}) == len(found)
    return {finding.id: finding for finding in found}


def look(host: CapturedHost) -> Seen:
    return Seen(facts=Facts(numa=probe(Reader(host, "numa"))), policy=Policy())


def test_every_node_directory_is_a_node(node: Node) -> None:
    facts = probe(Reader(node(TWO | node_files(8, "", 1024)), "numa"))
    assert [each.id for each in facts.nodes] == [0, 1, 8]
    assert facts.nodes[0].cpus == (0, 1, 2, 3)
    assert facts.nodes[0].memory_bytes == 100 << 30
    assert facts.nodes[0].distances == (10, 21)
    assert facts.nodes[2].cpus == ()
    assert facts.online == (0, 1)
    assert facts.balancing is None


def test_a_mask_stands_in_for_a_list(node: Node) -> None:
    tree: Tree = {
        f"{ROOT}/node0/cpumap": "0000,00000000,0000ffff\n",
        f"{ROOT}/node1/cpumap": "00000001,00000000\n",
        f"{ROOT}/node2/cpulist": "\n",
        f"{ROOT}/node2/cpumap": "00000000\n",
        f"{ROOT}/node3/cpulist": "",
        f"{ROOT}/node3/cpumap": "00000006\n",
    }
    nodes = probe(Reader(node(tree), "numa")).nodes
    assert [each.cpus for each in nodes] == [tuple(range(16)), (32,), (), (1, 2)]


@pytest.mark.parametrize("mask", ["", "x", "ffffffffff", "-1", "0x3", "f,", "f" * 9, b"\xff\xfe"])
def test_a_mask_that_is_none(node: Node, mask: str | bytes) -> None:
    reader = Reader(node({f"{ROOT}/node0/cpumap": mask}), "numa")
    assert probe(reader).nodes[0].cpus is None


@pytest.mark.parametrize("content", ["", "Node 0 MemTotal: x kB\n", b"\xff", "MemTotal: 5 kB\n"])
def test_missing_memory_is_not_zero(node: Node, content: str | bytes) -> None:
    tree = node_files(0, "0-3") | node_files(1, "4-7", None)
    reader = Reader(node(tree | {f"{ROOT}/node1/meminfo": content}), "numa")
    facts = probe(reader)
    assert facts.nodes[1].memory_bytes is None
    assert any("node1/meminfo" in gap.detail for gap in reader.gaps)
    assert judge(Seen(facts=Facts(numa=facts), policy=Policy())) == {}


def test_no_numa_is_a_gap(node: Node) -> None:
    reader = Reader(node({"proc/version": ""}), "numa")
    assert probe(reader) == NumaFacts()
    assert [gap.field for gap in reader.gaps] == ["nodes"]


@pytest.mark.parametrize("name", RAISES)
def test_each_example_raises_its_finding(node: Node, name: str) -> None:
    example = RAISES[name]
    assert name in judge(example if isinstance(example, Seen) else look(node(example)))


@pytest.mark.parametrize("name", SILENT)
def test_each_counterexample_does_not(node: Node, name: str) -> None:
    example = SILENT[name]
    assert name not in judge(example if isinstance(example, Seen) else look(node(example)))


def test_a_healthy_two_socket_server_is_no_fault(node: Node) -> None:
    findings = judge(look(node(TWO)))
    assert list(findings) == ["numa.multi_node"]
    assert findings["numa.multi_node"].severity is Severity.INFO
    assert "distance up to 21" in findings["numa.multi_node"].summary


def test_one_node_says_nothing(node: Node) -> None:
    assert judge(look(node(ONE))) == {}


def test_an_overlap_stands_in_place_of_several_nodes(node: Node) -> None:
    tree: Tree = {}
    for number in range(8):
        tree |= node_files(number, "0-7", 2 << 20)
    assert list(judge(look(node(tree)))) == ["numa.inconsistent"]


def test_memory_of_gpus_is_no_misconfiguration(node: Node) -> None:
    tree = node_files(0, "0-87") | node_files(8, "88-175")
    for number in range(250, 256):
        tree |= node_files(number, "", 15 << 20)
    findings = judge(look(node(tree)))
    assert set(findings) == {"numa.multi_node", "numa.cpuless"}
    assert findings["numa.cpuless"].summary.startswith("6 NUMA nodes without CPUs hold 90 GiB")


@pytest.mark.parametrize(
    ("seen", "raised"),
    [
        (beside_a_gpu(mems=(0,)), True),
        (beside_a_gpu(cpus=(0, 1, 2)), True),
        (beside_a_gpu(cpus=(0, 4)), False),
        (beside_a_gpu(gpu_node=-1, mems=(0,)), False),
        (beside_a_gpu(gpu_node=None, mems=(0,)), False),
        (beside_a_gpu(gpu_node=7, mems=(0,)), False),
        (beside_a_gpu(mems=None, cpus=None), False),
        (beside_a_gpu(mems=(0,), granted=False), False),
        (beside_a_gpu(gpu_node=0, mems=(1,), nodes=NODES[:1]), False),
        (beside_a_gpu(cpus=(0,), nodes=(NODES[0], NumaNode(id=1, cpus=()))), False),
    ],
)
def test_a_gpu_beside_which_the_process_may_not_run(seen: Seen, raised: bool) -> None:
    assert ("numa.gpu_remote" in judge(seen)) is raised


def test_balancing_matters_with_gpus_and_nodes() -> None:
    assert "numa.balancing" in judge(beside_a_gpu(balancing=True))
    assert "numa.balancing" not in judge(beside_a_gpu(balancing=True, nodes=NODES[:1]))
    without = Seen(facts=Facts(numa=NumaFacts(nodes=NODES, balancing=True)), policy=Policy())
    assert "numa.balancing" not in judge(without)


@given(st.text())
def test_any_text_is_a_mask_or_none(text: str) -> None:
    parsed = parse_mask(text)
    assert parsed is None or all(number >= 0 for number in parsed)


@given(st.sets(st.integers(0, 255)))
def test_a_mask_gives_back_its_cpus(cpus: set[int]) -> None:
    bits = sum(1 << cpu for cpu in cpus)
    words = [f"{bits >> 32 * index & 0xFFFFFFFF:08x}" for index in reversed(range(8))]
    assert parse_mask(",".join(words)) == tuple(sorted(cpus))


CPUS = st.none() | st.lists(st.integers(0, 9), max_size=4).map(tuple)
GARBAGE = st.lists(
    st.builds(
        NumaNode,
        id=st.integers(0, 5),
        cpus=CPUS,
        memory_bytes=st.none() | st.integers(0, 1 << 60),
        distances=st.lists(st.integers(0, 999), max_size=3).map(tuple),
    ),
    max_size=6,
)


@given(GARBAGE, CPUS, CPUS)
def test_no_map_breaks_a_rule(
    nodes: list[NumaNode], online: tuple[int, ...] | None, listed: tuple[int, ...] | None
) -> None:
    facts = NumaFacts(nodes=tuple(nodes), online=online, has_memory=listed, has_cpu=listed)
    found = judge(Seen(facts=Facts(numa=facts), policy=Policy()))
    assert not {"numa.multi_node", "numa.inconsistent"} <= set(found)
