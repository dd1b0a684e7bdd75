"""Pages in a real browser: nothing leaves, nothing is wrong, nothing sticks out, all can read them.

Pictures for the eye lie in build/lab/pages afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodecheck.records.compare.compare import compare
from nodecheck.render.bench import html as bench
from nodecheck.render.compare import html as comparison
from nodecheck.render.fleet import html as of_fleet
from nodecheck.render.history import html as history
from nodecheck.render.plan import html as plan
from nodecheck.render.report import html as report
from tests.lab.browser import Browser, axe, browser
from tests.lab.debian import CACHE, NotHereError
from tests.records.fleets import fleet, mixed
from tests.records.sides import node
from tests.render.benches import ALL, KVM64, NODE
from tests.render.histories import FREE, FULL, measured
from tests.render.plans import MEASURED, MOE
from tests.render.reports import hostile, large, of_tree

YEARS = measured(hours=15_000, off=range(5000, 6000), flagged=0.05)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

PICTURES = CACHE / "pages"

PAGES: dict[str, Callable[[], str]] = {
    "report": lambda: report.page()(of_tree("three-l40")),
    "report-healthy": lambda: report.page()(of_tree("healthy")),
    "report-large": lambda: report.page()(large()),
    "report-hostile": lambda: report.page()(hostile()),
    "plan": lambda: plan.page()(MEASURED),
    "plan-experts": lambda: plan.page()(MOE),
    "history": lambda: history.page()(FULL, [measured(), FREE], "--since 30d"),
    "history-long": lambda: history.page()(FULL, [YEARS], "--since 600d"),
    "bench": lambda: bench.page()(KVM64, ALL),
    "bench-node": lambda: bench.page()(NODE, ALL),
    "compare": lambda: comparison.page()(
        compare(("before.json", node("masked")), ("after.json", node("fast")))
    ),
    "fleet": lambda: of_fleet.page()(fleet(mixed(40))),
}
"""Each kind of page, with much and with little on it."""

PAPER_WIDTH = 718
"""A4 between margins of a centimetre, at 96 to the inch."""

SCREENS = {
    "light": (1280, "light", "screen"),
    "dark": (1280, "dark", "screen"),
    "narrow": (360, "light", "screen"),
    "narrow-dark": (360, "dark", "screen"),
    "paper": (PAPER_WIDTH, "dark", "print"),
}
"""Width, colour scheme, medium."""

VIOLATIONS = """
axe.run(document, {resultTypes: ["violations"]}).then(result => result.violations.map(
  each => `${each.impact} ${each.id}: ${each.nodes.map(node => node.html).join(" ")}`))
"""


@pytest.fixture(scope="module")
def rules() -> str:
    try:
        return axe()
    except NotHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    try:
        with browser(tmp_path_factory.mktemp("profile")) as started:
            yield started
    except NotHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module", autouse=True)
def pictures() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)


def overhang(tab: Browser) -> int:
    """Pixels by which the page is wider than the screen."""
    return int(tab.evaluate("document.documentElement.scrollWidth - innerWidth"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_sound_on_every_screen_and_on_paper(tab: Browser, rules: str, name: str) -> None:
    file = PICTURES / f"{name}.html"
    file.write_text(PAGES[name](), encoding="utf-8")
    page = tab.open(file)
    tab.evaluate(rules)
    for screen, (width, scheme, media) in SCREENS.items():
        tab.show(width, scheme, media)
        tab.picture(PICTURES / f"{name}-{screen}.png")
        assert overhang(tab) <= 0, screen
        assert tab.evaluate(VIOLATIONS) == [], screen
    tab.print(PICTURES / f"{name}.pdf")
    assert page.requests == []
    assert page.complaints == []


FAULTY = """<!DOCTYPE html><html><head><title>t</title></head><body>
<img src="http://192.0.2.1/far.png"><p style="width: 2000px; color: #ccc">pale</p>
<script>console.error("wrong"); nothing();</script></body></html>"""


def test_what_is_wrong_with_a_page_is_seen(tab: Browser, rules: str, tmp_path: Path) -> None:
    file = tmp_path / "faulty.html"
    file.write_text(FAULTY)
    tab.show(360, "light")
    page = tab.open(file)
    tab.evaluate(rules)
    assert overhang(tab) > 1000
    assert page.requests == ["http://192.0.2.1/far.png"]
    said = " ".join(page.complaints)
    assert "wrong" in said
    assert "nothing is not defined" in said
    violations = " ".join(tab.evaluate(VIOLATIONS))
    for rule in ("critical image-alt", "serious color-contrast", "serious html-has-lang"):
        assert rule in violations
