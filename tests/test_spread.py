"""Quantiles of values in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.spread import quantile


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5.0], 0.1, 5.0),
        ([2.0, 1.0], 0.5, 1.5),
        ([4.0, 1.0, 3.0, 2.0], 0.9, 3.7),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.25, 2.0),
    ],
)
def test_quantiles(values: list[float], share: float, expected: float) -> None:
    assert quantile(values, share) == pytest.approx(expected)


@given(st.lists(st.floats(0.5, 900), min_size=1, max_size=64), st.floats(0, 1))
def test_quantiles_lie_within_and_in_order(rates: list[float], share: float) -> None:
    value = quantile(rates, share)
    assert min(rates) <= value * (1 + 1e-9)
    assert value <= max(rates) * (1 + 1e-9)
    assert quantile(rates, 0) == min(rates)
    assert quantile(rates, 1) == max(rates)
