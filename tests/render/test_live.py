"""The page that the daemon serves: the verdict first, whole without its script, readable by all."""

from __future__ import annotations

import functools
import html
import re

import pytest
from msgspec.structs import replace

from nodecheck.model import faults
from nodecheck.records.figures import figures
from nodecheck.records.history.history import History
from nodecheck.records.series import Listed
from nodecheck.render.live.figures import ROOMS_MOST, followed
from nodecheck.render.live.html import page
from nodecheck.render.live.spark import HEIGHT, STRETCHES, WIDTH, spark
from nodecheck.render.live.told import Told
from nodecheck.render.report import html as of_report
from nodecheck.report import Report
from tests.render.histories import FREE, FULL, LAST, QUIET, change, finding, measured, series, trait
from tests.render.pages import (
    SVG_NAME,
    Page,
    holds_nothing_hostile,
    is_told_to_readers,
    uses_the_palette,
)
from tests.render.reports import NASTY, REPORTS, hostile, large, of_tree

MAKE = page()
NOTHING = Told(why_not="/srv/history.db: no history yet")
MONTH = Told(history=FULL, over_time=(measured(), FREE))
TOLD = {"none": NOTHING, "month": MONTH, "quiet": Told(history=QUIET)}
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def made(report: Report | None, told: Told = NOTHING, stale: float | None = None) -> Page:
    return Page(MAKE(report, stale, told))


masked = functools.partial(of_tree, "three-l40")


def section(page: Page, title: str) -> str:
    """What is said from a heading to the next of its rank."""
    found = re.search(rf"<h2>{title}</h2>(.*?)(?=<h2>|</main>)", page.source, re.DOTALL)
    assert found, title
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found[1])).split())


def test_asks_nobody_but_its_own_server() -> None:
    for name, told in TOLD.items():
        page = made(masked(), told)
        assert not {tag for tag, _ in page.elements} & {"link", "img", "iframe", "base", "form"}
        assert set(re.findall(r"(?:https?:)?//[\w.-]+", page.source)) <= {SVG_NAME}, name
        assert [each["src"] for each in page.all("script")] == ["/live.js"]
        assert all((each["href"] or "").startswith("/") for each in page.all("a"))
        assert not re.search(r"url\(|@import|\son\w+=", page.source)
        policies = [m["content"] for m in page.all("meta") if "http-equiv" in m]
        assert policies == [f"{POLICY}; script-src 'self'; connect-src 'self'"]


def test_other_pages_still_run_no_script() -> None:
    page = Page(of_report.page()(masked()))
    assert [m["content"] for m in page.all("meta") if "http-equiv" in m] == [POLICY]
    assert not page.all("script")


@pytest.mark.parametrize("told", sorted(TOLD))
@pytest.mark.parametrize("name", [*sorted(REPORTS), "no report"])
def test_it_is_told_to_readers(name: str, told: str) -> None:
    report = REPORTS[name]() if name in REPORTS else None
    page = made(report, TOLD[told])
    is_told_to_readers(page, page.texts["title"][0])
    uses_the_palette(page)
    assert [a for _, a in page.elements if "aria-live" in a] == [
        {"id": "verdict", "aria-live": "polite", "data-interval-seconds": "15" if report else "5"}
    ]


def test_folds_can_be_told_from_one_another() -> None:
    keys = [each["data-key"] for each in made(masked(), MONTH).all("details")]
    assert len(keys) == len(set(keys)) > 8


def test_names_cannot_leave_their_place() -> None:
    nasty = Told(
        history=replace(
            FULL,
            node=NASTY,
            changes=(change(LAST, 1, trait(NASTY, NASTY, NASTY, NASTY)),),
            notes=(NASTY,),
            latest=(Listed(id=1, time=LAST, status=NASTY, headline=NASTY),),
        ),
        over_time=(replace(FREE, metric=replace(FREE.metric, name=f"disk_available@{NASTY}")),),
        why_not=NASTY,
    )
    for report, stale in ((hostile(), None), (hostile(), 400.0), (None, None)):
        source = MAKE(report, stale, nasty)
        assert source.count("<script") == 1
        holds_nothing_hostile(
            Page(source.replace('<script type="module" src="/live.js"></script>', ""))
        )
        assert "alert(1)" in source


# --- what it says ---


def test_the_verdict_stands_first_then_why_and_what_to_do() -> None:
    said = made(masked(), MONTH).said
    assert said.startswith("CRITICAL The hypervisor hides AVX2 and FMA.")
    order = ["Checked", "Why", "critical: cpu.hypervisor_masked", "What this node can do",
             "Measured", "Changes", "Ruled out", "Not known", "Where this comes from"]  # fmt: skip
    places = [said.index(each) for each in order]
    assert places == sorted(places)


def test_a_finding_tells_its_cost_its_remedy_whose_it_is_and_the_proof() -> None:
    page = made(masked())
    why = section(page, "Why")
    for each in faults(masked().findings):
        assert each.impact in page.said
        assert f"{each.remedy.cost}" in why
        assert f"nodecheck explain {each.id}" in why
        assert all(proof.value.split('"')[0] in page.said for proof in each.evidence)
    assert "Who who runs the hypervisor" in why
    commands = [text for each in faults(masked().findings) for text in each.remedy.commands]
    assert page.texts["pre"][: len(commands)] == commands


def test_only_the_gravest_finding_is_open() -> None:
    found = [each for each in made(masked()).all("details") if "class" in each]
    assert ["open" in each for each in found] == [True, False, False]


def test_each_way_to_serve_is_told_with_its_range() -> None:
    page = made(masked())
    can = section(page, "What this node can do")
    for each in masked().strategies:
        assert each.strategy in can
        assert each.limit in page.said
    assert "host-kv-pool: viable , 0.06-0.11 s" in can
    drawing = next(d for d in page.all("svg") if "Tokens a second" in (d["aria-label"] or ""))
    assert "gpu-resident: 34-42 (viable)" in (drawing["aria-label"] or "")


def test_figures_say_when_they_were_measured_and_how_they_strayed() -> None:
    older = replace(masked(), measured_time="2026-11-30T01:00:00+00:00")
    read = section(made(older, MONTH), "Measured")
    assert "Measured 2026-11-30 01:00:00Z." in read
    assert "memory read, 8 threads 11.7 GB/s 21." in read
    page = made(older, MONTH)
    assert len([d for d in page.all("svg") if d.get("class") == "spark"]) == 1
    assert "The last 30 days" in page.said
    assert "Nothing was recorded for 2 days" in page.said
    assert "over time" in section(made(older), "Measured")


def test_nothing_measured_is_told() -> None:
    bare = replace(masked(), measurements=(), latencies=(), transfers=())
    assert "Nothing was measured" in section(made(bare), "Measured")
    assert "Measured 20" not in section(made(bare), "Measured")


def test_a_healthy_node_is_told_shortly() -> None:
    page = made(of_tree("healthy"), Told(history=QUIET))
    assert page.said.startswith("OK ")
    assert "Why" not in page.texts["h2"]
    assert next(d for d in page.all("details") if d["data-key"] == "ruled out").keys() >= {"open"}
    assert "No change of hardware, software or findings in 30 days." in page.said


def test_before_the_first_report_nothing_is_known() -> None:
    page = made(None, MONTH)
    assert page.said.startswith("UNKNOWN Not known yet: the first check is running.")
    assert "The last report in the history, of 2026-11-29 13:28Z: critical." in page.said
    assert page.texts["title"][0] == "nodecheck: node7"
    assert "OK" not in made(None).said


def test_an_old_report_stands_for_nothing() -> None:
    for report in (masked(), of_tree("healthy")):
        page = made(report, stale=720.0)
        status = report.verdict.status.value
        assert page.said.startswith("UNKNOWN Nothing has been checked for 12 minutes. What follow")
        assert f"{status.upper()} then {report.verdict.headline}" in page.said
        first = next(p for p in page.all("p") if "verdict" in (p.get("class") or ""))
        assert first["class"] == "verdict unknown"


def test_what_is_wrong_with_the_history_is_told_and_hides_nothing() -> None:
    page = made(masked(), NOTHING)
    assert str(NOTHING.why_not) in section(page, "Changes")
    assert "cpu.hypervisor_masked" in page.said


# --- what is new ---


def stored(*changes: int) -> Told:
    """A history whose newest snapshot is that of `dated`, with a change in each of these."""
    at = replace(FULL, latest=(replace(FULL.latest[0], time=1_795_998_000), FULL.latest[1]))
    found = tuple(change(at.latest[0].time, number, finding("disk.low", "/", None, "warning"))
                  for number in changes)  # fmt: skip
    return Told(history=replace(at, changes=found))


def dated(report: Report) -> Report:
    return replace(report, time="2026-11-30T00:20:00+00:00")


def test_what_is_new_stands_below_the_verdict() -> None:
    page = made(dated(masked()), stored(FULL.latest[0].id))
    assert "New since 2026-11-29 13:27Z: disk.low, / appeared (warning)." in page.said
    assert page.said.index("New since") < page.said.index("Why")


def test_changes_of_earlier_snapshots_are_not_new() -> None:
    page = made(dated(masked()), stored(FULL.latest[1].id))
    assert "New since" not in page.said
    assert "Nothing changed since the report before, of 2026-11-29 13:27Z." in page.said


def test_of_a_report_that_was_not_stored_nothing_is_said_to_be_new() -> None:
    page = made(masked(), stored(FULL.latest[0].id))
    assert "New since" not in page.said
    assert "Nothing changed since" not in page.said


def test_many_changes_are_folded_and_counted() -> None:
    many = tuple(change(LAST - n, n, trait("GPU driver", None, str(n), str(n + 1)))
                 for n in range(120))  # fmt: skip
    page = made(masked(), Told(history=replace(FULL, changes=many)))
    assert "94 earlier" in page.said
    assert "20 more: nodecheck history" in page.said
    assert section(page, "Changes").count("GPU driver") == 100


def test_trends_are_told() -> None:
    changes = section(made(masked(), MONTH), "Changes")
    for words in ("Drift ! memory read, 8 threads: 24.1 -> 21.9 GB/s", "full in 18-26 days",
                  "+412 in 30 days"):  # fmt: skip
        assert words in changes


# --- which figures ---


def test_few_figures_are_followed_on_a_large_node() -> None:
    report = large()
    names = [each.metric.name for each in followed(report)]
    assert names[0] == "dram_read@64"
    assert len([name for name in names if name.startswith("disk_available")]) == ROOMS_MOST
    assert len(names) < 16 < len(figures(report))
    assert len(names) == len(set(names))


def test_of_several_cards_the_hottest_is_followed() -> None:
    cards = large().facts.gpus[:3]
    hot = tuple(replace(card, temperature_celsius=40 + n) for n, card in enumerate(cards))
    report = replace(large(), facts=replace(large().facts, gpus=hot))
    shown = [each for each in followed(report) if each.metric.name.startswith("gpu_temp")]
    assert [(each.metric.name, each.value) for each in shown] == [
        (f"gpu_temperature@{hot[-1].pci_address}", 42.0)
    ]


def test_disturbed_figures_are_marked() -> None:
    report = masked()
    read = tuple(replace(each, flags=("contended",)) for each in report.measurements)
    assert "11.7 GB/s contended" in section(made(replace(report, measurements=read)), "Measured")


# --- small lines ---


def test_a_line_stays_in_its_place_and_is_parted_where_nothing_was_recorded() -> None:
    drawn = spark(measured(), "memory & <read>")
    assert 'aria-label="memory &amp; &lt;read&gt;"' in drawn
    assert drawn.count("M") == 2
    points = [tuple(map(float, each)) for each in re.findall(r"(-?[\d.]+) (-?[\d.]+)", drawn[80:])]
    assert 20 < len(points) <= 2 * STRETCHES
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points[1:])


def test_a_point_alone_is_a_dot() -> None:
    alone = series(measured().metric, *((hour, 1e9) for hour in (0, 1, 2, 300, 700, 701)))
    path = re.findall(r'd="(.*?)"', spark(alone, "one alone"))[0].split(" M")
    assert len(path) == 3
    assert len(set(path[1].split(" L"))) == 1


def test_a_history_of_nothing_is_a_page() -> None:
    empty = History(node=None, time=LAST, count=0, first=None, last=None)
    page = made(masked(), Told(history=empty))
    assert section(page, "Changes") == "No snapshot in the last 30 days."
