"""The page of a report: the whole record, whole in itself, readable by all."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from nodecheck.model import Severity, Viability
from nodecheck.render.layout import plain
from nodecheck.render.report.html import page
from nodecheck.render.report.terminal import render
from nodecheck.render.styles import VERDICTS
from nodecheck.report import Report
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
    uses_the_palette,
)
from tests.render.reports import REPORTS, hostile, large, of_tree

EVERY = pytest.mark.parametrize("name", sorted(REPORTS))
MAKE = page()


def made(report: Report) -> Page:
    return Page(MAKE(report))


@EVERY
def test_it_is_whole_and_told_to_readers(name: str) -> None:
    page = made(REPORTS[name]())
    if name != "hostile":
        needs_nothing_from_elsewhere(page)
    is_told_to_readers(page, page.texts["title"][0])
    uses_the_palette(page)


def test_names_cannot_leave_their_place() -> None:
    page = made(hostile())
    holds_nothing_hostile(page)
    assert not page.all("b")
    assert max(map(len, page.said.split())) < 300


def test_the_same_report_gives_the_same_page() -> None:
    assert MAKE(large()) == MAKE(large())


@pytest.mark.parametrize("name", ["three-l40", "healthy", "contended", "large", "unread"])
def test_nothing_that_the_report_says_is_left_out(name: str) -> None:
    report = REPORTS[name]()
    said = made(report).said
    assert f"{report.verdict.status.value.upper()} {report.verdict.headline}" in said
    for finding in report.findings:
        assert finding.summary.rstrip(".") in said
        if finding.severity is not Severity.INFO:
            proofs = [part for each in finding.evidence for part in (each.value, each.source)]
            remedy = finding.remedy
            for words in (finding.id, finding.impact, remedy.text, *remedy.commands, *proofs):
                assert " ".join(words.split()) in said, finding.id
    for each in report.strategies:
        for words in (each.strategy, each.limit, each.basis, VERDICTS[each.viability]):
            assert words in said
    for words in (*report.verdict.ruled_out, *report.verdict.not_checked):
        assert words in said
    for gap in report.gaps:
        assert f"{gap.reason.value}: {' '.join(gap.detail.split())}" in said


def test_figures_that_are_older_than_the_report_say_so() -> None:
    report = of_tree("three-l40")
    older = replace(report, measured_time="2026-03-01T03:00:00+00:00")
    words = "measured 2026-03-01 03:00"
    assert words in MAKE(older)
    assert words in plain(render(older, 200))
    assert words not in MAKE(report)
    assert words not in plain(render(report, 200))


def test_it_stands_in_the_order_of_the_terminal() -> None:
    page = made(of_tree("three-l40"))
    assert page.texts["h2"] == [
        "Why", "What this node can do", "Ruled out", "Not checked", "Noted", "Measured", "Facts",
        "Not known",
    ]  # fmt: skip
    assert page.texts["h3"][:3] == [
        "critical: cpu.hypervisor_masked", "warning: disk.low", "warning: mem.bandwidth_low",
    ]  # fmt: skip


def test_speeds_are_drawn_and_told_with_their_verdicts() -> None:
    report = of_tree("three-l40")
    chart, *_ = made(report).all("svg")
    told = chart["aria-label"] or ""
    assert "on a logarithmic axis. gpu-resident: 34-42 (viable); tensor-parallel: <= 125" in told
    assert "partial-offload ngl 64: 7.7-19 (not viable)" in told
    assert "host-kv-pool" not in told  # seconds are no speed
    unknown = [
        replace(s, viability=Viability.UNKNOWN, low=None, high=None, points=())
        for s in report.strategies
    ]
    without = made(replace(report, strategies=tuple(unknown), measurements=()))
    assert not without.all("svg")


def test_a_bar_reaches_from_the_slowest_to_the_fastest_on_a_logarithmic_axis() -> None:
    drawn = [p for p in made(of_tree("three-l40")).all("path") if "reactive" in (p["class"] or "")]
    ends = []
    for path in drawn[:5]:
        across = [float(x) for x in re.findall(r"(-?[\d.]+) -?[\d.]+", path["d"] or "")]
        ends.append((min(across), max(across)))
    gpu, ceiling, _, _, cpu = ends
    assert cpu[0] < cpu[1] < gpu[0] < gpu[1] < ceiling[0] == ceiling[1]
    # 0.2-0.5 is nearly as wide as it is long from there to 1; linear, it would be a dot
    assert cpu[1] - cpu[0] > 0.1 * (ceiling[0] - cpu[0])


def test_a_ceiling_alone_is_a_line_within_the_axis() -> None:
    report = of_tree("three-l40")
    (ceiling,) = (s for s in report.strategies if s.strategy == "tensor-parallel")
    page = made(replace(report, strategies=(ceiling,)))
    (bar,) = re.findall(r'<g class="[^"]*unknown">.*?<path d="([^"]+)"', page.source)[:1]
    across = {float(x) for x in re.findall(r"(-?[\d.]+) -?[\d.]+", bar)}
    assert len(across) == 1
    assert 200 < across.pop() < 500
    assert re.findall(r'y="65.0" class="">(\d+)</text>', page.source) == ["12", "100", "1247"]


def test_what_was_measured_stands_with_its_spread_and_flags() -> None:
    said = made(REPORTS["contended"]()).said
    for words in (
        "15.9 ! 15.4-16.1",
        "contended; unsteady",
        "260 ! 255-273",
        "other work ran meanwhile; no finding rests on it (other CPUs 34 % busy",
    ):
        assert words in said


def test_the_facts_are_the_whole_record() -> None:
    said = made(of_tree("three-l40")).said
    for words in (
        "brand Common KVM processor",
        "x86-64 level 1",
        "total 142 GiB available 126 GiB",
        "mount / type ext4",
        "speed 16 GT/s - 16 GT/s",
        "VRAM rate 864 GB/s 864 GB/s 864 GB/s",
    ):
        assert words in said
