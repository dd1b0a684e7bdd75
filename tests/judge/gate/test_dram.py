"""A memory rate is met or missed by what a measurement proves, and unknown otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.dram.facts import DramFacts
from nodecheck.checks.seen import Facts
from nodecheck.judge.gate.dram import dram_read
from nodecheck.model import Measurement, Reason, Status
from tests.judge.gate.nodes import gap, node, told

FLOOR = 40e9
NO_FACTS = Facts()
NOT_KNOWN = "whether it reaches 40 GB/s is not known"


def read(
    rate: float, *flags: str, threads: int = 8, p10: float | None = None, p90: float | None = None
) -> Measurement:
    """A read measurement, all in GB/s."""
    return Measurement(
        name="dram_read",
        kernel="avx2",
        threads=threads,
        median_bytes_per_second=rate * 1e9,
        p10_bytes_per_second=None if p10 is None else p10 * 1e9,
        p90_bytes_per_second=None if p90 is None else p90 * 1e9,
        flags=flags,
    )


@pytest.mark.parametrize(
    ("measured", "status", "text"),
    [
        ([read(41)], "ok", "DRAM read 41 GB/s >= 40 GB/s"),
        ([read(40)], "ok", "DRAM read 40 GB/s >= 40 GB/s"),
        ([read(39.9)], "critical", "DRAM read 39.9 GB/s < 40 GB/s"),
        ([read(39.98)], "critical", "DRAM read 40 GB/s just < 40 GB/s"),
        ([read(40.01)], "ok", "DRAM read 40 GB/s just >= 40 GB/s"),
        ([read(12, threads=1), read(41)], "ok", "DRAM read 41 GB/s >= 40 GB/s"),
        # other work only slows it down
        ([read(41, "contended")], "ok", "DRAM read 41 GB/s >= 40 GB/s"),
        ([read(39, "contended")], "unknown", f"DRAM read 39 GB/s, {NOT_KNOWN}: contended"),
        # anything between p10 and p90 may be the rate of a run that moved
        ([read(50, "bimodal", p10=42, p90=70)], "ok", "DRAM read 42 GB/s >= 40 GB/s"),
        ([read(50, "bimodal", p10=30, p90=70)], "unknown",
         f"DRAM read 50 GB/s, {NOT_KNOWN}: bimodal"),
        ([read(30, "bimodal", p10=20, p90=39)], "critical", "DRAM read 30 GB/s < 40 GB/s"),
        ([read(30, "bimodal", "contended", p10=20, p90=39)], "unknown",
         f"DRAM read 30 GB/s, {NOT_KNOWN}: bimodal, contended"),
        ([read(50, "unsteady")], "unknown", f"DRAM read 50 GB/s, {NOT_KNOWN}: unsteady"),
        # what lies in the caches is read faster than memory
        ([read(90, "undersized")], "unknown",
         f"DRAM read 90 GB/s, {NOT_KNOWN}: undersized"),
        ([read(30, "undersized")], "critical", "DRAM read 30 GB/s < 40 GB/s"),
        # fewer threads say nothing of all where those were disturbed
        ([read(12, threads=1), read(33, "contended")], "unknown",
         f"DRAM read 33 GB/s, {NOT_KNOWN}: contended"),
        ([read(35, threads=1), read(33, "contended")], "unknown",
         f"DRAM read 35 GB/s, {NOT_KNOWN}: fewer threads alone are sure"),
        ([read(10, "contended", threads=1), read(33)], "critical", "DRAM read 33 GB/s < 40 GB/s"),
        ([read(44, "contended", threads=1), read(33)], "ok", "DRAM read 44 GB/s >= 40 GB/s"),
    ],
)  # fmt: skip
def test_a_floor_is_met_or_missed_where_a_figure_proves_it(
    measured: list[Measurement], status: str, text: str
) -> None:
    report = node(NO_FACTS, measurements=tuple(measured))
    found = told(report, dram_read_bytes_per_second=FLOOR)
    assert found[:2] == (status, text)
    assert (found[2] is None) == (status == "unknown")


def test_memory_that_was_not_measured_is_not_fast() -> None:
    skipped = Facts(dram=DramFacts(skipped="the CPUs are busy (83 %)"))
    failed = gap("dram", "*", Reason.FAILED, "the dram probe: died by SIGILL")
    for report, why in (
        (node(skipped), "the CPUs are busy (83 %)"),
        (node(NO_FACTS, failed), "the dram probe: died by SIGILL"),
        (node(NO_FACTS), "not read"),
    ):
        assert told(report, dram_read_bytes_per_second=FLOOR) == (
            "unknown", f"DRAM read not measured: {why}", None,
        )  # fmt: skip


def test_other_measurements_are_no_read_of_all_memory() -> None:
    others = (
        Measurement(name="dram_copy", kernel="x", threads=8, median_bytes_per_second=90e9),
        Measurement(
            name="dram_read", kernel="x", threads=8, median_bytes_per_second=90e9, memory_node=1
        ),
    )
    assert told(node(NO_FACTS, measurements=others), dram_read_bytes_per_second=FLOOR)[0] == (
        "unknown"
    )


FLAGS = st.lists(st.sampled_from(["contended", "bimodal", "unsteady", "undersized"]), unique=True)


@given(
    st.lists(
        st.builds(
            lambda rate, flags, threads: read(rate, *flags, threads=threads, p10=rate, p90=rate),
            st.floats(1, 100),
            FLAGS,
            st.integers(1, 64),
        ),
        min_size=1,
    )
)
def test_a_higher_floor_is_never_easier(measured: list[Measurement]) -> None:
    order = [Status.OK, Status.UNKNOWN, Status.CRITICAL]
    report = node(NO_FACTS, measurements=tuple(measured))
    found = [order.index(dram_read(report, floor * 1e9).status) for floor in range(0, 110, 5)]
    assert found == sorted(found)
