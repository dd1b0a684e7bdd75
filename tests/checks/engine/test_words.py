"""What is told of an engine where nothing is wrong with it, or nothing can be judged."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.facts import CpuLibrary, EngineFacts
from nodecheck.checks.engine.words import is_idle, is_loading, looked_at
from nodecheck.model import Gap, Reason
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    HEALTHY,
    IDLE,
    LOADING,
    ON_CARD,
    PAGING,
    PARTLY_ON_CARD,
    REMOTE,
    THROTTLED,
    engine,
    model,
    node,
    quota,
    threads,
    two_nodes,
    use,
    with_process,
)


def test_each_thing_has_its_number() -> None:
    made = replace(HEALTHY, cpu_group=quota(9.0, 1), cards=(use(0, 0.0),))
    assert looked_at(node(made, numa=two_nodes())) == (
        "Threads: 8 of 20 computed, each 98 % of 5.0 s; waited at most 1 %",
        "CPUs: 7.8 used of 8 (0-7); others used 0.1; longest wait 0 %",
        "CPU quota: 9 CPUs, stopped it in 1 of 50 periods",
        "Disk: 0 page faults waited for it, 0 MB/s read",
        "Model files: 4 GiB of 4 GiB in memory",
        "CPU code: ggml for haswell",
        "Cards: 0000:01:00.0 0 MiB, 0 % busy",
        "NUMA: not known",
    )


def test_what_was_not_read_says_why() -> None:
    gaps = (
        Gap(check="memory", field="model_files", reason=Reason.FAILED, detail="not this"),
        Gap(check="engine", field="model_files", reason=Reason.DENIED, detail="maps: denied"),
        Gap(check="engine", field="processes.numa_bytes", reason=Reason.DENIED, detail="numa"),
        Gap(check="engine", field="cards.memory_bytes", reason=Reason.FAILED, detail="NVML"),
    )
    made = EngineFacts(state="watched", pid=1, seconds=5.0)
    assert looked_at(node(made, numa=two_nodes()), gaps) == (
        "Threads: not known",
        "CPUs: not known",
        "CPU quota: none",
        "Disk: not known",
        "Model files: not known: maps: denied",
        "CPU code: no library that computes on the CPU",
        "Cards: not known: NVML",
        "NUMA: not known: numa",
    )


def test_where_all_failed_each_line_says_so() -> None:
    gap = Gap(check="engine", field="*", reason=Reason.TIMEOUT, detail="no answer in 20 s")
    told = looked_at(node(EngineFacts()), (gap,))
    assert all(line.endswith("not known: no answer in 20 s") for line in told)


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (IDLE, "Threads: none of 20 computed"),
        (engine(threads(1, 0.9, None)),
         "Threads: 1 of 20 computed 90 % of 5.0 s; its wait is not known"),
        (replace(HEALTHY, cpu_group=replace(quota(2.0, 0), periods=None)),
         "CPU quota: 2 CPUs, how often it stopped the engine is not known"),
        (with_process(HEALTHY, read_bytes=None, swapped_bytes=GIB),
         "Disk: 0 page faults waited for it, what was read is not known, 1 GiB in swap"),
        (replace(HEALTHY, model_files=(replace(model(), cached_bytes=None),)),
         "Model files: 4 GiB, how much is in memory is not known"),
        (replace(HEALTHY, libraries=(CpuLibrary(path="/x/libtorch_cpu.so", family="torch"),)),
         "CPU code: torch that chooses at run time"),
        (replace(HEALTHY, settings={"gpu_layers": "0"}),
         "Cards: none seen; it was started for the CPU (gpu_layers 0)"),
        (replace(ON_CARD, cards=(use(None, None),)),
         "Cards: 0000:01:00.0 what it holds is not known, load not known"),
        (REMOTE, "NUMA: 94 % of 4.2 GiB on nodes where it does not run"),
        (with_process(IDLE, numa_bytes={0: GIB}),
         "NUMA: 1 GiB, where its threads run is not known"),
    ],
)  # fmt: skip
def test_a_line(made: EngineFacts, line: str) -> None:
    assert line in looked_at(node(made, numa=two_nodes()))


def test_a_node_with_one_numa_node() -> None:
    numa = replace(two_nodes(), nodes=two_nodes().nodes[:1])
    assert "NUMA: one node" in looked_at(node(HEALTHY, numa=numa))


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
