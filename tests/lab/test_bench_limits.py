"""`nodecheck bench` under real limits: figures or why there are none, and no wrong one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.report import Report
from tests.control_groups import Group, control_group
from tests.limited import MIB, run_in

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

BENCH = ("bench", "--json", "--max-seconds", "10")
DEVIATION_MAX = 0.25
"""Of a figure without any flag from that of the unlimited machine."""

AMPLE = 6144 * MIB
"""Of which a quarter is four times the largest caches of today."""


@pytest.fixture
def group() -> Iterator[Group]:
    with control_group() as made:
        yield made


@pytest.fixture(scope="module")
def unlimited() -> Report:
    with control_group() as made:
        return run_in(made, *BENCH).report


def figures(report: Report) -> dict[tuple[str, int], float]:
    """Those that are to be trusted."""
    return {
        (each.name, each.threads): each.median_bytes_per_second
        for each in report.measurements
        if not each.flags
    }


def are_near(report: Report, unlimited: Report) -> None:
    expected = figures(unlimited)
    common = {key: rate for key, rate in figures(report).items() if key in expected}
    sys.stdout.write(f"{len(common)} figures without a flag here and there\n")
    for key, rate in common.items():
        assert abs(rate / expected[key] - 1) < DEVIATION_MAX, key


def test_a_limit_that_leaves_little(group: Group, unlimited: Report) -> None:
    group.limit(memory_bytes=512 * MIB)
    seen = run_in(group, *BENCH)
    seen.keeps_within(512 * MIB)
    are_near(seen.report, unlimited)


def test_a_limit_that_leaves_little_beside_small_caches(group: Group, tmp_path: Path) -> None:
    (tmp_path / "size").write_text("8192K\n")
    group.limit(memory_bytes=512 * MIB)
    seen = run_in(group, *BENCH, cache_size=tmp_path / "size")
    seen.keeps_within(512 * MIB)
    assert seen.report.measurements


def test_a_limit_that_leaves_enough(group: Group, unlimited: Report) -> None:
    group.limit(memory_bytes=AMPLE)
    seen = run_in(group, *BENCH)
    seen.keeps_within(AMPLE)
    are_near(seen.report, unlimited)


def test_half_a_cpu(group: Group) -> None:
    group.limit(cpus=0.5)
    run_in(group, *BENCH).is_not_to_be_trusted()
