"""How much memory a process may still take, whichever groups hold it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.machine import memory_limit
from nodecheck.machine.host import CapturedHost, LiveHost
from nodecheck.machine.memory_limit import available_bytes
from nodecheck.machine.reader import Reader
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
MIB = 1 << 20
FREE: Tree = {"proc/meminfo": f"MemTotal: 9999 kB\nMemAvailable:    {800 << 10} kB\n"}

V2: Tree = FREE | {
    "proc/self/cgroup": "0::/pods/engine\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/cgroup.controllers": "memory\n",
    "sys/fs/cgroup/pods/engine/memory.max": f"{512 * MIB}\n",
    "sys/fs/cgroup/pods/engine/memory.current": f"{300 * MIB}\n",
    "sys/fs/cgroup/pods/engine/memory.stat": f"anon 1\nactive_file {8 * MIB}\ninactive_file 0\n",
}
V1_GROUP = "sys/fs/cgroup/memory/job"
V1: Tree = FREE | {
    "proc/self/cgroup": "4:memory:/job\n1:name=systemd:/\n",
    "proc/self/mountinfo": "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    f"{V1_GROUP}/memory.limit_in_bytes": f"{256 * MIB}\n",
    f"{V1_GROUP}/memory.usage_in_bytes": f"{200 * MIB}\n",
    f"{V1_GROUP}/memory.stat": f"total_active_file {1 * MIB}\ntotal_inactive_file {2 * MIB}\n",
}


def available(host: CapturedHost) -> int | None:
    reader = Reader(host, "dram")
    found = available_bytes(reader)
    assert reader.gaps == []
    return found


@pytest.mark.parametrize(
    ("tree", "mib"),
    [
        (FREE, 800),
        (V2, 512 - 300 + 8),
        (V2 | {"sys/fs/cgroup/pods/engine/memory.max": "max\n"}, 800),
        (V2 | {"sys/fs/cgroup/pods/engine/memory.high": f"{400 * MIB}\n"}, 400 - 300 + 8),
        (V2 | {"sys/fs/cgroup/pods/engine/memory.current": f"{900 * MIB}\n"}, 0),
        (V2 | {"sys/fs/cgroup/pods/memory.max": f"{350 * MIB}\n",
               "sys/fs/cgroup/pods/memory.current": f"{340 * MIB}\n"}, 10),  # an ancestor
        (V2 | {"proc/meminfo": "MemAvailable: 1024 kB\n"}, 1),
        (V1, 256 - 200 + 3),
        (V1 | {f"{V1_GROUP}/memory.limit_in_bytes": "9223372036854771712\n"}, 800),
    ],
)  # fmt: skip
def test_the_least_that_node_and_groups_leave(node: Node, tree: Tree, mib: int) -> None:
    assert available(node(tree)) == mib * MIB


@pytest.mark.parametrize("text", ["", "MemTotal: 5 kB\n", "MemAvailable: x kB\n"])
def test_without_memavailable_it_is_not_known(node: Node, text: str) -> None:
    assert available(node(V2 | {"proc/meminfo": text})) is None


def test_this_machine() -> None:
    found = available_bytes(Reader(LiveHost(), "dram"))
    assert found is None or 0 <= found < 1 << 50


@given(st.integers())
def test_any_number_is_a_limit_or_none(value: int) -> None:
    limit = memory_limit._limit(str(value))
    assert limit is None or 0 < limit < 1 << 60
