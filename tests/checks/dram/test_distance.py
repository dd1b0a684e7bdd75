"""CPUs fall into groups only where every round trip says so."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram.distance import split
from nodecheck.model import RoundTrip

NEAR, FAR = 55.0, 350.0


def trip(first: int, second: int, nanoseconds: float) -> RoundTrip:
    return RoundTrip(cpus=(first, second), seconds=nanoseconds * 1e-9)


def of_groups(*groups: tuple[int, ...]) -> dict[tuple[int, int], float]:
    """All pairs: NEAR within a group, FAR between two."""
    owner = {cpu: number for number, group in enumerate(groups) for cpu in group}
    return {
        (a, b): NEAR if owner[a] == owner[b] else FAR for a, b in combinations(sorted(owner), 2)
    }


EIGHT = of_groups((0, 1, 2, 3), (4, 5, 6, 7))


def trips(pairs: dict[tuple[int, int], float]) -> list[RoundTrip]:
    return [trip(a, b, time) for (a, b), time in pairs.items()]


@pytest.mark.parametrize(
    "groups",
    [
        ((0, 1), (2, 3)),
        ((0, 2, 4, 6), (1, 3, 5, 7)),
        ((0, 1, 2), (3,)),
        ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)),
        ((0, 1), (2,)),
    ],
)
def test_complexes_are_told_apart(groups: tuple[tuple[int, ...], ...]) -> None:
    found = split(trips(of_groups(*groups)))
    assert found is not None
    assert found.groups == groups
    assert found.near_seconds == pytest.approx(NEAR * 1e-9)
    assert found.far_seconds == pytest.approx(FAR * 1e-9)


def test_the_order_of_pairs_and_of_a_pair_is_of_no_matter() -> None:
    pairs = trips(of_groups((0, 3), (1, 2)))
    turned = [trip(b, a, t.seconds * 1e9) for t in reversed(pairs) for a, b in [t.cpus]]
    found = split(turned)
    assert found is not None
    assert found.groups == ((0, 3), (1, 2))


def test_times_vary_within_a_class() -> None:
    pairs = of_groups((0, 1, 2), (3, 4, 5))
    varied = {pair: time * (1 + 0.04 * n) for n, (pair, time) in enumerate(pairs.items())}
    found = split(trips(varied))
    assert found is not None
    assert found.groups == ((0, 1, 2), (3, 4, 5))
    assert found.near_seconds < 100e-9
    assert found.far_seconds >= 350e-9


def test_one_mesh_is_one_group() -> None:
    mesh = {pair: 60.0 + 2 * n for n, pair in enumerate(combinations(range(5), 2))}
    assert split(trips(mesh)) is None


SIBLINGS = 15.0


@pytest.mark.parametrize("between", [55.0, 110.0, 190.0])
def test_threads_of_one_core_are_no_groups(between: float) -> None:
    cores = dict.fromkeys(combinations(range(8), 2), between)
    siblings = {(n, n + 1): SIBLINGS for n in range(0, 8, 2)}
    assert split(trips(cores | siblings)) is None


@pytest.mark.parametrize("far", [110.0, 350.0])
def test_threads_of_one_core_lie_in_one_group(far: float) -> None:
    """Though the step from threads to cores may be the larger one."""
    pairs = {pair: NEAR if time == NEAR else far for pair, time in EIGHT.items()}
    found = split(trips(pairs | {(0, 1): SIBLINGS, (4, 5): SIBLINGS}))
    assert found is not None
    assert found.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert found.near_seconds == pytest.approx(NEAR * 1e-9)


def test_a_pair_that_was_disturbed_splits_nothing() -> None:
    assert split(trips(of_groups((0, 1, 2, 3)) | {(0, 3): 900.0})) is None


def test_pairs_that_contradict_one_another_split_nothing() -> None:
    # near to one of each group: then the groups are not apart
    assert split(trips(of_groups((0, 1), (2, 3)) | {(1, 2): NEAR})) is None


@pytest.mark.parametrize("pairs", [{}, {(0, 1): NEAR}, {(0, 1): NEAR, (2, 3): FAR}])
def test_too_few_pairs_split_nothing(pairs: dict[tuple[int, int], float]) -> None:
    assert split(trips(pairs)) is None


def test_pairs_that_are_missing_leave_what_the_others_show() -> None:
    pairs = of_groups((0, 1), (2, 3))
    del pairs[0, 3]
    found = split(trips(pairs))
    assert found is not None
    assert found.groups == ((0, 1), (2, 3))


def test_times_that_cannot_be_do_not_count() -> None:
    assert split(trips(dict.fromkeys(combinations(range(4), 2), 0.0))) is None


CPUS = st.lists(st.integers(0, 255), unique=True, min_size=2, max_size=9)


@given(CPUS, st.data())
def test_times_within_one_mesh_never_split(cpus: list[int], data: st.DataObject) -> None:
    pairs = list(combinations(cpus, 2))
    times = data.draw(st.lists(st.floats(50, 70), min_size=len(pairs), max_size=len(pairs)))
    assert split(trips(dict(zip(pairs, times, strict=True)))) is None


@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=4).filter(
        lambda sizes: max(sizes) > 1 and set(sizes) != {2}  # pairs are threads of a core
    ),
    st.data(),
)
def test_groups_are_found_whatever_their_numbers(sizes: list[int], data: st.DataObject) -> None:
    cpus = iter(data.draw(st.permutations(range(sum(sizes)))))
    groups = tuple(sorted(tuple(sorted(next(cpus) for _ in range(size))) for size in sizes))
    pairs = of_groups(*groups)
    shares = data.draw(st.lists(st.floats(0.9, 1.1), min_size=len(pairs), max_size=len(pairs)))
    varied = {p: t * share for (p, t), share in zip(pairs.items(), shares, strict=True)}
    found = split(trips(varied))
    assert found is not None
    assert found.groups == groups


ANY_TIME = st.floats(0, 1) | st.floats(1e-9, 1e-6)


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(4, 7)), ANY_TIME))
def test_any_times_give_groups_that_are_apart_or_none(
    pairs: dict[tuple[int, int], float],
) -> None:
    found = split([RoundTrip(cpus=cpus, seconds=time) for cpus, time in pairs.items()])
    if found is not None:
        flat = [cpu for group in found.groups for cpu in group]
        assert sorted(flat) == sorted({cpu for pair in pairs for cpu in pair})
        assert found.far_seconds >= 1.8 * found.near_seconds
