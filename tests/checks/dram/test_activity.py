"""What the CPUs did meanwhile, from the kernel's own counters."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram import activity
from nodecheck.checks.dram.activity import Activity, Ticks
from nodecheck.machine.host import LiveHost
from nodecheck.machine.reader import Reader
from tests.checks.live_tree import live_tree
from tests.trees import Tree

STAT = (
    "cpu  10 0 5 100 7 0 0 4 2 0\n"
    "cpu0 10 1 5 100 7 2 3 4 2 0\n"
    "cpu3 1 0 1 50\n"  # a kernel of long ago
    "cpux 1 2 3 4\ncpu9 1 x 3 4\ncpu 1\nintr 5 6\n\n"
)
PRESSURE = (
    "some avg10=0.00 avg60=0.12 avg300=1.00 total=2500000\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=77\n"
)


def read(directory: Path, tree: Tree) -> Activity:
    return activity.read(Reader(live_tree(tree, directory), "dram"))


def test_ticks_of_each_cpu(tmp_path: Path) -> None:
    found = read(tmp_path / "node", {"proc/stat": STAT, "proc/pressure/cpu": PRESSURE})
    # user to steal; guest time is within user time
    assert found.cpus == {0: Ticks(idle=107, steal=4, total=132), 3: Ticks(50, 0, 52)}
    assert found.waited_seconds == 2.5
    assert found.at > 0


@pytest.mark.parametrize(
    "text", ["", "some avg10=0.00\n", "full avg10=0.00 total=5\n", "some total=x"]
)
def test_without_pressure_counters_it_is_not_known(tmp_path: Path, text: str) -> None:
    found = read(tmp_path / "node", {"proc/stat": STAT, "proc/pressure/cpu": text})
    assert found.waited_seconds is None


def test_nothing_to_read_is_nothing_known(tmp_path: Path) -> None:
    reader = Reader(live_tree({"proc/version": ""}, tmp_path / "node"), "dram")
    found = activity.read(reader)
    assert (found.cpus, found.waited_seconds) == ({}, None)
    assert reader.gaps == []


def test_this_machine_tells_of_its_cpus() -> None:
    before = activity.read(Reader(LiveHost(), "dram"))
    assert 0 in before.cpus
    assert all(0 < each.idle <= each.total for each in before.cpus.values())


def at(
    seconds: float,
    cpus: dict[int, tuple[int, int, int]] | None = None,
    waited: float | None = None,
) -> Activity:
    """CPU -> idle, steal, total."""
    return Activity({n: Ticks(*ticks) for n, ticks in (cpus or {}).items()}, waited, seconds)


BEFORE = at(10, {0: (100, 0, 200), 1: (50, 10, 100)}, 4.0)
AFTER = at(12, {0: (120, 0, 300), 1: (150, 20, 200)}, 4.5)


@pytest.mark.parametrize(
    ("cpus", "share"),
    [((0,), 0.8), ((1,), 0.0), ((0, 1), 0.4), ((), None), ((7,), None), ((0, 7), 0.8)],
)
def test_busy_share_of_some_cpus(cpus: tuple[int, ...], share: float | None) -> None:
    assert activity.busy_share(BEFORE, AFTER, cpus) == pytest.approx(share)


def test_steal_share_of_all_cpus() -> None:
    assert activity.steal_share(BEFORE, AFTER) == pytest.approx(10 / 200)


def test_pressure_share_of_the_time() -> None:
    assert activity.pressure_share(BEFORE, AFTER) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("before", "after"),
    [(at(1), AFTER), (BEFORE, at(20)), (at(12, waited=1), at(12, waited=2)), (at(1), at(2))],
)
def test_pressure_that_is_not_told_is_not_known(before: Activity, after: Activity) -> None:
    assert activity.pressure_share(before, after) is None


def test_no_time_is_no_share() -> None:
    assert activity.busy_share(BEFORE, BEFORE, (0, 1)) is None
    assert activity.steal_share(BEFORE, BEFORE) is None
    assert activity.steal_share(at(1), at(2)) is None


COUNTERS = st.tuples(*[st.integers(0, 1 << 40)] * 3)
ANY = st.builds(
    at, st.floats(0, 1e6), st.dictionaries(st.integers(0, 3), COUNTERS), st.none() | st.floats(0, 9)
)


@given(ANY, ANY)
def test_shares_are_shares(before: Activity, after: Activity) -> None:
    shares = (
        activity.busy_share(before, after, range(4)),
        activity.steal_share(before, after),
        activity.pressure_share(before, after),
    )
    assert all(share is None or 0 <= share <= 1 for share in shares)
