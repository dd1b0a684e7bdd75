"""A figure says how far it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram.statistics import Figure, clean, figure, has_moved, is_disturbed
from nodecheck.machine.kernels import Pass
from nodecheck.model import Load

STEADY = [30.0, 31, 29, 30, 30, 31, 29, 30, 30, 30]


def of(values: Sequence[float], *, disturbed: bool = False, moved: bool = False) -> Figure:
    return figure(values, disturbed=disturbed, moved=moved)


def passes(count: int, cpu_share: float = 1.0, seconds: float = 0.01) -> list[Pass]:
    return [Pass(seconds, 1 << 20, cpu_share)] * count


# --- which passes count ---


@pytest.mark.parametrize(
    ("given_passes", "count", "few"),
    [
        (passes(9), 9, False),
        (passes(5) + passes(9, 0.5), 5, False),
        (passes(5, 0.985) + passes(9, 0.984), 5, False),
        (passes(4) + passes(9, 0.5), 13, True),  # four tell nothing of the spread
        (passes(3), 3, True),
        (passes(6) + passes(9, seconds=0.0) + passes(1, seconds=-1.0), 6, False),
        (passes(9, seconds=0.0), 0, True),
        ([], 0, True),
    ],
)
def test_passes_that_lost_their_cpu_do_not_count(
    given_passes: list[Pass], count: int, few: bool
) -> None:
    usable, seen_few = clean(given_passes)
    assert (len(usable), seen_few) == (count, few)


# --- what they come to ---


def test_steady_passes() -> None:
    assert of(STEADY) == Figure(median=30, p10=29, p90=31, most=31, count=10, flags=())


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ([30.0] * 9, ()),
        ([30, 30, 22, 30, 30, 22, 30, 30, 22, 30], ("contended",)),  # neighbours on the host
        ([30, 30, 26, 30, 30, 26, 30, 30, 26, 30], ()),
        ([35, 35, 61, 35, 35, 35, 35, 61, 35, 35], ("bimodal",)),
        ([35, 35, 35, 35, 35, 35, 35, 43.5, 35, 35], ()),
        ([35, 35, 35, 35, 35, 35, 35, 44, 35, 35], ("bimodal",)),
        ([30.0] * 6 + [26.0] * 6, ("unsteady",)),
        ([26.0] * 6 + [30.0] * 6, ("unsteady",)),
        ([30.0] * 6 + [27.5] * 6, ()),
        ([61.0] * 6 + [35.0] * 6, ("bimodal", "unsteady")),
        ([30.0], ()),
    ],
)
def test_what_figures_show_of_themselves(values: list[float], flags: tuple[str, ...]) -> None:
    assert of(values).flags == flags


def test_what_was_disturbed_is_contended_whatever_it_shows() -> None:
    assert of([22.0] * 9, disturbed=True).flags == ("contended",)


def test_two_states_under_contention_are_only_contention() -> None:
    assert of([35.0] * 5 + [61] + [35] * 4, disturbed=True).flags == ("contended",)


def test_cpus_that_were_moved_are_two_states() -> None:
    assert of([30.0] * 9, moved=True).flags == ("bimodal",)
    assert of([30.0] * 9, moved=True, disturbed=True).flags == ("bimodal", "contended")


def test_small_buffers() -> None:
    assert figure(STEADY, disturbed=False, undersized=True).flags == ("undersized",)


# --- what else ran ---


@pytest.mark.parametrize(
    ("load", "disturbed"),
    [
        (Load(), False),
        (Load(other_cpus_busy_share=0.10), False),
        (Load(other_cpus_busy_share=0.11), True),  # no thread's own CPU time shows it
        (Load(steal_share=0.02), False),
        (Load(steal_share=0.03), True),
        (Load(run_delay_share=0.05), False),
        (Load(run_delay_share=0.06), True),
        (Load(pressure_share=0.10), False),
        (Load(pressure_share=0.11), True),
        (Load(thread_cpu_share_min=0.1), False),  # those passes are left out one by one
    ],
)
def test_other_work(load: Load, disturbed: bool) -> None:
    assert is_disturbed(load) is disturbed


@pytest.mark.parametrize(
    ("trips", "moved"),
    [
        (None, False),
        ((55e-9, 55e-9), False),
        ((50e-9, 99e-9), False),
        ((55e-9, 320e-9), True),
        ((320e-9, 55e-9), True),
        ((0.0, 0.0), False),
    ],
)
def test_cpus_that_lie_elsewhere_than_before(
    trips: tuple[float, float] | None, moved: bool
) -> None:
    assert has_moved(trips) is moved


RATES = st.lists(st.floats(0.5, 900), min_size=1, max_size=64)


@given(RATES, st.booleans(), st.booleans())
def test_any_values_give_a_figure_in_order(
    rates: list[float], disturbed: bool, moved: bool
) -> None:
    found = of(rates, disturbed=disturbed, moved=moved)
    ordered = (found.p10, found.median, found.p90, found.most)
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(ordered))
    assert found.count == len(rates)
    assert ("contended" in found.flags) >= disturbed
    assert ("bimodal" in found.flags) >= moved


@given(RATES, st.floats(0.001, 1000))
def test_flags_do_not_depend_on_the_unit(rates: list[float], unit: float) -> None:
    one, other = of(rates), of([rate * unit for rate in rates])
    near = any(
        abs(limit - 1) < 1e-6
        for limit in (max(rates) / (1.25 * one.median), (one.p90 - one.p10) / (0.2 * one.median))
    )
    assert near or set(one.flags) - {"unsteady"} == set(other.flags) - {"unsteady"}
