"""The page of a benchmark: whole in itself, readable by all, in the dark and on paper."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.render.bench.html import page
from nodecheck.report import Report
from tests.render.benches import ALL, CONTENDED, KVM64, NODE, NOTHING, REPORTS
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
)

EVERY = pytest.mark.parametrize("name", sorted(REPORTS))
MAKE = page()


def made(report: Report) -> Page:
    return Page(MAKE(report, ALL))


@EVERY
def test_it_is_whole_and_told_to_readers(name: str) -> None:
    page = made(REPORTS[name])
    needs_nothing_from_elsewhere(page)
    is_told_to_readers(page, "nodecheck bench: node7")


def test_the_same_report_gives_the_same_page() -> None:
    assert MAKE(NODE, ALL) == MAKE(NODE, ALL)


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1))
def test_names_cannot_leave_their_place(kernel: str) -> None:
    measurements = tuple(replace(m, kernel=f"<script>{kernel}") for m in KVM64.measurements)
    holds_nothing_hostile(made(replace(KVM64, measurements=measurements)))


def test_what_the_terminal_says_stands_in_the_page() -> None:
    page = made(KVM64)
    said = page.said
    for words in (
        "CRITICAL Memory is read at 161 GB/s on 8 threads.",
        "(memory would allow 21x more)",
        "within 2 groups of CPUs: 0-3; 4-7",
        "Memory would allow 3.2x to 21x more of q4_k, q4_0 and q8_0; memory is the limit of f16.",
        "critical: cpu.decode_compute_bound",
        "qm set <vmid> --cpu host",
    ):
        assert words in said
    assert len(page.all("svg")) == 2
    assert "Memory of another node is read at 45 %" in made(NODE).said
    assert "Nothing was measured" in made(NOTHING).said
    assert not made(NOTHING).all("svg")


def test_a_contended_figure_is_marked_in_words_too() -> None:
    page = made(CONTENDED)
    assert [a["title"] for a in page.all("abbr")] == ["contended, unsteady"] * 4
    assert "other CPUs 34 % busy" in page.said


def test_each_curve_has_its_points() -> None:
    page = made(KVM64)
    assert len([c for c in page.all("circle") if c["r"] == "4"]) == 4 * 4
