"""The daemon's page in a real browser, served by the real application over a test's own board.

Pictures for the eye lie in build/lab/pages afterwards. What needs axe-core is skipped without npm.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from nodecheck.daemon.made import Making, MakingError
from nodecheck.records.snapshots import database
from nodecheck.records.snapshots.sqlite import transaction, writing
from nodecheck.report import Report
from tests.daemon.month import dated, fill
from tests.daemon.served import Served, pass_of, served
from tests.lab.browser import CHROMIUM, Browser, Page, axe, browser
from tests.lab.debian import CACHE, NotHereError
from tests.lab.test_pages import VIOLATIONS, overhang
from tests.records.sides import node
from tests.render.reports import hostile, large, of_tree

pytestmark = [pytest.mark.timeout(180)]

PICTURES = CACHE / "pages"
NOW = int(time.time()) // 60 * 60
PATIENCE_SECONDS = 30.0

SCREENS = [(width, scheme) for width in (390, 1440) for scheme in ("light", "dark")]


class Case(NamedTuple):
    """`before` is what the node was for a month, `report` what it is now; `late` is its age."""

    report: Report | None
    before: Report | None = None
    late: float = 0.0


def named(report: Report) -> Report:
    return replace(report, host=replace(report.host, name="node7"))


MASKED = named(of_tree("three-l40"))
HEALTHY = named(of_tree("healthy"))
FAST = named(node("fast"))

CASES = {
    "healthy": Case(HEALTHY, HEALTHY),
    "three-l40": Case(MASKED, FAST),
    "large": Case(large(), large()),
    "hostile": Case(hostile(), hostile()),
    "old": Case(HEALTHY, HEALTHY, late=1000.0),
    "first": Case(None, FAST),
    "no-history": Case(MASKED),
}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if shutil.which(CHROMIUM) is None:
        pytest.skip("chromium is not here: apt-get install chromium")
    PICTURES.mkdir(parents=True, exist_ok=True)
    try:
        with browser(tmp_path_factory.mktemp("profile")) as started:
            yield started
    except NotHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def rules() -> str | None:
    try:
        return axe()
    except NotHereError:
        return None


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the history lies."""
    path = tmp_path / "history.db"
    monkeypatch.setenv("NODECHECK_HISTORY", str(path))
    return path


def store(history: Path, report: Report) -> None:
    with writing(history) as db, transaction(db):
        database._insert(db, report)


@pytest.fixture
def its(history: Path) -> Iterator[Served]:
    """The masked node's page, after a month in which it was not."""
    fill(history, FAST, NOW - 3600, step_seconds=3600)
    store(history, dated(MASKED, NOW))
    with served(pass_of(dated(MASKED, NOW))) as started:
        yield started


def open_page(tab: Browser, its: Served, width: int = 390) -> Page:
    tab.show(width, "light")
    return tab.open(f"http://127.0.0.1:{its.port}/")


def wait_until(tab: Browser, true: str) -> None:
    """Until an expression is true of the page."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not tab.evaluate(true):
        assert time.monotonic() < end, tab.evaluate("document.body.innerText")[:2000]
        time.sleep(0.05)


def said(tab: Browser, where: str = "main") -> str:
    return " ".join(tab.evaluate(f"document.querySelector({where!r}).innerText").split())


LOOK = "dispatchEvent(new Event('online'))"
"""Makes the page ask at once: what a phone does when it is back in the network."""


@pytest.mark.parametrize("name", CASES)
def test_it_is_sound_on_every_screen(
    tab: Browser, rules: str | None, history: Path, name: str
) -> None:
    case = CASES[name]
    report = case.report and dated(case.report, NOW)
    if case.before:
        fill(history, case.before, NOW - 3600, step_seconds=3600)
    if report and case.before:
        store(history, report)
    with served(pass_of(report) if report else None) as its:
        its.clock.now += case.late
        page = open_page(tab, its)
        if rules:
            tab.evaluate(rules)
        for width, scheme in SCREENS:
            tab.show(width, scheme)
            tab.picture(PICTURES / f"live-{name}-{width}-{scheme}.png")
            assert overhang(tab) <= 0, (width, scheme)
            assert not rules or tab.evaluate(VIOLATIONS) == [], (width, scheme)
        tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert not rules or tab.evaluate(VIOLATIONS) == []
        tab.show(390, "dark")
        assert overhang(tab) <= 0
        tab.picture(PICTURES / f"live-{name}-390-all.png")
    assert page.requests == []
    assert page.complaints == []
    if rules is None:
        pytest.skip("axe-core is not here: the page was held to all but its rules")


def test_it_is_whole_without_its_script(tab: Browser, its: Served) -> None:
    with_script = open_page(tab, its)
    told = said(tab)
    tab.tell("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page = open_page(tab, its)
        bare = said(tab)
        assert "This page does not update itself without script: reload it." in bare
        assert tab.evaluate("document.querySelector('noscript a').offsetHeight") > 0
        for part in ("CRITICAL The hypervisor hides", "qm set <VMID> --cpu host",
                     "gpu-resident", "New since", "x86-64 level v3 v1"):  # fmt: skip
            assert part in bare
        assert "reload it" not in told
        assert len(bare) > 0.95 * len(told)
        tab.picture(PICTURES / "live-no-script-390-light.png")
    finally:
        tab.tell("Emulation.setScriptExecutionDisabled", value=False)
    assert page.complaints == with_script.complaints == []


def test_a_new_report_appears_and_nothing_moves(tab: Browser, its: Served) -> None:
    page = open_page(tab, its)
    wait_until(tab, "document.title.startsWith('CRITICAL')")
    tab.evaluate("""
        window.stays = true;
        const folds = key => document.querySelector(`details[data-key="${key}"]`);
        folds("disk.low /").open = true;
        folds("cpu.hypervisor_masked cpu").open = false;
        folds("gaps").open = true;
        folds("measured").querySelector("summary").focus();
        folds("gaps").scrollIntoView();
    """)
    before = tab.evaluate("document.querySelector('[data-key=gaps]').getBoundingClientRect().top")
    its.call(lambda: its.board.take(pass_of(dated(shorter(MASKED), NOW + 60))))
    tab.evaluate(LOOK)
    wait_until(tab, "document.querySelector('#verdict').innerText.includes('Now it is worse')")
    opened = "[...document.querySelectorAll('details[open]')].map(each => each.dataset.key)"
    assert tab.evaluate(opened) == ["disk.low /", "gaps"]
    assert tab.evaluate("document.activeElement.innerText") == "All that was measured"
    after = tab.evaluate("document.querySelector('[data-key=gaps]').getBoundingClientRect().top")
    assert abs(after - before) < 2
    assert tab.evaluate("window.stays")
    assert "mem.bandwidth_low" not in said(tab, "#rest section")
    assert page.requests == page.complaints == []


def shorter(report: Report) -> Report:
    """With a finding less, and another headline."""
    verdict = replace(report.verdict, headline="Now it is worse.")
    kept = tuple(each for each in report.findings if each.id != "mem.bandwidth_low")
    return replace(report, findings=kept, verdict=verdict)


def test_it_asks_by_itself_and_leaves_alone_what_is_the_same(tab: Browser, its: Served) -> None:
    open_page(tab, its)
    tab.evaluate("""
        window.asked = 0;
        const ask = fetch;
        window.fetch = async (...given) => {
            const answer = await ask(...given);
            [asked, window.last] = [asked + 1, answer.status];
            return answer;
        };
        document.querySelector("#rest").mark = document.querySelector("#verdict p").mark = 1;
        document.querySelector("#verdict").dataset.intervalSeconds = 0.2;
    """)
    tab.evaluate(LOOK)
    wait_until(tab, "window.asked >= 4")
    assert tab.evaluate("window.last") == 304
    marks = "document.querySelector('#rest').mark + document.querySelector('#verdict p').mark"
    assert tab.evaluate(marks) == 2


def test_a_command_that_is_being_copied_stays(tab: Browser, its: Served) -> None:
    open_page(tab, its)
    tab.evaluate("getSelection().selectAllChildren(document.querySelector('pre'))")
    its.call(lambda: its.board.take(pass_of(dated(shorter(MASKED), NOW + 60))))
    tab.evaluate(LOOK)
    wait_until(tab, "document.querySelector('#verdict').innerText.includes('Now it is worse')")
    assert (
        tab.evaluate("getSelection().toString().trim()")
        == "qm set <VMID> --cpu host  # Proxmox, on its host"
    )
    assert "There is a newer report" in said(tab, "#verdict")
    assert "mem.bandwidth_low" in said(tab, "#rest section")
    tab.evaluate("getSelection().removeAllRanges()")
    wait_until(tab, "!document.querySelector('#rest section').innerText.includes('bandwidth_low')")
    assert "There is a newer report" not in said(tab, "#verdict")


def test_a_daemon_that_is_gone_is_told(tab: Browser, history: Path) -> None:
    assert not history.exists()
    with served(pass_of(dated(MASKED, NOW))) as its:
        page = open_page(tab, its)
    tab.evaluate(LOOK)
    wait_until(tab, "document.title.startsWith('OLD')")
    told = r"OLD. The daemon does not answer: this page is of 20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ."
    assert re.match(told, said(tab, "#verdict"))
    assert "CRITICAL The hypervisor hides" in said(tab, "#verdict")
    tab.picture(PICTURES / "live-gone-390-light.png")
    assert page.requests == []


def test_a_daemon_that_fails_is_told_until_it_answers(tab: Browser, history: Path) -> None:
    assert not history.exists()
    making, broken = Making(), [False]

    async def make(what: str, report: bytes) -> bytes:
        if broken[0]:
            raise MakingError("as it was told")
        return await making(what, report)

    with served(pass_of(dated(MASKED, NOW)), make) as its:
        page = open_page(tab, its)
        broken[0] = True
        tab.evaluate(LOOK)
        wait_until(tab, "document.title.startsWith('OLD')")
        assert "OLD. The daemon answers with 503: this page is of" in said(tab, "#verdict")
        broken[0] = False
        tab.evaluate(LOOK)
        wait_until(tab, "document.title.startsWith('CRITICAL')")
        assert "OLD" not in said(tab, "#verdict")
    assert page.requests == []


def test_the_first_report_and_its_age_come_by_themselves(tab: Browser, history: Path) -> None:
    assert not history.exists()
    with served() as its:
        open_page(tab, its)
        assert said(tab).startswith("UNKNOWN Not known yet")
        its.call(lambda: its.board.take(pass_of(dated(HEALTHY, int(time.time()) - 600))))
        tab.evaluate(LOOK)
        wait_until(tab, "document.title === 'OK · nodecheck: node7'")
        assert "(10 min ago)" in said(tab, "#rest p")


def test_what_a_served_page_asks_elsewhere_is_refused_and_noted(
    tab: Browser, history: Path
) -> None:
    assert not history.exists()
    foreign = ["http://192.0.2.1/far.png"]

    async def make(_what: str, _report: bytes) -> bytes:
        return f'<!doctype html><title>t</title><img src="{foreign[0]}"><p>{"x" * 500}'.encode()

    with served(make=make) as its, served(make=make) as other:
        foreign[0] = f"http://127.0.0.1:{other.port}/live.js"
        page = open_page(tab, its)
        assert page.requests == foreign
        assert overhang(tab) > 1000
        assert page.complaints != []


def test_two_servers_are_not_one(tab: Browser) -> None:
    tab.page = Page("http://127.0.0.1:8000/")
    mine: Callable[[str], bool] = tab._is_own
    assert mine("http://127.0.0.1:8000/live.js")
    for other in ("http://127.0.0.1:80000/", "https://127.0.0.1:8000/", "http://localhost:8000/",
                  "http://127.0.0.1:8000@192.0.2.1/", "file:///etc/passwd"):  # fmt: skip
        assert not mine(other)
