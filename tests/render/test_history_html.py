"""The page of a history: whole in itself, readable by all, saying what the terminal says."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.records.history.history import History
from nodecheck.records.series import Series
from nodecheck.render.history.html import CHANGES_MOST, page
from tests.render.histories import (
    DISK,
    FREE,
    FULL,
    LAST,
    LATENCY,
    ONE,
    QUIET,
    READ,
    change,
    measured,
    series,
    trait,
)
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
    uses_the_palette,
)

MAKE = page()
EVERY = pytest.mark.parametrize("history", [FULL, QUIET, ONE], ids=["full", "quiet", "one"])


def made(history: History, *charts: Series) -> Page:
    return Page(MAKE(history, charts, "--since 30d"))


def group(page: Page, part: str) -> str:
    """A part of the charts: measured, flagged or band."""
    found = re.findall(
        rf'<g class="[^"]*\b{part}">.*?(?=<g class="[^"]*series|</svg>)', page.source
    )
    return "".join(found)


def lines(page: Page, part: str) -> list[list[tuple[float, float]]]:
    paths = re.findall(r'<path d="([^"]+)" class="line', group(page, part))
    return [
        [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]
        for path in paths
    ]


def dots(page: Page) -> int:
    return group(page, "flagged").count("<circle")


@EVERY
def test_it_is_whole_and_told_to_readers(history: History) -> None:
    page = made(history, measured(), FREE)
    needs_nothing_from_elsewhere(page)
    node = f": {history.node}" if history.node else ""
    is_told_to_readers(page, f"nodecheck history{node}")
    uses_the_palette(page)
    for drawing in page.all("svg"):
        assert "2026-10-30 13:28Z to 2026-11-29" in (drawing["aria-label"] or "")


def test_what_the_terminal_says_stands_in_the_page_in_its_order() -> None:
    said = made(FULL, measured()).said
    for one, after in itertools.pairwise(
        (
            "Changes",
            "2026-11-29 11:28Z @43080 pcie.link_degraded, 0000:41:00.0 changed 7 times since",
            "- appeared (warning)",
            "DIMM, P0 CHANNEL C DIMM 1 32 GiB, 3200 MT/s gone",
            "mem.insufficient, RAM warning critical",
            "CPU flags lost pti gained avx2, fma, f16c, bmi2, avx, 3dnowprefetch, abm, bmi1, ",
            "cpu.hypervisor_masked, CPU critical cleared",
            "GPU driver 550.54.14 570.86.10",
            "GPU, 0000:81:00.0 - NVIDIA L40",
            "Drift",
            "! 24.1 -> 21.9 GB/s (-9.1 %, worse) since 2026-11-17; by itself it varies by 1.2 %",
            "Forecast",
            "disk free, /srv/models ! full in 18-26 days, 2026-12-17 to 2026-12-25",
            "Counters",
            "+412 in 30 days, last rise 2026-11-29 12:28Z",
            "Latest",
            "@43200 2026-11-29 13:28Z critical The hypervisor hides AVX2",
            "Noted",
            "56 of 112 snapshots hold no measurements Error counters",
            "Over time memory read, 8 threads",
            "are drawn as dots and left out of these. Nothing was recorded for 2 days",
        )
    ):
        assert 0 <= said.index(one) < said.index(after), after
    filling = made(replace(QUIET, forecasts=FULL.forecasts)).said
    unchanged = filling.index("No change of hardware, software or findings in 30 days.")
    assert unchanged < filling.index("Forecast") < filling.index("No measurement drifted")
    assert "Changes" not in made(QUIET).said


def test_severities_are_coloured_and_told_in_words() -> None:
    cells = re.findall(r'<td[^>]* class="words (\w+)">([^<]+)</td>', made(FULL).source)
    assert ("warning", "appeared (warning)") in cells
    assert ("ok", "cleared") in cells


def test_many_changes_are_cut_and_counted() -> None:
    many = tuple(
        change(LAST - n, n, trait("GPU driver", None, str(n), str(n + 1)))
        for n in range(CHANGES_MOST + 3)
    )
    said = made(replace(QUIET, changes=many)).said
    assert said.count("GPU driver") == CHANGES_MOST
    assert "3 older changes are left out" in said


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1))
def test_names_cannot_leave_their_place(text: str) -> None:
    nasty = f"<script>{text}"
    odd = replace(DISK, name=f"disk_available@{nasty}")
    history = replace(
        FULL,
        node=nasty,
        changes=(change(LAST, 1, trait(nasty, nasty, nasty, nasty)),),
        forecasts=(replace(FULL.forecasts[0], metric=odd),),
        notes=(nasty,),
    )
    holds_nothing_hostile(made(history, replace(FREE, metric=odd)))


# --- charts ---


def test_the_line_is_parted_where_nothing_was_recorded() -> None:
    before, after = lines(made(QUIET, measured()), "measured")
    assert before[-1][0] + 30 < after[0][0]
    assert len(lines(made(QUIET, measured(off=range(0))), "measured")) == 1


def test_what_is_flagged_is_dots_apart_from_the_line() -> None:
    assert dots(made(QUIET, measured())) == sum(measured().flagged) > 0
    assert dots(made(QUIET, measured(flagged=0))) == 0
    doubtful = series(READ, (0, 20e9), (9, 21e9), flagged=True)
    assert dots(made(QUIET, doubtful)) == 2


def test_a_point_between_gaps_is_drawn() -> None:
    alone = series(
        LATENCY, (0, 1e-7), (1, 1e-7), (2, 1e-7), (300, 1.1e-7), (700, 1e-7), (701, 1e-7)
    )
    paths = lines(made(QUIET, alone), "measured")
    assert [len(path) for path in paths] == [3, 2, 2]
    assert paths[1][0] == paths[1][1]


def test_of_many_points_the_medians_are_drawn_between_lowest_and_highest() -> None:
    many = measured(hours=20_000, off=range(5000, 6000), flagged=0.1)
    page = made(QUIET, many)
    drawn = lines(page, "measured")
    bands = lines(page, "band")
    assert len(drawn) == len(bands) == 2
    assert dots(page) + sum(map(len, [*drawn, *bands])) <= 1010
    for line, band in zip(drawn, bands, strict=True):
        assert band[0] == band[-1]
        tops, bottoms = band[: len(line)], band[len(line) : 2 * len(line)][::-1]
        assert all(
            top[1] <= at[1] <= bottom[1]
            for top, at, bottom in zip(tops, line, bottoms, strict=True)
        )
    assert len(page.source) < 200_000
    assert "the band its lowest to its highest" in page.said
    assert "the band" not in made(QUIET, measured(hours=400)).said


def test_one_value_is_no_chart() -> None:
    assert not made(QUIET, series(READ, (0, 24e9))).all("svg")
