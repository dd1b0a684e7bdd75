"""The page of a plan: whole in itself, readable by all, saying what the terminal says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.plan import Plan
from nodecheck.render.plan.html import page
from tests.render.pages import (
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    needs_nothing_from_elsewhere,
    uses_the_palette,
)
from tests.render.plans import CPU_NODE, MEASURED, MOE, PLANS, THREE_L40, UNKNOWN

EVERY = pytest.mark.parametrize("name", sorted(PLANS))
MAKE = page()


def made(plan: Plan) -> Page:
    return Page(MAKE(plan))


@EVERY
def test_it_is_whole_and_told_to_readers(name: str) -> None:
    page = made(PLANS[name])
    needs_nothing_from_elsewhere(page)
    is_told_to_readers(page, f"nodecheck plan: {PLANS[name].workload.name}")
    uses_the_palette(page)
    for drawing in page.all("svg"):
        assert "layers on the CPU in brackets" in (drawing["aria-label"] or "")


def test_the_same_plan_gives_the_same_page() -> None:
    assert MAKE(MEASURED) == MAKE(MEASURED)


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1))
def test_names_cannot_leave_their_place(text: str) -> None:
    nasty = f"<script>{text}"
    page = made(
        replace(
            MEASURED,
            workload=replace(MEASURED.workload, name=nasty, notes=(nasty,)),
            node=(nasty,),
            engines=(replace(MEASURED.engines[0], command=nasty, risks=(nasty,)),),
            comparisons=(replace(MEASURED.comparisons[0], says=nasty, look_at=(nasty,)),),
            curves=(replace(MEASURED.curves[0], setting=nasty),),
        )
    )
    holds_nothing_hostile(page)


def test_what_the_terminal_says_stands_in_the_page() -> None:
    said = made(MEASURED).said
    for words in (
        "VIABLE All of it on the GPU (gpu-resident) gives 36-42 tok/s",
        "adds 65,536 B of bf16 cache",
        "would move it: CPU type host (AVX2): 0.6-0.7",
        "65 (0): 35-42 · 64 (1): 10-19 · 50 (15): 0.9-2.2 · 0 (64): 0.2-0.5",
        "To fit: --tp 2, or weights of 8 bits or fewer",
        "Look at: paging; contention; the number of threads",
        "-ngl 50 and -ngl 0 contradict each other",
        "all 65 layers on the GPU; 64 would leave one",
        "Known risk: wrong output on host hits",
        "Not for this: it loads no GGUF of this architecture",
        "Without SSSE3, q8_0 decodes 3.3 times as fast",
    ):
        assert words in said
    assert "Does it fit" not in made(CPU_NODE).said
    assert "cache not known" in made(UNKNOWN).said


def numbers(path: str) -> list[tuple[float, float]]:
    pairs = re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)
    return [(float(x), float(y)) for x, y in pairs]


def lines(page: Page) -> list[list[tuple[float, float]]]:
    found = [p["d"] or "" for p in page.all("path") if "line reactive" in (p.get("class") or "")]
    return [numbers(path) for path in found]


def test_the_curve_is_a_band_from_the_slowest_to_the_fastest_and_closed() -> None:
    (band,) = lines(made(THREE_L40))
    assert len(band) == 2 * 66 + 1
    assert band[0] == band[-1]
    fastest, slowest = band[:66], band[65:-1]
    assert [x for x, _ in fastest] == sorted(x for x, _ in fastest)
    assert fastest[0][1] > fastest[-1][1]  # more on the GPU is faster, and higher is less y
    assert slowest[-1][1] > fastest[0][1]


def test_what_the_vram_does_not_hold_is_a_band_of_its_own() -> None:
    page = made(MOE)
    assert len(page.all("svg")) == 2
    assert len(lines(page)) == 4
    assert page.source.count("the VRAM does not hold it") == 2


def test_what_was_measured_lies_on_the_chart() -> None:
    dots = [c for c in made(MEASURED).all("circle") if c["r"] == "6"]
    assert len(dots) == 4
    assert not [c for c in made(THREE_L40).all("circle") if c["r"] == "6"]
