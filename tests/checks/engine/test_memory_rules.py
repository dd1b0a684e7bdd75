"""Weights that are read again and again, and what looks like it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.model import Finding, Measurement, Severity
from nodecheck.units import GIB
from tests.checks.engine.engines import (
    HEALTHY,
    LOADING,
    ON_CARD,
    PAGING,
    engine,
    gpu,
    ids,
    judged,
    limit,
    model,
    node,
    process,
    threads,
    with_process,
)

DRAM = Measurement(name="dram_read", kernel="avx2", threads=8, median_bytes_per_second=30e9)
UNLIMITED = replace(PAGING, memory_group=None, file_refaults=200_000)


def only(made: EngineFacts, **facts: Any) -> Finding:
    [found] = judged(node(made, **facts))
    return found


def test_a_model_larger_than_its_control_group() -> None:
    found = only(PAGING, measurements=(DRAM,))
    assert (found.id, found.severity) == ("engine.paging", Severity.CRITICAL)
    assert found.headline == "Its weights are read from disk again and again, 180 MB/s"
    assert found.summary == (
        "Weights do not stay in memory: 2.5 GiB of 4 GiB missing, 180 MB/s from disk"
    )
    assert [piece.value for piece in found.evidence] == [
        "858 MiB read from storage in 5.0 s, 8,000 page faults waited for it",
        "200,000 pages of files came back that had been thrown out",
        "model.gguf: 1.5 GiB of 4 GiB in memory",
        "limit 2 GiB, 2 GiB used, met 100 times",
    ]
    assert "14.9 s or more at 180 MB/s, 0.09 s from memory at 30 GB/s: 167x" in found.impact
    assert "locking cannot help" in found.remedy.text
    assert found.remedy.commands == ("sudo systemctl set-property llama.service MemoryMax=5G",)


def test_read_ahead_leaves_few_page_faults() -> None:
    """108 MB/s with one fault a second, as a file of twice a group's memory was read."""
    made = with_process(PAGING, major_faults=5, read_bytes=540_000_000)
    assert ids(node(made)) == ["paging"]


def test_a_node_that_is_too_small() -> None:
    found = only(UNLIMITED, memory=MemoryFacts(total_bytes=3 * GIB))
    assert "do not fit" in found.remedy.text
    assert found.evidence[1].source == "/proc/vmstat workingset_refault_file"


def test_locking_is_advised_where_it_fits() -> None:
    made = with_process(UNLIMITED, locked_limit_bytes=8 << 20)
    found = only(made, memory=MemoryFacts(total_bytes=32 * GIB))
    assert found.remedy.commands == (
        "ps -eo rss,pid,args --sort=-rss | head",
        "ulimit -l unlimited",
        "llama-server --load-mode mmap+mlock  # older builds: --mlock",
    )


def test_a_limit_above_what_the_node_has_is_not_advised() -> None:
    found = only(PAGING, memory=MemoryFacts(total_bytes=4 * GIB))
    assert found.remedy.text.startswith("Take a smaller model")
    assert found.remedy.commands == ()


def test_a_card_takes_layers_off_the_ram() -> None:
    found = judged(node(PAGING, gpu()))
    assert [each.id for each in found] == ["engine.paging"]
    assert "llama-server --n-gpu-layers 999" in found[0].remedy.commands


def test_a_fast_disk_is_not_critical() -> None:
    made = with_process(PAGING, read_bytes=15_000_000_000)
    made = replace(made, memory_group=limit(2 * GIB, 3_600_000))
    assert only(made).severity is Severity.WARNING


@pytest.mark.parametrize(("read", "raised"), [(19_900_000, False), (20_000_000, True)])
def test_a_stray_page_is_none(read: int, raised: bool) -> None:
    assert bool(ids(node(with_process(PAGING, read_bytes=read)))) is raised


@pytest.mark.parametrize(("refaults", "raised"), [(4_999, False), (5_000, True)])
def test_a_few_pages_come_back_anywhere(refaults: int, raised: bool) -> None:
    made = with_process(PAGING, read_bytes=40_000_000)
    assert bool(ids(node(replace(made, memory_group=limit(2 * GIB, refaults))))) is raised


@pytest.mark.parametrize(("refaults", "raised"), [(109_000, False), (110_000, True)])
def test_half_of_what_it_reads_must_be_the_same_again(refaults: int, raised: bool) -> None:
    """Else another program's pages come back while this one reads its model for the first time."""
    made = replace(UNLIMITED, file_refaults=refaults)
    assert bool(ids(node(made))) is raised


@pytest.mark.parametrize(("page_bytes", "raised"), [(4096, False), (65536, True), (None, False)])
def test_pages_have_another_size_on_other_kernels(page_bytes: int | None, raised: bool) -> None:
    """20,000 that came back are a tenth of what it read, or more than all of it."""
    made = replace(UNLIMITED, file_refaults=20_000, page_bytes=page_bytes)
    assert bool(ids(node(made))) is raised


def test_what_came_back_to_its_own_group_counts_whatever_a_page_is() -> None:
    assert ids(node(replace(PAGING, page_bytes=None))) == ["paging"]


def test_its_own_groups_word_counts_before_the_nodes() -> None:
    made = replace(PAGING, memory_group=limit(2 * GIB, 0), file_refaults=900_000)
    assert ids(node(made)) == []


@pytest.mark.parametrize("read_gib", [0.3, 0.7, 1.49])
@pytest.mark.parametrize(
    "first",
    [
        UNLIMITED,  # pages of other programs come back
        replace(PAGING, memory_group=limit(8 * GIB, 200_000)),  # as in the group that it is in
    ],
)
def test_what_has_not_read_its_files_once_reads_nothing_again(
    first: EngineFacts, read_gib: float
) -> None:
    made = replace(first, model_files=(model(1.5 * GIB, cached=read_gib * GIB),))
    made = with_process(made, read_total_bytes=int(read_gib * GIB))
    assert ids(node(made)) == []
    assert ids(node(with_process(made, read_total_bytes=int(1.5 * GIB)))) == ["paging"]


def test_a_model_that_cannot_stay_was_in_memory_before_it_began() -> None:
    """It has read little yet, and reads again what its group has thrown out."""
    thrashed = with_process(PAGING, read_total_bytes=GIB)
    assert ids(node(thrashed)) == ["paging"]
    roomy = replace(thrashed, memory_group=limit(8 * GIB, 200_000))
    assert ids(node(roomy, memory=MemoryFacts(total_bytes=3 * GIB))) == ["paging"]


def test_the_nodes_pages_are_its_own_only_once_it_has_read_all() -> None:
    made = with_process(UNLIMITED, read_total_bytes=3 * GIB)
    assert ids(node(made, memory=MemoryFacts(total_bytes=3 * GIB))) == []
    assert ids(node(with_process(UNLIMITED, read_total_bytes=None))) == []
    assert ids(node(replace(UNLIMITED, model_files=()))) == []


def test_the_sum_of_reads_is_of_all_its_processes() -> None:
    """One of which it is not told may have read the rest."""
    first = with_process(PAGING, read_total_bytes=GIB)
    first = replace(first, memory_group=limit(8 * GIB, 200_000))
    assert ids(node(first)) == []
    hidden = replace(first, processes=(*first.processes, process(0.0, pid=4243)))
    assert ids(node(hidden)) == ["paging"]


def test_where_no_refaults_are_told_the_sum_of_reads_tells() -> None:
    unknown = replace(PAGING, memory_group=None, file_refaults=None)
    found = only(unknown)
    assert "30 GiB read since it began, for 4 GiB of model files" in found.evidence[1].value
    assert ids(node(with_process(unknown, read_total_bytes=int(5.1 * GIB)))) == []
    assert ids(node(with_process(unknown, read_total_bytes=None))) == []


def test_a_changed_model_is_no_paging() -> None:
    """The model before it was larger, and was read by the same process."""
    made = replace(with_process(LOADING, read_total_bytes=40 * GIB), file_refaults=3)
    assert ids(node(made)) == []


def test_another_users_reads_are_hidden() -> None:
    hidden = with_process(PAGING, read_bytes=None, read_total_bytes=None)
    assert ids(node(hidden)) == ["paging"]
    assert "1,600 page faults a second" in str(only(hidden).headline)
    assert ids(node(with_process(hidden, major_faults=49))) == []
    of_node = replace(hidden, memory_group=None, file_refaults=200_000)
    assert ids(node(of_node)) == []  # whose pages those are is not known


def test_swap() -> None:
    swapping = with_process(
        HEALTHY, swapped_bytes=GIB, resident_bytes=5 * GIB, major_faults=900, read_bytes=30_000_000
    )
    found = only(swapping)
    assert found.id == "engine.paging"
    assert found.summary == "1 GiB of its 6 GiB are in swap: 6 MB/s from disk"
    assert found.headline == "Its swapped memory is read from disk again and again, 6 MB/s"
    assert ids(node(with_process(swapping, swapped_bytes=GIB // 2))) == []  # never used
    assert ids(node(with_process(swapping, major_faults=9))) == []
    loads = replace(swapping, model_files=(model(cached=GIB),))
    assert ids(node(loads)) == []


@pytest.mark.parametrize(
    "made",
    [
        LOADING,
        with_process(HEALTHY, read_bytes=900_000_000),  # reads a cache of its own from disk
        replace(with_process(ON_CARD, read_bytes=900_000_000), file_refaults=200_000),
        engine(threads(8, 0.98, 0.0), file_refaults=500_000),  # another program's
        replace(PAGING, state="absent"),
    ],
)
def test_what_looks_like_it(made: EngineFacts) -> None:
    assert ids(node(made)) == []


def test_a_file_that_a_card_holds_need_not_be_in_memory() -> None:
    made = with_process(ON_CARD, read_bytes=900_000_000)
    made = replace(made, model_files=(model(16 * GIB, cached=GIB),), file_refaults=200_000)
    assert ids(node(made, gpu())) == []
