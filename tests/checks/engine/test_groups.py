"""Which control group holds an engine: of captured files, and of a real one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.checks.engine import groups, tree
from nodecheck.checks.engine.facts import CpuGroup, MemoryGroup
from nodecheck.checks.engine.tasks import Moment
from nodecheck.checks.engine.window import watch
from nodecheck.machine.host import open_host
from nodecheck.machine.reader import Reader
from tests.control_groups import CPU, MEMORY, Group
from tests.fake_engine.build import FakeEngines, fake_engines
from tests.lab.attach import drop, group
from tests.trees import Tree, plant

__all__ = ["fake_engines", "group"]

GIB = 1 << 30
V2: Tree = {
    "proc/77/cgroup": "0::/batch/job\n",
    "proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "sys/fs/cgroup/batch/cpu.max": "400000 100000\n",
    "sys/fs/cgroup/batch/job/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/batch/memory.max": f"{2 * GIB}\n",
    "sys/fs/cgroup/batch/memory.current": f"{GIB}\n",
    "sys/fs/cgroup/batch/memory.stat": "workingset_refault_file 100\n",
    "sys/fs/cgroup/batch/memory.stat.2": "workingset_refault_file 4100\n",
    "sys/fs/cgroup/batch/memory.events": "low 0\nhigh 0\nmax 5\noom 0\n",
    "sys/fs/cgroup/batch/memory.events.2": "low 0\nhigh 0\nmax 25\noom 0\n",
    "sys/fs/cgroup/batch/job/memory.max": "max\n",
}
V1: Tree = {
    "proc/77/cgroup": "4:memory:/job\n1:cpu,cpuacct:/job\n",
    "proc/self/mountinfo": (
        "31 1 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    ),
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "25000\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "50000\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.stat": (
        "nr_periods 10\nnr_throttled 5\nthrottled_time 1000000000\n"
    ),
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.stat.2": (
        "nr_periods 110\nnr_throttled 95\nthrottled_time 3500000000\n"
    ),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{GIB}\n",
    "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{GIB // 2}\n",
    "sys/fs/cgroup/memory/job/memory.failcnt": "7\n",
    "sys/fs/cgroup/memory/job/memory.failcnt.2": "19\n",
    "sys/fs/cgroup/memory/job/memory.stat": (
        "workingset_refault_file 0\ntotal_workingset_refault_file 50\n"
    ),
    "sys/fs/cgroup/memory/job/memory.stat.2": (
        "workingset_refault_file 0\ntotal_workingset_refault_file 90\n"
    ),
}


def cpu_stat(periods: int, throttled: int, microseconds: int) -> str:
    return (
        f"usage_usec 9\nnr_periods {periods}\nnr_throttled {throttled}\n"
        f"throttled_usec {microseconds}\nnr_bursts 0\n"
    )


def held(
    directory: Path, files: Tree, changes: Tree | None = None
) -> tuple[CpuGroup | None, MemoryGroup | None, list[str]]:
    """The group of CPU, that of memory, and the gaps."""
    reader = Reader(plant({**files, **(changes or {})}, directory), "engine")
    found = groups.find(reader, 77)
    before = groups.counts(Moment(reader), found)
    after = groups.counts(Moment(reader, 5.0), found)
    return (
        groups.cpu_group(found, before, after),
        groups.memory_group(found, before, after),
        [gap.field for gap in reader.gaps],
    )


def test_a_quota_of_v1(tmp_path: Path) -> None:
    cpu, _, gaps = held(tmp_path, V1)
    assert cpu == CpuGroup(
        source="/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us",
        quota_cpus=0.5,
        periods=100,
        throttled_periods=90,
        throttled_seconds=2.5,
    )
    assert gaps == []


def test_a_memory_limit_of_v1(tmp_path: Path) -> None:
    _, memory, _ = held(tmp_path, V1)
    assert memory == MemoryGroup(
        source="/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
        limit_bytes=GIB,
        current_bytes=GIB // 2,
        file_refaults=40,
        limit_hits=12,
    )


def test_a_memory_limit_of_v2(tmp_path: Path) -> None:
    _, memory, _ = held(tmp_path, V2)
    assert memory == MemoryGroup(
        source="/sys/fs/cgroup/batch/memory.max",
        limit_bytes=2 * GIB,
        current_bytes=GIB,
        file_refaults=4000,
        limit_hits=20,
    )


@pytest.mark.parametrize(
    ("batch", "job", "binds", "throttled"),
    [
        (0, 0, "batch/job", 0),  # none: the smallest
        (0, 30, "batch/job", 30),
        (40, 0, "batch", 40),  # others used up what they share
        (10, 30, "batch/job", 30),
    ],
)
def test_whose_quota_binds_first(
    tmp_path: Path, batch: int, job: int, binds: str, throttled: int
) -> None:
    counts: Tree = {
        "sys/fs/cgroup/batch/cpu.stat": cpu_stat(100, 3, 50),
        "sys/fs/cgroup/batch/cpu.stat.2": cpu_stat(150, 3 + batch, 2_000_050),
        "sys/fs/cgroup/batch/job/cpu.stat": cpu_stat(100, 90, 7),
        "sys/fs/cgroup/batch/job/cpu.stat.2": cpu_stat(150, 90 + job, 2_000_007),
    }
    cpu, _, _ = held(tmp_path, V2, counts)
    assert cpu is not None
    assert cpu.source == f"/sys/fs/cgroup/{binds}/cpu.max"
    assert (cpu.periods, cpu.throttled_periods, cpu.throttled_seconds) == (50, throttled, 2.0)


def changed(directory: Path, before: str, after: str) -> tuple[CpuGroup | None, list[str]]:
    """The group, and the gaps, where a group's cpu.max changes in the window."""
    job: Tree = {
        "sys/fs/cgroup/batch/cpu.max": "max 100000\n",
        "sys/fs/cgroup/batch/job/cpu.stat": cpu_stat(100, 3, 50),
        "sys/fs/cgroup/batch/job/cpu.stat.2": cpu_stat(150, 43, 2_000_050),
    }
    quota = directory / "sys/fs/cgroup/batch/job/cpu.max"
    reader = Reader(plant({**V2, **job}, directory), "engine")
    quota.write_text(before)
    first = groups.find(reader, 77)
    then = groups.counts(Moment(reader), first)
    quota.write_text(after)
    last = groups.later(reader, 77, first)
    now = groups.counts(Moment(reader, 5.0), last)
    return groups.cpu_group(last, then, now), [f"{gap.field} {gap.detail}" for gap in reader.gaps]


SOURCE = "/sys/fs/cgroup/batch/job/cpu.max"


@pytest.mark.parametrize(
    ("before", "after", "cpus", "told"),
    [
        ("max 100000", "50000 100000", 0.5, f"none before, now 0.5 CPUs ({SOURCE})"),
        ("50000 100000", "200000 100000", 2.0, f"0.5 CPUs before, now 2 CPUs ({SOURCE})"),
        ("50000 100000", "max 100000", None, f"0.5 CPUs before, now none ({SOURCE})"),
    ],
)
def test_a_quota_that_changes_is_told_as_it_is_at_the_end(
    tmp_path: Path, before: str, after: str, cpus: float | None, told: str
) -> None:
    """What was counted is not of the one or of the other."""
    group, gaps = changed(tmp_path, before, after)
    field = "cpu_group" if cpus is None else "cpu_group.periods"
    assert gaps == [f"{field} the quota changed while it was watched: {told}"]
    assert (group and group.quota_cpus) == cpus
    assert group is None or (group.periods, group.throttled_periods) == (None, None)


def test_a_quota_that_stays_is_counted(tmp_path: Path) -> None:
    group, gaps = changed(tmp_path, "50000 100000", "50000 100000")
    assert group is not None
    assert (group.periods, group.throttled_periods, gaps) == (50, 40, [])


def test_a_group_that_is_gone_leaves_its_limits(tmp_path: Path) -> None:
    cpu, memory, _ = held(tmp_path, V2)
    assert cpu is not None
    assert (cpu.quota_cpus, cpu.periods, cpu.throttled_seconds) == (1.5, None, None)
    assert memory is not None


def test_a_limit_from_above_what_we_see(tmp_path: Path) -> None:
    """The hits that are counted here are not those of that limit."""
    inherited: Tree = {
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/job/memory.stat": f"hierarchical_memory_limit {GIB}\n",
    }
    _, memory, _ = held(tmp_path, V1, inherited)
    assert memory is not None
    assert (memory.limit_bytes, memory.limit_hits) == (GIB, None)


def test_a_process_without_groups(tmp_path: Path) -> None:
    assert held(tmp_path, {"proc/77/comm": "a\n"}) == (None, None, [])


def test_groups_that_are_not_mounted_here_are_a_gap(tmp_path: Path) -> None:
    assert held(tmp_path, {"proc/77/cgroup": "0::/job\n"}) == (None, None, ["cpu_group"])


def test_a_real_quota(fake_engines: FakeEngines, group: Group) -> None:
    group.limit(cpus=0.5)
    with fake_engines.running("--threads", "4", group=group) as engine:
        reader = Reader(open_host(None), "engine")
        seen = watch(reader, tree.pids(reader, engine.pid), 2.0)
    assert seen.cpu_group is not None
    assert seen.cpu_group.source == str(CPU / group.name / "cpu.cfs_quota_us")
    assert seen.cpu_group.quota_cpus == 0.5
    assert 10 <= (seen.cpu_group.periods or 0) <= 30
    assert (seen.cpu_group.throttled_periods or 0) > 0.5 * (seen.cpu_group.periods or 0)
    assert (seen.cpu_group.throttled_seconds or 0) > 0.5
    assert seen.processes[0].cpu_seconds == pytest.approx(0.5 * seen.seconds, rel=0.3)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Path]:
    """64 MiB on a disk, not in memory."""
    path = tmp_path / "model.gguf"
    path.write_bytes(os.urandom(1 << 20) * 64)
    kind = subprocess.run(("stat", "-fc", "%T", path), capture_output=True, text=True, check=True)
    if kind.stdout.strip() in ("tmpfs", "ramfs"):
        pytest.skip("the tests' files lie in memory here: they cannot be thrown out of it")
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    drop(path)
    yield path
    path.unlink()


def test_a_real_memory_limit(fake_engines: FakeEngines, group: Group, model: Path) -> None:
    group.limit(memory_bytes=32 << 20)
    with fake_engines.running("--threads", "1", "--model", model, group=group) as engine:
        time.sleep(1)  # until its memory is full
        reader = Reader(open_host(None), "engine")
        seen = watch(reader, tree.pids(reader, engine.pid), 2.0)
    (process,) = seen.processes
    assert seen.memory_group is not None
    assert seen.memory_group.source == str(MEMORY / group.name / "memory.limit_in_bytes")
    assert seen.memory_group.limit_bytes == 32 << 20
    assert (seen.memory_group.limit_hits or 0) > 0
    assert (seen.memory_group.file_refaults or 0) > 1000
    assert (seen.file_refaults or 0) > 1000
    assert (process.major_faults or 0) > 10
    assert (process.read_bytes or 0) > 4 << 20
