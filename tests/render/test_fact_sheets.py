"""Facts as labels and values: every member has a name of its own and a value with its unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.memory.facts import MemoryFacts
from nodecheck.checks.numa.facts import NumaFacts, NumaNode
from nodecheck.checks.seen import Facts
from nodecheck.render.report.fact_sheets import (
    LEFT_OUT,
    LONG_BESIDE,
    TITLES,
    Sheet,
    label,
    sheets,
    text,
)
from tests.render.reports import large, of_tree, unread


def structs(kind: type) -> Iterator[type]:
    """The structs that a struct holds, itself first."""
    yield kind
    for hint in get_type_hints(kind).values():
        for inner in get_args(hint) or (hint,):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from structs(inner)


KINDS = list(structs(Facts))


def test_every_subject_has_a_heading() -> None:
    assert TITLES.keys() == set(Facts.__struct_fields__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_two_members_have_one_label(kind: Any) -> None:
    labels = [label(name) for name in kind.__struct_fields__ if name not in LEFT_OUT]
    assert all(labels)
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("total_bytes", 150 << 30, "150 GiB"),
        ("vram_bytes_per_second", 864.096e9, "864 GB/s"),
        ("buffer_bytes_per_thread", 512 << 20, "512 MiB"),
        ("used_share", 0.94, "94 %"),
        ("throttled_share_now", 0.031, "3 %"),
        ("clock_gettime_seconds", 2.41e-8, "24 ns"),
        ("sample_seconds", 0.1004, "0.10 s"),
        ("maximum_mhz", 3725.0, "3,725 MHz"),
        ("current_gts", 2.5, "2.5 GT/s"),
        ("configured_mts", 4800, "4,800 MT/s"),
        ("temperature_celsius", 41, "41 °C"),
        ("power_limit_watts", 300.0, "300 W"),
        ("memory_bus_bits", 384, "384 bit"),
        ("usable_cpus", (0, 1, 2, 3, 8), "0-3,8"),
        ("distances", (10, 21), "10, 21"),
        ("flags", ("sse", "sse2"), "sse, sse2"),
        ("witness", {"avx2": "executed"}, "avx2 executed"),
        ("guest", True, "yes"),
        ("hung", False, "no"),
        ("inodes_total", 10_000_000, "10,000,000"),
        ("logical_cpus", 8, "8"),
        ("cpu_quota", 1.5, "1.5"),
        ("brand", "AMD EPYC", "AMD EPYC"),
    ],
)
def test_a_value_is_written_in_the_unit_of_its_name(member: str, value: Any, words: str) -> None:
    assert text(member, value) == words


def sheet(title: str, **facts: Any) -> Sheet:
    report = replace(unread(), facts=replace(Facts(), **facts))
    return next(each for each in sheets(report) if each.title == title)


def test_what_is_not_known_is_left_out_and_nothing_is_not() -> None:
    assert sheets(unread()) == []
    ram = sheet("RAM", memory=MemoryFacts(total_bytes=1 << 30, swap_total_bytes=0))
    assert ram.facts == (("total", "1 GiB"), ("swap total", "0 MiB"))
    assert sheet("CPU", cpu=CpuFacts(steal_share=0.0)).facts == (("steal", "0 %"),)


def test_few_members_are_columns() -> None:
    nodes = (NumaNode(id=0, cpus=(0, 1), memory_bytes=1 << 30), NumaNode(id=1, cpus=(2, 3)))
    (table,) = sheet("NUMA nodes", numa=NumaFacts(nodes=nodes)).tables
    assert table.headings == ("node", "CPUs", "memory")
    assert table.rows == (("0", "0-1", "1 GiB"), ("1", "2-3", "-"))


def test_many_members_are_rows_of_tables_that_are_not_too_wide() -> None:
    (gpus,) = (each for each in sheets(large()) if each.title == "GPUs")
    assert [table.name for table in gpus.tables] == ["GPUs, 1-6", "GPUs, 7-12", "GPUs, 13-16"]
    assert gpus.tables[2].headings == ("index", "12", "13", "14", "15")
    assert ("name", *["NVIDIA L40"] * 6) in gpus.tables[0].rows


def test_long_values_have_fewer_beside_them() -> None:
    (disk,) = (each for each in sheets(large()) if each.title == "Disk")
    assert {len(table.headings) for table in disk.tables} == {1 + LONG_BESIDE}


def test_each_hop_of_a_link_names_its_accelerator() -> None:
    pcie = next(each for each in sheets(of_tree("three-l40")) if each.title == "PCIe links")
    (table,) = pcie.tables
    assert table.headings[:3] == ("address", "0000:01:00.0", "0000:00:10.0")
    assert ("accelerator", *["0000:01:00.0"] * 2, *["0000:02:00.0"] * 2,
            *["0000:03:00.0"] * 2) in table.rows  # fmt: skip
