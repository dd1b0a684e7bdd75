"""What an engine does where no finding says so: nothing, or it loads its model."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.doing import is_idle, is_loading, is_stopped, waits_in_kernel
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
    process,
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


def another_model_before(read: int) -> EngineFacts:
    """A server starts a process for each model, and has read as much as those that ended."""
    server = process(0.0, pid=4000, read_total_bytes=read)
    return replace(LOADING, processes=(server, *LOADING.processes))


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
        (replace(LOADING, engine=None), True),
        (replace(LOADING, engine=None, model_files=()), False),  # dd
        (with_process(LOADING, read_total_bytes=5 * GIB), True),  # and libraries
        (with_process(LOADING, read_total_bytes=6 * GIB), False),
        (another_model_before(6 * GIB), True),
        (EngineFacts(), False),
    ],
)
def test_loading(made: EngineFacts, loading: bool) -> None:
    assert is_loading(node(made)) is loading


def beside_one_that_stopped(made: EngineFacts) -> EngineFacts:
    """An editor in the shell that started it."""
    return replace(made, processes=(*made.processes, process(0.0, pid=4000, state="T")))


@pytest.mark.parametrize(
    ("made", "stopped"),
    [
        (with_process(IDLE, state="T"), True),
        (with_process(IDLE, state="t"), True),
        (with_process(IDLE, state="S"), False),
        (with_process(IDLE, state="T", ended=True), False),
        (with_process(HEALTHY, state="T"), False),  # what it did before is told
        (beside_one_that_stopped(with_process(LOADING, cpu_seconds=0.1)), False),
        (replace(IDLE, frozen_by="/sys/fs/cgroup/x/cgroup.events"), True),
        (replace(IDLE, cards=(use(GIB, None),), frozen_by="/sys/fs/cgroup/x"), True),
        (IDLE, False),
        (EngineFacts(), False),
    ],
)
def test_stopped(made: EngineFacts, stopped: bool) -> None:
    assert is_stopped(node(made)) is stopped


@pytest.mark.parametrize(
    ("made", "waits"),
    [
        (with_process(IDLE, first_state="D", state="D"), True),
        (with_process(IDLE, first_state="S", state="D"), False),
        (with_process(IDLE, first_state="D", state="S"), False),
        (with_process(HEALTHY, first_state="D", state="D"), False),
        (with_process(PAGING, first_state="D", state="D"), False),  # that is told
    ],
)
def test_it_waits_in_the_kernel(made: EngineFacts, waits: bool) -> None:
    assert bool(waits_in_kernel(node(made))) is waits
