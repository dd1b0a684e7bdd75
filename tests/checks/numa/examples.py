"""Inputs that raise each finding of this subject, and inputs that do not."""

from __future__ import annotations

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.seen import Facts, Seen
from nodecheck.policy import Policy
from tests.trees import Tree

ROOT = "sys/devices/system/node"


def node_files(
    number: int, cpus: str, kib: int | None = 100 << 20, distance: str = "10 21"
) -> Tree:
    files: Tree = {
        f"{ROOT}/node{number}/cpulist": f"{cpus}\n",
        f"{ROOT}/node{number}/distance": f"{distance}\n",
    }
    if kib is not None:
        files[f"{ROOT}/node{number}/meminfo"] = (
            f"Node {number} MemTotal:       {kib} kB\nNode {number} MemFree:        1000 kB\n"
        )
    return files


ONE: Tree = node_files(0, "0-7", distance="10") | {f"{ROOT}/online": "0\n"}
TWO: Tree = node_files(0, "0-3") | node_files(1, "4-7") | {f"{ROOT}/online": "0-1\n"}

NODES = (
    NumaNode(id=0, cpus=(0, 1, 2, 3), memory_bytes=1 << 36, distances=(10, 21)),
    NumaNode(id=1, cpus=(4, 5, 6, 7), memory_bytes=1 << 36, distances=(21, 10)),
)


def beside_a_gpu(
    *,
    gpu_node: int | None = 1,
    mems: tuple[int, ...] | None = (0, 1),
    cpus: tuple[int, ...] | None = (0, 1, 2, 3, 4, 5, 6, 7),
    granted: bool | None = True,
    balancing: bool = False,
    nodes: tuple[NumaNode, ...] = NODES,
) -> Seen:
    """A process and a GPU on a node of two sockets."""
    gpu = Gpu(name="a card", pci_address="0000:41:00.0", numa_node=gpu_node, granted=granted)
    facts = Facts(
        gpus=(gpu,),
        limits=LimitsFacts(mems_allowed=mems, usable_cpus=cpus),
        numa=NumaFacts(nodes=nodes, balancing=balancing),
    )
    return Seen(facts=facts, policy=Policy())


RAISES: dict[str, Tree | Seen] = {
    "numa.multi_node": TWO,
    "numa.inconsistent": node_files(0, "0-4") | node_files(1, "4-7"),
    "numa.memoryless": node_files(0, "0-3") | node_files(1, "4-7", 0),
    "numa.cpuless": node_files(0, "0-7") | node_files(8, ""),
    "numa.gpu_remote": beside_a_gpu(mems=(0,)),
    "numa.balancing": beside_a_gpu(balancing=True),
    "numa.node_offline": TWO | {f"{ROOT}/online": "0\n", f"{ROOT}/has_memory": "0-1\n"},
}
SILENT: dict[str, Tree | Seen] = {
    "numa.multi_node": ONE,
    "numa.inconsistent": TWO,
    "numa.memoryless": node_files(0, "0-3") | node_files(1, "4-7", None),
    "numa.cpuless": TWO,
    "numa.gpu_remote": beside_a_gpu(),
    "numa.balancing": beside_a_gpu(),
    "numa.node_offline": TWO | {f"{ROOT}/has_memory": "0-1\n", f"{ROOT}/possible": "0-7\n"},
}
