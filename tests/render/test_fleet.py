"""A fleet at a terminal and as a page: the odd nodes first, a healthy fleet in ten lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.records.fleet.fleet import Fleet, Unread, make_fleet
from nodecheck.records.fleet.nodes import node
from nodecheck.render.fleet import render
from nodecheck.render.fleet_html import page
from nodecheck.render.fleet_words import odd_rows
from nodecheck.render.layout import plain
from tests.records.fleets import changed, fleet, healthy, member, with_cards, with_facts
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
    uses_the_palette,
)

HOSTILE = "\x1b[31m<script>alert(1)</script>\u202e"


def mixed(nodes: int = 20) -> Fleet:
    reports = healthy(nodes)
    reports[1] = member(1, dram_read_64=0.5, decode_q4_k_64=0.5)
    reports[2] = with_cards(reports[2], 7)
    reports[3] = with_facts(reports[3], gpu={"driver_version": "535.183.01"})
    one, *rest = reports[4].measurements
    reports[4] = replace(reports[4], measurements=(replace(one, flags=("contended",)), *rest))
    return fleet(reports)


def text(made: Fleet, width: int = 100) -> str:
    return plain(render(made, width))


def test_a_healthy_fleet_takes_ten_lines() -> None:
    lines = text(fleet(healthy(100))).splitlines()
    assert lines[2].startswith("NONE ODD")
    assert len(lines) <= 10


def test_the_odd_nodes_come_first_the_worst_at_the_top() -> None:
    lines = text(mixed()).splitlines()
    assert lines[2] == "3 ODD   of 20 nodes. gpu002: GPUs 7x NVIDIA L40, not 8x NVIDIA L40."
    rows = [line.split()[0] for line in lines[6:] if line.startswith(" gpu")]
    assert rows[:3] == ["gpu002", "gpu001", "gpu003"]


def test_a_figure_is_told_with_its_median_and_its_spreads() -> None:
    row = next(x for x in text(mixed()).splitlines() if "gpu001" in x and "GB/s" in x)
    assert "memory read, 64" in row
    assert row.count("GB/s") == 2
    assert re.search(r"-(4[6-9]|5[0-4]) % \(\d\d\)$", row)


def test_the_matrix_shows_what_is_odd_and_what_is_disturbed() -> None:
    lines = text(mixed()).splitlines()
    start = next(n for n, line in enumerate(lines) if "% of the group's median" in line)
    rows = {line.split()[0]: line.split()[1:] for line in lines[start + 2 : start + 21]}
    assert rows["gpu001"][0].endswith("!")
    assert not any(cell.endswith("!") for cell in rows["gpu003"])
    assert rows["gpu004"][0].endswith("~")


def test_a_large_fleet_has_no_matrix_at_the_terminal() -> None:
    assert "% of the group's median" not in text(mixed(60))


def test_nodes_that_are_odd_in_the_same_share_a_row() -> None:
    reports = [
        with_facts(report, gpu={"driver_version": "535.183.01"}) if n < 5 else report
        for n, report in enumerate(healthy(60))
    ]
    made = fleet(reports)
    rows, left_out = odd_rows(made.odd, 20, 3)
    assert [row.nodes for row in rows] == ["gpu000, gpu001, gpu002 and 2 more"]
    assert left_out == 0
    assert text(made).count("550.54.14") == 2  # in the sentence and in the one row


def test_many_odd_nodes_are_cut_short() -> None:
    reports = [member(n, dram_read_64=0.5 + n / 100 if n < 25 else 1.0) for n in range(300)]
    assert "and 5 nodes more: --json tells all" in text(fleet(reports))


def test_what_was_not_read_is_named() -> None:
    reports = [node(report, f"{n}.json") for n, report in enumerate(healthy(5))]
    unread = [Unread(f"bad{n}.json", "not a nodecheck report") for n in range(7)]
    told = text(make_fleet(reports, unread))
    assert "7 files not read" in told
    assert "bad0.json: not read: not a nodecheck report" in told
    assert "2 more files not read" in told


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for made in (mixed(), fleet(healthy(9)), fleet(healthy(2))):
        assert max(map(len, text(made, width).splitlines())) <= width


@settings(max_examples=30)
@given(st.text(max_size=300), st.sampled_from([60, 100]))
def test_whatever_a_name_holds(name: str, width: int) -> None:
    reports = healthy(6)
    reports[1] = replace(
        with_cards(reports[1], 8, name=name), host=replace(reports[1].host, name=name)
    )
    for made in (fleet(reports), fleet(reports[:2])):
        told = text(made, width)
        assert not set(told) & set("\x00\x08\x1b\u202e\u2066")


def test_the_page_is_whole_and_told_to_readers() -> None:
    made = mixed()
    shown = Page(page()(made))
    needs_nothing_from_elsewhere(shown)
    is_told_to_readers(shown, "nodecheck compare: 20 nodes")
    uses_the_palette(shown)
    assert "3 ODD of 20 nodes." in shown.said
    assert "gpu001" in shown.said


def test_in_the_pages_matrix_colour_is_not_the_only_sign() -> None:
    shown = Page(page()(mixed()))
    cells = [c for c, t in zip(shown.all("td"), shown.texts["td"], strict=True) if "▼" in t]
    assert [c["class"] for c in cells] == ["band-3", "band-3"]
    assert all("odd" in (c["title"] or "") for c in cells)
    assert not any(
        (c.get("class") or "") == "band-3" and "▼" not in t
        for c, t in zip(shown.all("td"), shown.texts["td"], strict=True)
    )


def test_the_page_of_a_large_fleet_shows_a_sample_and_says_so() -> None:
    shown = Page(page()(changed(300, 7, lambda _: member(7, dram_read_64=0.5))))
    assert "200 of 300 nodes: the odd ones, and of the others a sample." in shown.said
    assert shown.texts["tr"].__len__() < 300


def test_a_hostile_name_is_text_on_the_page() -> None:
    made = changed(6, 2, lambda r: replace(r, host=replace(r.host, name=HOSTILE)))
    holds_nothing_hostile(Page(page()(made)))
