"""The page of a plan: whole in itself, readable by all, saying what the terminal says."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.plan import Plan
from nodecheck.render.plan_html import page
from tests.render import test_bench_html
from tests.render.plans import CPU_NODE, MEASURED, MOE, PLANS, THREE_L40, UNKNOWN

EVERY = pytest.mark.parametrize("name", sorted(PLANS))
MAKE = page()


class Page(test_bench_html.Page):
    """The elements of a plan's page."""

    def __init__(self, plan: Plan) -> None:
        HTMLParser.__init__(self)
        self.source = MAKE(plan)
        self.elements = []
        self.texts = {}
        self.open = []
        self.feed(self.source)
        self.close()

    @property
    def said(self) -> str:
        return " ".join(self.texts["main"][0].split())


@EVERY
def test_it_needs_nothing_from_elsewhere(name: str) -> None:
    page = Page(PLANS[name])
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert set(re.findall(r"(?:https?:)?//[\w.-]+", page.source)) <= {"http://www.w3.org"}
    assert not re.search(r"url\(|@import|\bon\w+=", page.source)
    policy = next(m for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert (policy["content"] or "").startswith("default-src 'none'")


@EVERY
def test_its_structure_is_told_to_readers(name: str) -> None:
    page = Page(PLANS[name])
    assert page.open == []
    assert page.all("html")[0]["lang"] == "en"
    assert page.texts["title"][0] == f"nodecheck plan: {PLANS[name].workload.name}"
    assert len(page.all("h1")) == 1
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    for drawing in page.all("svg"):
        assert drawing["role"] == "img"
        assert "layers on the CPU in brackets" in (drawing["aria-label"] or "")


def test_the_same_plan_gives_the_same_page() -> None:
    assert MAKE(MEASURED) == MAKE(MEASURED)


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1))
def test_names_cannot_leave_their_place(text: str) -> None:
    nasty = f"<script>{text}"
    page = Page(
        replace(
            MEASURED,
            workload=replace(MEASURED.workload, name=nasty, notes=(nasty,)),
            node=(nasty,),
            engines=(replace(MEASURED.engines[0], command=nasty, risks=(nasty,)),),
            comparisons=(replace(MEASURED.comparisons[0], says=nasty, look_at=(nasty,)),),
            curves=(replace(MEASURED.curves[0], setting=nasty),),
        )
    )
    assert not page.all("script")
    assert not set(page.source) & {"\x00", "\x1b", "\x08"}


def test_what_the_terminal_says_stands_in_the_page() -> None:
    said = Page(MEASURED).said
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
    assert "Does it fit" not in Page(CPU_NODE).said
    assert "cache not known" in Page(UNKNOWN).said


def numbers(path: str) -> list[tuple[float, float]]:
    pairs = re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)
    return [(float(x), float(y)) for x, y in pairs]


def lines(page: Page) -> list[list[tuple[float, float]]]:
    found = [p["d"] or "" for p in page.all("path") if "line reactive" in (p.get("class") or "")]
    return [numbers(path) for path in found]


def test_the_curve_is_a_band_from_the_slowest_to_the_fastest_and_closed() -> None:
    (band,) = lines(Page(THREE_L40))
    assert len(band) == 2 * 66 + 1
    assert band[0] == band[-1]
    fastest, slowest = band[:66], band[65:-1]
    assert [x for x, _ in fastest] == sorted(x for x, _ in fastest)
    assert fastest[0][1] > fastest[-1][1]  # more on the GPU is faster, and higher is less y
    assert slowest[-1][1] > fastest[0][1]


def test_what_the_vram_does_not_hold_is_a_band_of_its_own() -> None:
    page = Page(MOE)
    assert len(page.all("svg")) == 2
    assert len(lines(page)) == 4
    assert page.source.count("the VRAM does not hold it") == 2


def test_what_was_measured_lies_on_the_chart() -> None:
    dots = [c for c in Page(MEASURED).all("circle") if c["r"] == "6"]
    assert len(dots) == 4
    assert not [c for c in Page(THREE_L40).all("circle") if c["r"] == "6"]


def test_the_palette_of_the_page_is_used() -> None:
    source = Page(THREE_L40).source
    own = source[source.index("@media print") : source.index("</style>")]
    assert not re.search(r"#[0-9a-f]{3}", own)
    names = set(re.findall(r"var\(--([\w-]+)\)", own))
    assert names <= test_bench_html.PALETTES["light"].keys()
