"""How long the driver is waited for, and that probes which wait for it may take longer."""

from __future__ import annotations

from nodecheck.checks import cuda, gpu
from nodecheck.machine import driver_deadline

SLOWEST_START_SECONDS = 3.0
"""Of one card without persistence mode."""


def test_eight_cards_that_start_slowly_one_after_the_other_have_time() -> None:
    assert driver_deadline.seconds(8) > 8 * SLOWEST_START_SECONDS
    assert driver_deadline.seconds(0) < driver_deadline.seconds(1) < driver_deadline.seconds(8)


def test_there_is_an_end_and_the_probes_outlive_it() -> None:
    longest = driver_deadline.seconds(1000)
    assert longest == driver_deadline.LIMIT_SECONDS
    assert longest < min(cuda.DEADLINE_SECONDS, gpu.DEADLINE_SECONDS)
