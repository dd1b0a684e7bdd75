"""A figure says how far it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram.statistics import measurement, quantile
from nodecheck.model import Load, Measurement

GB = 10**9


@dataclass(frozen=True)
class Pass:
    seconds: float
    bytes: int
    cpu_share: float


@dataclass(frozen=True)
class Run:
    passes: Sequence[Pass]
    kernel: str = "sse2"
    threads: int = 2


def at(rates: Sequence[float], share: float = 1.0) -> list[Pass]:
    """Passes at so many GB/s."""
    return [Pass(0.01, int(rate * GB * 0.01), share) for rate in rates]


def figure(
    passes: Sequence[Pass],
    *,
    load: Load = Load(other_cpus_busy_share=0.0, steal_share=0.0),  # noqa: B008
    throttled: bool = False,
    undersized: bool = False,
) -> Measurement:
    found = measurement(Run(passes), load, throttled=throttled, undersized=undersized)
    assert found is not None
    return found


def test_steady_passes() -> None:
    found = figure(at([30, 31, 29, 30, 30, 31, 29, 30, 30, 30]))
    assert found.median_bytes_per_second == pytest.approx(30 * GB)
    assert found.max_bytes_per_second == pytest.approx(31 * GB)
    assert (found.passes, found.flags) == (10, ())
    assert (found.name, found.kernel, found.threads) == ("dram_read", "sse2", 2)
    assert "counted once" in found.convention


def test_a_disturbed_pass_does_not_count() -> None:
    found = figure(at([30] * 6) + at([14] * 9, share=0.5))
    assert found.median_bytes_per_second == pytest.approx(30 * GB)
    assert (found.passes, found.flags) == (6, ())


def test_too_few_clean_passes_are_contention() -> None:
    found = figure(at([30] * 4) + at([14] * 9, share=0.5))
    assert found.median_bytes_per_second == pytest.approx(14 * GB)
    assert "contended" in found.flags


@pytest.mark.parametrize(
    "load",
    [
        Load(other_cpus_busy_share=0.5),  # blind to a thread's own CPU time
        Load(steal_share=0.03),
    ],
)
def test_what_no_thread_sees_is_contention_too(load: Load) -> None:
    assert figure(at([22] * 9), load=load).flags == ("contended",)


def test_neighbours_on_the_host_show_as_spread() -> None:
    assert figure(at([30, 30, 22, 30, 30, 22, 30, 30, 22, 30])).flags == ("contended",)


def test_throttling_between_the_samples_is_contention() -> None:
    assert figure(at([22] * 9), throttled=True).flags == ("contended",)


def test_two_states_of_the_host() -> None:
    found = figure(at([35, 35, 61, 35, 35, 35, 35, 61, 35, 35]))
    assert found.median_bytes_per_second == pytest.approx(35 * GB)
    assert found.flags == ("bimodal",)


def test_two_states_under_contention_are_only_contention() -> None:
    assert figure(at([35] * 9 + [61]), throttled=True).flags == ("contended",)


def test_drift() -> None:
    assert figure(at([30] * 6 + [26] * 6)).flags == ("unsteady",)


def test_small_buffers() -> None:
    assert figure(at([30] * 6), undersized=True).flags == ("undersized",)


@pytest.mark.parametrize(
    "passes", [[], [Pass(0.0, 5, 1.0)], [Pass(-1.0, 5, 1.0)], [Pass(1.0, 0, 1.0)]]
)
def test_no_usable_pass_is_no_figure(passes: list[Pass]) -> None:
    assert measurement(Run(passes), Load(), throttled=False, undersized=False) is None


RATES = st.lists(st.floats(0.5, 900), min_size=1, max_size=64)


@given(RATES, st.floats(0, 1))
def test_quantiles_lie_within_and_in_order(rates: list[float], share: float) -> None:
    value = quantile(rates, share)
    assert min(rates) <= value * (1 + 1e-9)
    assert value <= max(rates) * (1 + 1e-9)
    assert quantile(rates, 0) == min(rates)
    assert quantile(rates, 1) == max(rates)


@given(RATES, st.lists(st.floats(0, 1), min_size=64, max_size=64))
def test_any_passes_give_a_figure_in_order(rates: list[float], shares: list[float]) -> None:
    passes = [Pass(1.0, int(rate * GB), share) for rate, share in zip(rates, shares, strict=False)]
    found = figure(passes)
    low, high = found.p10_bytes_per_second, found.p90_bytes_per_second
    most = found.max_bytes_per_second
    assert low is not None
    assert high is not None
    assert most is not None
    assert low <= found.median_bytes_per_second * (1 + 1e-9)
    assert found.median_bytes_per_second <= high * (1 + 1e-9)
    assert high <= most
