"""`nodecheck bench` in guests: limits of version 2 control groups, and two NUMA nodes.

Under emulation no rate means anything.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.debian import NotHereError
from tests.lab.guest_image import Image, prepare
from tests.lab.guests import Guest, Told, boot

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

MIB = 1 << 20
LIMIT = 512 * MIB
LIMITS = (f"memory_max={LIMIT}", 'cpu_max="50000 100000"')

# allocated beforehand: what the host backs only when it is touched costs the guest its time
NODES = (
    "-object", "memory-backend-ram,id=memory0,size=1G,prealloc=on",
    "-object", "memory-backend-ram,id=memory1,size=1G,prealloc=on",
    "-numa", "node,nodeid=0,cpus=0,memdev=memory0",
    "-numa", "node,nodeid=1,cpus=1,memdev=memory1",
)  # fmt: skip
PAGES_MOST_ELSEWHERE = 0.01


@pytest.fixture(scope="module")
def image() -> Image:
    try:
        return prepare()
    except NotHereError as reason:
        pytest.skip(str(reason))


def counters(told: Told, name: str) -> dict[str, int]:
    return {key: int(value) for key, value in map(str.split, told.text(name).splitlines())}


def test_limits_of_version_2(image: Image, tmp_path: Path) -> None:
    guest = Guest(
        "Haswell", memory="2048", asked="bench --max-seconds 10", told=LIMITS, seconds=200
    )
    told = boot(image, guest, tmp_path)
    report = told.report
    limits = report.facts.limits
    assert (limits.cgroup_version, limits.cpu_quota) == ("v2", 0.5)
    assert limits.memory_limit_bytes == LIMIT
    assert limits.memory_headroom_bytes is not None
    assert counters(told, "memory.events")["oom_kill"] == 0
    taken = int(told.text("memory.peak")) - (LIMIT - limits.memory_headroom_bytes)
    assert 32 * MIB < taken <= limits.memory_headroom_bytes / 4 + 32 * MIB
    assert counters(told, "cpu.stat")["nr_throttled"] > 0
    assert report.measurements
    assert all("contended" in each.flags for each in report.measurements)


def test_memory_of_another_node(image: Image, tmp_path: Path) -> None:
    guest = Guest(
        "Haswell", topology="2", memory="2048", devices=NODES, asked="bench dram",
        told=("watch=yes",), seconds=300,
    )  # fmt: skip
    told = boot(image, guest, tmp_path)
    ways = {
        (each.cpu_node, each.memory_node)
        for each in told.report.measurements
        if each.cpu_node is not None
    }
    assert ways == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert memory_lay(told) == ways


def memory_lay(told: Told) -> set[tuple[int, int]]:
    """Where a thread that measured was, and where its process had all but a few of its pages."""
    found = set()
    for line in told.text("watched").splitlines():
        cpu, *pages = map(int, line.split())
        for node, there in enumerate(pages):
            if there > 0 and sum(pages) - there <= PAGES_MOST_ELSEWHERE * there:
                found.add((cpu, node))
    return found
