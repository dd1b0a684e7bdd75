"""A report under real limits: a figure, or why there is none, and no wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_groups import Group, control_group
from tests.limited import MIB, Limited, run_in

LIMIT = 512 * MIB


@pytest.fixture
def group() -> Iterator[Group]:
    with control_group() as made:
        yield made


@pytest.fixture
def small_caches(tmp_path: Path) -> Path:
    file = tmp_path / "size"
    file.write_text("8192K\n")
    return file


def measured(group: Group, cache_size: Path | None = None) -> Limited:
    return run_in(group, "--json", "--kernels", "always", cache_size=cache_size)


def test_half_a_gigabyte_is_not_used_up(group: Group) -> None:
    group.limit(memory_bytes=LIMIT)
    measured(group).keeps_within(LIMIT)


def test_half_a_gigabyte_beside_small_caches_is_measured(group: Group, small_caches: Path) -> None:
    group.limit(memory_bytes=LIMIT)
    seen = measured(group, small_caches)
    seen.keeps_within(LIMIT)
    assert seen.most_bytes > 64 * MIB  # it was tried


def test_on_half_a_cpu_no_figure_is_trusted(group: Group) -> None:
    group.limit(cpus=0.5)
    measured(group).is_not_to_be_trusted()


def test_both_limits_at_once(group: Group, small_caches: Path) -> None:
    group.limit(memory_bytes=LIMIT, cpus=0.5)
    seen = measured(group, small_caches)
    seen.keeps_within(LIMIT)
    seen.is_not_to_be_trusted()
