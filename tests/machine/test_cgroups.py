"""Where the files of a process's control groups are, in every layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.machine import cgroups
from nodecheck.machine.cgroups import V2, Membership
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader, counters
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]


def directories(host: CapturedHost, controller: str) -> tuple[str, ...]:
    reader = Reader(host, "limits")
    membership = cgroups.parse_membership(reader.text("/proc/self/cgroup", None) or "")
    found = cgroups.groups(reader, membership, cgroups.read_mounts(reader), controller)
    return found.directories if found else ()


def test_every_ancestor_up_to_the_mount_of_v2(node: Node) -> None:
    host = node(
        {
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": "1 0 0:1 / /cg rw - cgroup2 none rw\n",
            "cg/a/b/cpu.max": "max",
        }
    )
    assert directories(host, "cpu") == ("/cg/a/b", "/cg/a", "/cg")


def test_controllers_that_share_a_v1_mount(node: Node) -> None:
    host = node(
        {
            "proc/self/cgroup": "3:cpuacct,cpu:/docker/x\n2:memory:/m\n1:name=systemd:/s\n",
            "proc/self/mountinfo": (
                "1 0 0:1 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                "2 0 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            ),
            "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "1",
        }
    )
    assert directories(host, "cpu")[0] == "/sys/fs/cgroup/cpu,cpuacct/docker/x"
    assert directories(host, "memory") == ("/sys/fs/cgroup/memory/m", "/sys/fs/cgroup/memory")
    assert directories(host, "cpuset") == ()


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("/docker/x", "/docker/x", ("/cg",)),  # the container's group appears at the mount
        ("/docker/x", "/docker/x/job", ("/cg/job", "/cg")),
        ("/", "/", ("/cg",)),  # a cgroup namespace
        ("/", "/../..", ("/cg",)),  # outside of this namespace
        ("/../..", "/", ("/cg",)),  # the mount shows an ancestor of the namespace
        ("/docker/x", "/docker/xy", ("/cg",)),  # not below, only alike
        ("/", "/job/../..", ("/cg",)),
    ],
)
def test_roots_and_namespaces(node: Node, root: str, path: str, expected: tuple[str, ...]) -> None:
    host = node(
        {
            "proc/self/cgroup": f"0::{path}\n",
            "proc/self/mountinfo": f"1 0 0:1 {root} /cg rw shared:3 - cgroup2 none rw\n",
            "cg/job/cpu.max": "max",
        }
    )
    assert directories(host, "cpu") == expected


def test_the_mount_that_shows_most_ancestors_is_taken(node: Node) -> None:
    host = node(
        {
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": (
                "1 0 0:1 /a/b /bound rw - cgroup2 none rw\n"
                "2 0 0:1 /elsewhere /other rw - cgroup2 none rw\n"
                "3 0 0:1 / /full rw - cgroup2 none rw\n"
            ),
            "full/a/b/cpu.max": "max",
            "bound/cpu.max": "max",
        }
    )
    assert directories(host, "cpu") == ("/full/a/b", "/full/a", "/full")


def test_a_mount_table_without_roots_serves_as_well(node: Node) -> None:
    host = node(
        {
            "proc/self/cgroup": "0::/job\n",
            "proc/mounts": "none /cgroup/my\\040unified cgroup2 rw 0 0\n",
            "cgroup/my unified/job/cpu.max": "max",
        }
    )
    assert directories(host, "cpu") == ("/cgroup/my unified/job", "/cgroup/my unified")


def test_nothing_is_assumed_without_a_membership(node: Node) -> None:
    host = node({"sys/fs/cgroup/cpu.max": "100000 100000\n", "proc/self/mountinfo": ""})
    assert directories(host, "cpu") == ()


def test_hybrid_takes_a_controller_where_it_is(node: Node) -> None:
    host = node(
        {
            "proc/self/cgroup": "5:memory:/m\n0::/u\n",
            "proc/self/mountinfo": (
                "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                "2 0 0:2 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            ),
            "sys/fs/cgroup/memory/m/x": "",
            "sys/fs/cgroup/unified/u/cpu.max": "max",
        }
    )
    assert directories(host, "memory")[0] == "/sys/fs/cgroup/memory/m"
    assert directories(host, "cpu")[0] == "/sys/fs/cgroup/unified/u"


@pytest.mark.parametrize(
    ("paths", "version"),
    [
        ({}, None),
        ({V2: "/"}, "v2"),
        ({"name=systemd": "/", V2: "/"}, "v2"),
        ({"cpu": "/"}, "v1"),
        ({"cpu": "/", V2: "/"}, "hybrid"),
    ],
)
def test_version(paths: dict[str, str], version: str | None) -> None:
    assert Membership(paths).version == version


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    assert all(path.startswith("/") for path in cgroups.parse_membership(text).paths.values())
    cgroups.parse_mountinfo(text)
    cgroups.parse_mounts(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nr_periods 9\nnr_throttled 0\n", {"nr_periods": 9, "nr_throttled": 0}),
        ("a 1\nb -1\nc x\nd\ne 1 2\nf \u0661\ng " + "9" * 21, {"a": 1}),
        ("", {}),
    ],
)
def test_counters(text: str, expected: dict[str, int]) -> None:
    assert counters(text) == expected


@given(st.text())
def test_counters_take_any_text(text: str) -> None:
    assert all(value >= 0 for value in counters(text).values())


PART = st.text("ab", min_size=1, max_size=2)


@given(root=st.lists(PART, max_size=3), rest=st.lists(PART, max_size=3))
def test_a_path_below_its_root_keeps_the_rest(root: list[str], rest: list[str]) -> None:
    mount = cgroups.Mount("/cg", "/" + "/".join(root), frozenset({V2}))
    listed = cgroups._directories(mount, "/" + "/".join(root + rest))
    assert listed[0] == "/".join(["/cg", *rest])
    assert listed[-1] == "/cg"
    assert len(listed) == len(rest) + 1
