"""How long the driver is waited for, and that probes which wait for it may take longer."""

from __future__ import annotations

import subprocess
import sys

from nodecheck.checks import cuda, gpu
from nodecheck.machine import nvidia_driver
from nodecheck.machine.nvidia_driver import may_take_seconds

SLOWEST_START_SECONDS = 3.0
"""Of one card without persistence mode."""


def test_eight_cards_that_start_slowly_one_after_the_other_have_time() -> None:
    assert may_take_seconds(8) > 8 * SLOWEST_START_SECONDS
    assert may_take_seconds(0) < may_take_seconds(1) < may_take_seconds(8)


def test_there_is_an_end_and_the_probes_outlive_it() -> None:
    longest = may_take_seconds(1000)
    assert longest == nvidia_driver.LIMIT_SECONDS
    assert longest < min(cuda.DEADLINE_SECONDS, gpu.DEADLINE_SECONDS)


def test_whether_there_is_a_driver_is_asked_without_nvml() -> None:
    """Importing all of NVML takes longer than the rest of a look at a node without a card."""
    script = (
        "import sys; from nodecheck.machine import cuda; from nodecheck.machine.host import "
        "LiveHost; cuda.worth_trying(LiveHost()); print([m for m in sys.modules if 'nvml' in m])"
    )
    command = (sys.executable, "-c", script)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
