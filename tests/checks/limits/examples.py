"""Inputs that raise each finding of this subject, and inputs that do not."""

from __future__ import annotations

from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.seen import Facts, Seen
from nodecheck.policy import Policy
from tests.trees import Tree

FLAGS = "fpu cx8 cmov fxsr mmx syscall lm sse sse2"


def cpuinfo(count: int) -> str:
    return "\n".join(
        f"processor\t: {n}\nvendor_id\t: AuthenticAMD\nphysical id\t: 0\nsiblings\t: {count}\n"
        f"core id\t\t: {n}\ncpu cores\t: {count}\nflags\t\t: {FLAGS}\n"
        for n in range(count)
    )


V2: Tree = {
    "proc/cpuinfo": cpuinfo(8),
    "sys/devices/system/cpu/online": "0-7\n",
    "proc/self/cgroup": "0::/pods/engine\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory\n",
    "sys/fs/cgroup/pods/engine/cpu.max": "300000 100000\n",
    "sys/fs/cgroup/pods/engine/cpu.stat": "usage_usec 9\nnr_periods 1000\nnr_throttled 20\n",
    "sys/fs/cgroup/pods/engine/memory.max": "max\n",
}

TWO_NODES = NumaFacts(
    nodes=(
        NumaNode(id=0, cpus=(0, 1), memory_bytes=1 << 34),
        NumaNode(id=1, cpus=(2, 3), memory_bytes=1 << 34),
    )
)


def mempolicy(errno: int) -> Seen:
    facts = Facts(limits=LimitsFacts(mempolicy_errno=errno), numa=TWO_NODES)
    return Seen(facts=facts, policy=Policy(), live=True)


MEMORY_LIMIT: Tree = V2 | {
    "proc/meminfo": "MemTotal:       67108864 kB\nMemAvailable:   50331648 kB\n",
    "sys/fs/cgroup/pods/engine/memory.max": "17179869184\n",
    "sys/fs/cgroup/pods/engine/memory.current": "1073741824\n",
}

RAISES: dict[str, Tree | Seen] = {
    "cpu.quota": V2,
    "cpu.affinity": V2 | {"proc/self/status": "Cpus_allowed_list:\t0-3\n"},
    "mem.cgroup_limit": MEMORY_LIMIT,
    "limits.mempolicy_denied": mempolicy(1),
}
SILENT: dict[str, Tree | Seen] = {
    "cpu.quota": V2 | {"sys/fs/cgroup/pods/engine/cpu.max": "max 100000\n"},
    "cpu.affinity": V2
    | {
        "proc/self/status": "Cpus_allowed_list:\t0-1\n",
        "sys/devices/system/cpu/isolated": "2-7\n",
    },
    "mem.cgroup_limit": MEMORY_LIMIT
    | {"proc/meminfo": "MemTotal:       16777216 kB\n"},  # lxcfs shows the limit already
    "limits.mempolicy_denied": mempolicy(0),
}
