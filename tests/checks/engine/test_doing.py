"""What an engine does where no finding says so: nothing, or it loads its model."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.doing import is_idle, is_loading
from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    HEALTHY,
    IDLE,
    LOADING,
    ON_CARD,
    PAGING,
    PARTLY_ON_CARD,
    THROTTLED,
    engine,
    node,
    quota,
    threads,
    use,
    with_process,
)


@pytest.mark.parametrize(
    ("made", "idle"),
    [
        (IDLE, True),
        (engine(threads(1, 0.049)), True),
        (engine(threads(1, 0.05)), False),
        (HEALTHY, False),
        (PAGING, False),  # its CPUs do nothing, as it waits for the disk
        (LOADING, False),
        (THROTTLED, False),
        (replace(IDLE, cpu_group=quota(0.02, 50)), False),
        (engine(threads(1, 0.03, 0.9)), False),  # it has no CPU, and wants one
        (replace(IDLE, cards=(use(GIB, 0.04),)), True),
        (replace(IDLE, cards=(use(GIB, 0.05),)), False),
        (replace(IDLE, cards=(use(0, 0.9),)), True),  # another program's load
        (replace(IDLE, cards=(use(GIB, None),)), False),
        (replace(ON_CARD, cards=(use(18 * GIB, 0.0),)), True),  # its scheduler spins
        (replace(ON_CARD, cards=(use(18 * GIB, None),)), False),
        (replace(PARTLY_ON_CARD, cards=(use(12 * GIB, 0.01),)), False),  # computes on the CPU
        (EngineFacts(), False),
    ],
)
def test_idle(made: EngineFacts, idle: bool) -> None:
    assert is_idle(node(made)) is idle


@pytest.mark.parametrize(
    ("made", "loading"),
    [
        (LOADING, True),
        (HEALTHY, False),
        (PAGING, False),
        (with_process(LOADING, read_bytes=19_900_000), False),
        (with_process(LOADING, read_bytes=None), True),
        (with_process(LOADING, read_bytes=None, major_faults=0), False),
        (with_process(HEALTHY, read_bytes=900_000_000), False),  # all of its files are there
        (replace(with_process(HEALTHY, read_bytes=900_000_000), model_files=()), True),
        (EngineFacts(), False),
    ],
)
def test_loading(made: EngineFacts, loading: bool) -> None:
    assert is_loading(node(made)) is loading
