"""The page of a benchmark: whole in itself, readable by all, in the dark and on paper."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.render.bench_html import page
from nodecheck.report import Report
from tests.render.benches import ALL, CONTENDED, KVM64, NODE, NOTHING, REPORTS

EVERY = pytest.mark.parametrize("name", sorted(REPORTS))
CSS = (files("nodecheck.render") / "templates" / "page.css").read_text()
MAKE = page()
VOID = {"meta", "rect", "path", "circle", "line", "br"}


class Page(HTMLParser):
    """Elements with their attributes and text; and whether all that was opened was closed."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.source = MAKE(report, ALL)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


# --- whole in itself ---


@EVERY
def test_it_needs_nothing_from_elsewhere(name: str) -> None:
    page = Page(REPORTS[name])
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+", page.source))
    assert addresses <= {"http://www.w3.org"}  # the name of SVG, which nothing fetches
    assert not re.search(r"url\(|@import|\bon\w+=", page.source)
    policy = next(m for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert (policy["content"] or "").startswith("default-src 'none'")


def test_the_same_report_gives_the_same_page() -> None:
    assert MAKE(NODE, ALL) == MAKE(NODE, ALL)


@settings(max_examples=25, deadline=None)
@given(st.text(min_size=1))
def test_names_cannot_leave_their_place(kernel: str) -> None:
    measurements = tuple(replace(m, kernel=f"<script>{kernel}") for m in KVM64.measurements)
    page = Page(replace(KVM64, measurements=measurements))
    assert not page.all("script")
    assert "\x00" not in page.source
    assert "\x1b" not in page.source


# --- readable by all ---


@EVERY
def test_its_structure_is_told_to_readers(name: str) -> None:
    page = Page(REPORTS[name])
    assert page.open == []
    assert page.all("html")[0]["lang"] == "en"
    assert page.texts["title"][0] == "nodecheck bench: node7"
    assert len(page.all("h1")) == 1
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    for drawing in page.all("svg"):
        assert drawing["role"] == "img"
        assert len(drawing["aria-label"] or "") > 20
    identities = [a["id"] for _, a in page.elements if "id" in a]
    assert len(identities) == len(set(identities))


def test_what_the_terminal_says_stands_in_the_page() -> None:
    page = Page(KVM64)
    said = " ".join(page.texts["main"][0].split())
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
    assert "Memory of another node is read at 45 %" in Page(NODE).texts["main"][0]
    assert "Nothing was measured" in Page(NOTHING).texts["main"][0]
    assert not Page(NOTHING).all("svg")


def test_a_contended_figure_is_marked_in_words_too() -> None:
    page = Page(CONTENDED)
    assert [a["title"] for a in page.all("abbr")] == ["contended, unsteady"] * 4
    assert "other CPUs 34 % busy" in page.texts["main"][0]


def test_each_curve_has_its_points() -> None:
    page = Page(KVM64)
    assert len([c for c in page.all("circle") if c["r"] == "4"]) == 4 * 4


# --- colours ---


def palette(start: str) -> dict[str, str]:
    block = CSS[CSS.index(start) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block[: block.index("}")]))


PALETTES = {
    "light": palette(":root"),
    "dark": palette("@media screen and (prefers-color-scheme: dark)"),
}


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, as WCAG 2 defines it."""
    channels = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_defined() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("mode", sorted(PALETTES))
def test_texts_and_curves_stand_out(mode: str) -> None:
    colours = PALETTES[mode]
    assert colours.keys() == PALETTES["light"].keys()
    on_paper = ("ink", "muted", "ok", "warning", "critical", "unknown")
    pairs = [(name, "paper") for name in on_paper]
    pairs += [("ink", f"band-{n}") for n in range(4)] + [("ink", "head"), ("muted", "head")]
    pairs += [(f"series-{n}", "paper") for n in range(4)]
    for text, behind in pairs:
        assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)


def test_every_colour_is_of_the_palette() -> None:
    rules = CSS[CSS.index("* {") :]
    assert not re.search(r"#[0-9a-f]{3}", rules)
    assert set(re.findall(r"var\(--([\w-]+)\)", rules)) <= PALETTES["light"].keys()


def test_series_differ_without_colour() -> None:
    assert len(set(re.findall(r"\.color-\d \.line \{ stroke-dasharray: ([\d ]+);", CSS))) == 3
