"""The kernel's own control groups: a real quota and a real limit, on a process of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.limits.probe import probe
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from tests.control_groups import CPU, MEMORY, Group, control_group

IN_GROUP = """
import sys, time
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    pass
import msgspec
from nodecheck.checks.limits.probe import probe
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
sys.stdout.buffer.write(msgspec.json.encode(probe(Reader(LiveHost(), "limits"))))
"""


@pytest.fixture
def group() -> Iterator[Group]:
    with control_group() as made:
        yield made


def inside(group: Group, burn_seconds: float = 0) -> LimitsFacts:
    done = subprocess.run(
        group.command(sys.executable, "-c", IN_GROUP, str(burn_seconds)),
        capture_output=True,
        timeout=60,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=LimitsFacts)


def test_a_quota_of_half_a_cpu_and_a_memory_limit_on_an_ancestor(group: Group) -> None:
    group.limit(memory_bytes=512 << 20, cpus=0.5)
    (MEMORY / group.name / "inner" / "memory.limit_in_bytes").write_text(str(640 << 20))
    facts = inside(group)
    assert facts.cpu_quota == 0.5
    assert facts.thread_budget == 1
    assert facts.cpu_quota_source == f"{CPU}/{group.name}/cpu.cfs_quota_us"
    assert facts.memory_limit_bytes == 512 << 20
    assert facts.memory_headroom_bytes is not None
    assert 256 << 20 < facts.memory_headroom_bytes <= 512 << 20
    assert facts.cgroup_version in ("v1", "hybrid")


def test_throttling_is_counted_where_the_quota_is(group: Group) -> None:
    group.limit(cpus=0.2)
    facts = inside(group, burn_seconds=0.2)
    assert facts.throttled_source == f"{CPU}/{group.name}/cpu.stat"
    assert facts.throttled_periods is not None
    assert facts.throttled_periods >= 5
    assert facts.throttled_share is not None
    assert facts.throttled_share > 0.5


def test_a_group_without_limits(group: Group) -> None:
    facts = inside(group)
    assert facts.cpu_quota == probe(Reader(LiveHost(), "limits")).cpu_quota
    assert facts.memory_limit_bytes == probe(Reader(LiveHost(), "limits")).memory_limit_bytes


def test_this_process_may_use_what_the_scheduler_says() -> None:
    facts = probe(Reader(LiveHost(), "limits"))
    assert facts.affinity == tuple(sorted(os.sched_getaffinity(0)))
    assert set(facts.usable_cpus or ()) <= set(facts.affinity)
