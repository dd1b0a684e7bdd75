"""What every page is held to: whole in itself, and told to those who do not see it."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from importlib.resources import files

CSS = (files("nodecheck.render") / "templates" / "page.css").read_text()
VOID = {"meta", "rect", "path", "circle", "line", "br"}
APART = {"dt", "dd", "td", "th", "li", "h1", "h2", "h3", "h4", "p", "caption", "pre"}
"""Elements whose text stands apart from what is around them."""

SVG_NAME = "http://www.w3.org"
"""Begins the name of SVG, which nothing fetches."""


class Page(HTMLParser):
    """Elements with their attributes and text. Raises AssertionError where one is not closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._part(tag)
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
        self._part(tag)

    def _part(self, tag: str) -> None:
        if tag in APART:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def said(self) -> str:
        """The text of the main part, with single blanks."""
        return " ".join(self.texts["main"][0].split())


def needs_nothing_from_elsewhere(page: Page) -> None:
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form", "a"}
    assert set(re.findall(r"(?:https?:)?//[\w.-]+", page.source)) <= {SVG_NAME}
    assert not re.search(r"url\(|@import|\bon\w+=", page.source)
    policy = next(m for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert (policy["content"] or "").startswith("default-src 'none'")


def is_told_to_readers(page: Page, title: str) -> None:
    """Headings in order, tables with headings and names, drawings in words."""
    assert page.all("html")[0]["lang"] == "en"
    assert page.texts["title"][0] == page.texts["h1"][0] == title
    assert len(page.all("h1")) == len(page.all("main")) == 1
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    for drawing in page.all("svg"):
        assert drawing["role"] == "img"
        assert len(drawing["aria-label"] or "") > 20
    identities = [a["id"] for _, a in page.elements if "id" in a]
    assert len(identities) == len(set(identities))


def holds_nothing_hostile(page: Page) -> None:
    """No name has become an element, and none moves a cursor or turns the writing."""
    assert not page.all("script")
    assert not set(page.source) & set("\x00\x08\x1b\u202e\u2066")


# --- colours ---


def palette(start: str) -> dict[str, str]:
    block = CSS[CSS.index(start) :]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block[: block.index("}")]))


PALETTES = {
    "light": palette(":root"),
    "dark": palette("@media screen and (prefers-color-scheme: dark)"),
}


def uses_the_palette(page: Page) -> None:
    """What a page adds to the common styles names colours of the palette alone."""
    own = page.source[page.source.index("@media print") : page.source.index("</style>")]
    assert not re.search(r"#[0-9a-f]{3}", own)
    assert set(re.findall(r"var\(--([\w-]+)\)", own)) <= PALETTES["light"].keys()


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
