"""A fleet at a terminal and as a page: the odd nodes first, a healthy fleet in ten lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.model import Status
from nodecheck.records.fleet.fleet import Fleet, Unread, make_fleet
from nodecheck.records.fleet.nodes import node
from nodecheck.render.fleet.html import page
from nodecheck.render.fleet.terminal import render
from nodecheck.render.fleet.words import odd_rows
from nodecheck.render.layout import plain
from nodecheck.report import Report
from tests.records.fleets import changed, fleet, healthy, member, mixed, with_cards, with_facts
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
    uses_the_palette,
)

HOSTILE = "\x1b[31m<script>alert(1)</script>\u202e"


def text(made: Fleet, width: int = 100) -> str:
    return plain(render(made, width))


def test_a_healthy_fleet_takes_ten_lines() -> None:
    lines = text(fleet(healthy(100))).splitlines()
    assert lines[2].startswith("NONE ODD")
    assert len(lines) <= 10


def label(made: Fleet) -> tuple[str, str]:
    """What the verdict is called, and its style."""
    span = render(made, 100)[2][0]
    return span.text.strip(), span.style


def unmeasured(report: Report) -> Report:
    return replace(report, measurements=())


def critical(report: Report) -> Report:
    return replace(report, verdict=replace(report.verdict, status=Status.CRITICAL))


def test_a_healthy_fleet_that_was_measured_is_green() -> None:
    assert label(fleet(healthy(12))) == ("NONE ODD", "bold green")


def test_nothing_measured_is_said_and_is_not_green() -> None:
    made = fleet(map(unmeasured, healthy(12)))
    assert label(made) == ("NONE ODD", "bold magenta")
    assert (
        "12 nodes are like the others of their group by hardware and findings; no figure was "
        "measured." in " ".join(text(made).split())
    )


def test_how_many_were_measured_is_said() -> None:
    made = fleet([*map(unmeasured, healthy(4)), *healthy(12)[4:]])
    assert label(made)[1] == "bold green"
    assert "group; measured on 8 of 12." in " ".join(text(made).split())
    few = fleet([*map(unmeasured, healthy(8)), *healthy(12)[8:]])
    assert label(few)[1] == "bold magenta"


def test_what_was_disturbed_counts_as_not_measured() -> None:
    def disturbed(report: Report) -> Report:
        found = tuple(replace(each, flags=("contended",)) for each in report.measurements)
        return replace(report, measurements=found)

    assert "no figure was measured" in " ".join(text(fleet(map(disturbed, healthy(9)))).split())


def test_critical_nodes_that_are_all_alike_are_told_and_not_green() -> None:
    made = fleet(map(critical, healthy(12)))
    assert "12 critical" in text(made).splitlines()[0]
    assert label(made) == ("NONE ODD", "bold yellow")
    assert "12 nodes are critical." in text(made)
    shown = Page(page()(made))
    assert "12 critical" in shown.said
    assert [each["class"] for each in shown.all("p") if "verdict" in (each.get("class") or "")] == [
        "verdict warning"
    ]


def test_the_odd_nodes_come_first_the_worst_at_the_top() -> None:
    lines = text(fleet(mixed())).splitlines()
    assert " ".join(" ".join(lines[2:4]).split()) == (
        "3 ODD of 20 nodes. gpu002: GPUs 7x NVIDIA L40, not 8x NVIDIA L40; also gpu001 and gpu003."
    )
    rows = [line.split()[0] for line in lines[6:] if line.startswith(" gpu")]
    assert rows[:3] == ["gpu002", "gpu001", "gpu003"]


def test_a_figure_is_told_with_its_median_and_its_spreads() -> None:
    row = next(x for x in text(fleet(mixed())).splitlines() if "gpu001" in x and "GB/s" in x)
    assert "memory read, 64" in row
    assert row.count("GB/s") == 2
    assert re.search(r"-(4[6-9]|5[0-4]) % \(\d\d\)$", row)


def test_the_matrix_shows_what_is_odd_and_what_is_disturbed() -> None:
    lines = text(fleet(mixed())).splitlines()
    start = next(n for n, line in enumerate(lines) if "% of the group's median" in line)
    rows = {line.split()[0]: line.split()[1:] for line in lines[start + 2 : start + 21]}
    assert rows["gpu001"][0].endswith("!")
    assert not any(cell.endswith("!") for cell in rows["gpu003"])
    assert rows["gpu004"][0].endswith("~")


def test_a_large_fleet_has_no_matrix_at_the_terminal() -> None:
    assert "% of the group's median" not in text(fleet(mixed(60)))


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
    said = text(fleet(reports))
    assert "and 5 nodes more: --json tells all" in said
    assert re.search(r"; also (gpu0\d\d, ){2}gpu0\d\d and 21 more\.", " ".join(said.split()))


def test_where_nodes_are_too_few_their_figures_stand_side_by_side() -> None:
    said = text(changed(3, 1, lambda _: member(1, dram_read_64=0.5)))
    assert (
        "NOT TOLD It takes 5 nodes of the same hardware to tell which is odd; here at most 3 have "
        "the same." in " ".join(said.split())
    )
    [differ] = [line for line in said.splitlines() if "differ in" in line]
    assert re.search(r"memory read, 64 threads: 2\d\d GB/s on 2, 10\d GB/s on 1", differ)
    [row] = [line for line in said.splitlines() if line.startswith(" gpu001")]
    assert re.match(r" gpu001 +5\d ", row)
    assert "!" not in row


def test_nodes_of_unknown_hardware_are_said_to_be_so() -> None:
    unknown = {"brand": None, "logical_cpus": None, "implementer": None}
    said = text(fleet(with_facts(report, cpu=unknown) for report in healthy(6)))
    assert "NOT TOLD   Too little is known of their hardware to tell which is odd." in said


def test_what_was_not_read_is_named() -> None:
    reports = [node(report, f"{n}.json") for n, report in enumerate(healthy(5))]
    unread = [Unread(f"bad{n}.json", "not a nodecheck report") for n in range(7)]
    told = text(make_fleet(reports, unread))
    assert "7 files not read" in told
    assert "bad0.json: not read: not a nodecheck report" in told
    assert "2 more files not read" in told
    assert "1 more file not read" in text(make_fleet(reports, unread[:6]))


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for made in (fleet(mixed()), fleet(healthy(9)), fleet(healthy(2))):
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
    made = fleet(mixed())
    shown = Page(page()(made))
    needs_nothing_from_elsewhere(shown)
    is_told_to_readers(shown, "nodecheck compare: 20 nodes")
    uses_the_palette(shown)
    assert "3 ODD of 20 nodes." in shown.said
    assert "gpu001" in shown.said


def test_in_the_pages_matrix_colour_is_not_the_only_sign() -> None:
    shown = Page(page()(fleet(mixed())))
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
