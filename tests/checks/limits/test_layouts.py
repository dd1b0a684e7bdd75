"""Where captures and distributions keep a group's files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodecheck.checks.limits.probe import probe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from tests.trees import Tree


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct", "cpuacct,cpu"])
@pytest.mark.parametrize("group", ["3:cpu:/", "4:cpu,cpuacct:/docker/abc"])
@pytest.mark.parametrize(
    "mounts",
    [None, "30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"],
)
def test_a_v1_quota_is_found_under_every_name(
    folder: str, group: str, mounts: str | None, node: Callable[[Tree], CapturedHost]
) -> None:
    place = f"sys/fs/cgroup/{folder}{group.split(':')[2]}".rstrip("/")
    tree: Tree = {
        "proc/self/cgroup": f"{group}\n",
        f"{place}/cpu.cfs_quota_us": "765000\n",
        f"{place}/cpu.cfs_period_us": "100000\n",
    }
    if mounts:
        tree["proc/self/mountinfo"] = mounts
    facts = probe(Reader(node(tree), "limits"))
    assert facts.cpu_quota == 7.65
    assert facts.thread_budget == 7


def test_the_second_hierarchy_of_a_hybrid_node(node: Callable[[Tree], CapturedHost]) -> None:
    tree: Tree = {
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/unified/job/cpu.max": "400000 100000\n",
    }
    assert probe(Reader(node(tree), "limits")).cpu_quota == 4.0


def test_v1_file_pages_without_totals_count(node: Callable[[Tree], CapturedHost]) -> None:
    place = "sys/fs/cgroup/memory"
    tree: Tree = {
        "proc/self/cgroup": "4:memory:/\n",
        f"{place}/memory.limit_in_bytes": "1000000\n",
        f"{place}/memory.usage_in_bytes": "900000\n",
        f"{place}/memory.stat": "active_file 300000\ninactive_file 100000\n",
    }
    assert probe(Reader(node(tree), "limits")).memory_headroom_bytes == 500_000
