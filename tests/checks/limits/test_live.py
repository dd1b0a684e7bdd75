"""The kernel's own control groups: a real quota and a real limit, on a process of ours."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nodecheck.checks.limits.facts import LimitsFacts
from nodecheck.checks.limits.probe import probe
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader

CPU, MEMORY = (Path("/sys/fs/cgroup") / name for name in ("cpu", "memory"))

IN_GROUP = """
import os, sys, time
from pathlib import Path
for group in sys.argv[2:]:
    Path(group, "cgroup.procs").write_text(str(os.getpid()))
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    pass
import msgspec
from nodecheck.checks.limits.probe import probe
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
sys.stdout.buffer.write(msgspec.json.encode(probe(Reader(LiveHost(), "limits"))))
"""


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "not root: cannot make control groups"
    if not all((root / "cgroup.procs").exists() for root in (CPU, MEMORY)):
        return "no cgroup v1 hierarchies of cpu and memory here"
    return None


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new group's name in both hierarchies; its directories go at the end."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    name = f"nodecheck-test-{os.getpid()}-{abs(hash(request.node.name)) % 10**6}"
    inner = [root / name / "inner" for root in (CPU, MEMORY)]
    try:
        for directory in inner:
            directory.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"cannot make a control group: {error}")
    try:
        yield name
    finally:
        for directory in inner:
            remove(directory)
            remove(directory.parent)


def remove(directory: Path) -> None:
    """A group can be removed a moment after its last process has ended."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            directory.rmdir()
            return
        time.sleep(0.02)


def inside(name: str, burn_seconds: float = 0) -> LimitsFacts:
    groups = [str(root / name / "inner") for root in (CPU, MEMORY)]
    done = subprocess.run(
        [sys.executable, "-c", IN_GROUP, str(burn_seconds), *groups],
        capture_output=True,
        timeout=60,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=LimitsFacts)


def test_a_quota_of_half_a_cpu_and_a_memory_limit_on_an_ancestor(group: str) -> None:
    (CPU / group / "cpu.cfs_quota_us").write_text("50000")
    (MEMORY / group / "memory.limit_in_bytes").write_text(str(512 << 20))
    (MEMORY / group / "inner" / "memory.limit_in_bytes").write_text(str(640 << 20))
    facts = inside(group)
    assert facts.cpu_quota == 0.5
    assert facts.thread_budget == 1
    assert facts.cpu_quota_source == f"{CPU}/{group}/cpu.cfs_quota_us"
    assert facts.memory_limit_bytes == 512 << 20
    assert facts.memory_headroom_bytes is not None
    assert 256 << 20 < facts.memory_headroom_bytes <= 512 << 20
    assert facts.cgroup_version in ("v1", "hybrid")


def test_throttling_is_counted_where_the_quota_is(group: str) -> None:
    (CPU / group / "cpu.cfs_quota_us").write_text("20000")
    facts = inside(group, burn_seconds=0.2)
    assert facts.throttled_source == f"{CPU}/{group}/cpu.stat"
    assert facts.throttled_periods is not None
    assert facts.throttled_periods >= 5
    assert facts.throttled_share is not None
    assert facts.throttled_share > 0.5


def test_a_group_without_limits(group: str) -> None:
    facts = inside(group)
    assert facts.cpu_quota == probe(Reader(LiveHost(), "limits")).cpu_quota
    assert facts.memory_limit_bytes == probe(Reader(LiveHost(), "limits")).memory_limit_bytes


def test_this_process_may_use_what_the_scheduler_says() -> None:
    facts = probe(Reader(LiveHost(), "limits"))
    assert facts.affinity == tuple(sorted(os.sched_getaffinity(0)))
    assert set(facts.usable_cpus or ()) <= set(facts.affinity)
