"""Limits are read from every layout, and nothing that lies is believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.limits.probe import probe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from tests.checks.limits.examples import V2
from tests.checks.live_tree import live_tree, while_sleeping
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
GROUP = "sys/fs/cgroup/pods/engine"


def read(host: CapturedHost) -> LimitsFacts:
    return probe(Reader(host, "limits"))


def test_v2_of_the_process_own_group(node: Node) -> None:
    facts = read(node(V2))
    assert facts.cpu_quota == 3.0
    assert facts.thread_budget == 3
    assert facts.cpu_quota_source == f"/{GROUP}/cpu.max"
    assert facts.throttled_share == pytest.approx(0.02)
    assert facts.throttled_periods == 1000
    assert facts.memory_limit_bytes is None
    assert facts.usable_cpus == tuple(range(8))
    assert facts.cgroup_version == "v2"
    assert facts.cgroup_path == "/pods/engine"


def test_the_smallest_of_all_ancestors_wins(node: Node) -> None:
    facts = read(
        node(
            V2
            | {
                "sys/fs/cgroup/pods/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/pods/cpu.stat": "nr_periods 10\nnr_throttled 5\n",
                "sys/fs/cgroup/pods/memory.max": "4294967296\n",
                "sys/fs/cgroup/pods/memory.current": "1073741824\n",
                "sys/fs/cgroup/pods/memory.stat": "active_file 100\ninactive_file 50\n",
                f"{GROUP}/memory.max": "8589934592\n",
                f"{GROUP}/memory.current": "8589934000\n",
                f"{GROUP}/memory.high": "8589934592\n",
            }
        )
    )
    assert facts.cpu_quota == 1.5
    assert facts.thread_budget == 1
    assert facts.throttled_share == 0.5
    assert facts.memory_limit_bytes == 4 << 30
    assert facts.memory_current_bytes == 1 << 30
    assert facts.memory_file_bytes == 150
    assert facts.memory_high_bytes == 8 << 30
    assert facts.memory_headroom_bytes == 592  # the inner group leaves least


V1: Tree = {
    "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n2:cpuset:/box\n1:name=systemd:/\n",
    "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "765000\n",
    "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpuset/box/cpuset.effective_cpus": "2-9\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1073741824\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "536870912\n",
    "sys/fs/cgroup/memory/box/memory.stat": (
        "total_active_file 1024\ntotal_inactive_file 1024\nhierarchical_memory_limit 805306368\n"
    ),
}


def test_v1_without_a_mount_table(node: Node) -> None:
    facts = read(node(V1))
    assert facts.cgroup_version == "v1"
    assert facts.cpu_quota == 7.65
    assert facts.thread_budget == 7
    assert facts.cpuset == tuple(range(2, 10))
    assert facts.usable_cpus == tuple(range(2, 10))
    assert facts.memory_limit_bytes == 768 << 20  # an ancestor that the namespace hides
    assert facts.memory_limit_source is not None
    assert facts.memory_limit_source.endswith("hierarchical_memory_limit")
    assert facts.memory_headroom_bytes == (256 << 20) + 2048


def test_v1_sentinels_mean_no_limit(node: Node) -> None:
    facts = read(
        node(
            {
                "proc/self/cgroup": "4:memory:/\n3:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            }
        )
    )
    assert (facts.cpu_quota, facts.thread_budget, facts.memory_limit_bytes) == (None, None, None)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\0",
        "max",
        "max 100000",
        "-5 100000",
        "0 0",
        "100000 0",
        "abc def",
        "1e9 10",
        b"\xff\xfe",
    ],
)
def test_a_quota_that_is_none(node: Node, content: str | bytes) -> None:
    assert read(node(V2 | {f"{GROUP}/cpu.max": content})).cpu_quota is None


def test_a_quota_without_its_period(node: Node) -> None:
    assert read(node(V2 | {f"{GROUP}/cpu.max": "400000"})).cpu_quota == 4.0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nr_periods 5",
        "nr_periods 5\nnr_throttled 6",
        "nr_periods -5\nnr_throttled x",
        b"\x00\xff",
    ],
)
def test_counters_that_cannot_be_believed(node: Node, content: str | bytes) -> None:
    facts = read(node(V2 | {f"{GROUP}/cpu.stat": content}))
    assert facts.throttled_share is None
    assert facts.cpu_quota == 3.0


@pytest.mark.parametrize("content", ["", "max", "0", "-1", "x", "99999999999999999999999", b"\xff"])
def test_a_memory_limit_that_is_none(node: Node, content: str | bytes) -> None:
    assert read(node(V2 | {f"{GROUP}/memory.max": content})).memory_limit_bytes is None


def test_an_empty_cpuset_is_its_parents(node: Node) -> None:
    facts = read(
        node(
            V2
            | {
                f"{GROUP}/cpuset.cpus.effective": "\n",
                "sys/fs/cgroup/pods/cpuset.cpus.effective": "0-3\n",
            }
        )
    )
    assert facts.cpuset == (0, 1, 2, 3)
    assert facts.usable_cpus == (0, 1, 2, 3)


def test_usable_cpus_are_online(node: Node) -> None:
    tree = V2 | {
        "sys/devices/system/cpu/online": "0-4,6-7\n",
        "proc/self/status": "Cpus_allowed_list:\t0-127\n",
    }
    assert read(node(tree)).usable_cpus == (0, 1, 2, 3, 4, 6, 7)


def test_nothing_known_is_nothing_said(node: Node) -> None:
    reader = Reader(node({"proc/version": ""}), "limits")
    assert probe(reader) == LimitsFacts()
    assert {gap.field for gap in reader.gaps} == {"cgroup_path", "affinity", "memlock_bytes"}


def test_a_group_whose_files_are_gone_is_a_gap(node: Node) -> None:
    reader = Reader(node({"proc/self/cgroup": "0::/x\n"}), "limits")
    assert probe(reader).cpu_quota is None
    assert "cpu_quota" in {gap.field for gap in reader.gaps}


def test_rlimits(node: Node) -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         8388608              8388608              bytes     \n"
        "Max open files            unlimited            1048576              files     \n"
    )
    facts = read(node({"proc/self/limits": text}))
    assert (facts.memlock_bytes, facts.nofile) == (8388608, None)


def test_a_captured_second_sample_of_memory_events(node: Node) -> None:
    tree = V2 | {
        f"{GROUP}/memory.events": "low 0\nhigh 7\nmax 0\n",
        f"{GROUP}/memory.events.2": "low 0\nhigh 19\nmax 0\n",
    }
    facts = read(node(tree))
    assert (facts.memory_high_events, facts.memory_high_events_now) == (7, 12)


def test_live_throttling_is_sampled_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = live_tree(V2, tmp_path)
    later: Tree = {f"{GROUP}/cpu.stat": "nr_periods 1002\nnr_throttled 21\n"}
    slept = while_sleeping(monkeypatch, "nodecheck.checks.limits.probe", tmp_path, later)
    assert read(host).throttled_share_now == 0.5
    assert sum(slept) <= 0.2


def test_a_live_group_without_trouble_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = V2 | {f"{GROUP}/cpu.stat": "nr_periods 1000\nnr_throttled 0\n"}
    slept = while_sleeping(monkeypatch, "nodecheck.checks.limits.probe", tmp_path, {})
    facts = read(live_tree(tree, tmp_path))
    assert (facts.throttled_share, facts.throttled_share_now, slept) == (0.0, None, [])
