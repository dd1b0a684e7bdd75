"""What is answered to each route: fresh, stale, and before the first report."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from nodecheck.daemon.app import HANGS_SECONDS
from nodecheck.daemon.findings import Findings
from nodecheck.daemon.made import MakingError
from nodecheck.daemon.openapi import ROUTES, SPANS
from nodecheck.model import Status
from nodecheck.report import from_json
from tests.daemon.served import OWN, Served, served, tree_pass

TAGGED = ["/", "/api/v1/report", "/api/v1/history", "/api/v1/findings", "/api/v1/openapi.json"]


class Recorder:
    """Stands in for Making: notes what was asked of it, gives back something of its own."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []

    async def __call__(self, what: str, report: bytes) -> bytes:
        self.asked.append((what, report))
        return f"made {what}".encode()


def stale(its: Served) -> None:
    its.clock.now += its.board.stale_after_seconds + 1
    its.board.turn()


def test_fresh() -> None:
    latest, make = tree_pass(), Recorder()
    with served(latest, make) as its:
        page = its.ask("/")
        report = its.ask("/api/v1/report")
        found = its.ask("/api/v1/findings")
        metrics = its.ask("/metrics")
        alive, ready = its.ask("/healthz"), its.ask("/readyz")
    assert (page.status, page.body) == (200, b"made page")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert make.asked == [("page", latest.report)]
    assert report.headers["content-type"] == "application/json"
    assert from_json(report.body, "answer").verdict.status.value == latest.status.value
    answer = msgspec.json.decode(found.body, type=Findings)
    assert (answer.status, answer.stale) == (latest.status, False)
    assert answer.findings
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert metrics.body == latest.metrics + OWN
    assert (alive.status, ready.status) == (200, 200)


def test_what_is_too_old_stands_for_nothing() -> None:
    latest, make = tree_pass(), Recorder()
    with served(latest, make) as its:
        stale(its)
        its.ask("/")
        report, found = its.ask("/api/v1/report"), its.ask("/api/v1/findings")
        metrics = its.ask("/metrics")
        alive, ready = its.ask("/healthz"), its.ask("/readyz")
    assert make.asked == [("page --stale 180", latest.report)]
    assert report.body == latest.report
    answer = msgspec.json.decode(found.body, type=Findings)
    assert (answer.status, answer.stale, answer.time) == (Status.UNKNOWN, True, latest.time)
    assert "nothing is known of now" in answer.headline
    assert metrics.body.endswith(OWN)
    assert b'nodecheck_status{status="unknown"} 1.0' in metrics.body
    assert b"nodecheck_finding{" not in metrics.body
    assert alive.status == 200
    assert ready.status == 503
    assert ready.body == f"the last report is of {latest.time}\n".encode()


def test_before_the_first_report_nothing_is_known() -> None:
    make = Recorder()
    with served(None, make) as its:
        page, metrics = its.ask("/"), its.ask("/metrics")
        refused = [its.ask(path) for path in ("/api/v1/report", "/api/v1/findings", "/readyz")]
        alive = its.ask("/healthz")
    assert page.status == 200
    assert make.asked == [("page", b"")]
    assert b'nodecheck_status{status="unknown"} 1.0' in metrics.body
    assert [each.status for each in refused] == [503, 503, 503]
    assert {each.headers["retry-after"] for each in refused} == {"5"}
    assert json.loads(refused[0].body) == {"error": "no report yet"}
    assert refused[2].body == b"no report yet\n"
    assert alive.status == 200


def test_a_loop_that_hangs_is_not_alive() -> None:
    with served(tree_pass(), Recorder()) as its:
        its.clock.now += HANGS_SECONDS + 1
        hangs = its.ask("/healthz")
        its.board.turn()
        turns = its.ask("/healthz")
    assert (hangs.status, hangs.body) == (503, b"the loop hangs for 31 s\n")
    assert turns.status == 200


@pytest.mark.parametrize("path", TAGGED)
def test_what_is_at_hand_is_not_sent_again(path: str) -> None:
    latest = tree_pass()
    with served(latest, Recorder()) as its:
        first = its.ask(path)
        tag = first.headers["etag"]
        same = [
            its.ask(path, If_None_Match=tag),
            its.ask(path, If_None_Match=f'"other", W/{tag}'),
            its.ask(path, "HEAD", If_None_Match="*"),
        ]
        other = its.ask(path, If_None_Match='"other"')
    assert {(each.status, each.body, each.headers["etag"]) for each in same} == {(304, b"", tag)}
    assert (other.status, other.body) == (200, first.body)


def test_the_tag_changes_with_the_report() -> None:
    latest = tree_pass()
    with served(latest, Recorder()) as its:
        tag = its.ask("/api/v1/report").headers["etag"]
        its.board.take(replace(latest, report=latest.report + b" "))
        assert its.ask("/api/v1/report", If_None_Match=tag).status == 200
        fresh = its.ask("/api/v1/findings").headers["etag"]
        stale(its)
        assert its.ask("/api/v1/findings", If_None_Match=fresh).status == 200


@pytest.mark.parametrize("span", SPANS)
def test_history_of_a_span(span: str) -> None:
    latest, make = tree_pass(), Recorder()
    with served(latest, make) as its:
        assert its.ask(f"/api/v1/history?since={span}").body == f"made history {span}".encode()
    assert make.asked == [(f"history {span}", latest.report)]


@pytest.mark.parametrize(
    "query",
    [
        "since=2d", "since=", "since=30D", "since=1d&since=7d", "sinse=7d", "x=1&since=7d",
        "since=1d%20--stale%209", "since=%00", "since", "since=../../etc", "since=%FF",
    ],
)  # fmt: skip
def test_history_of_what_there_is_not(query: str) -> None:
    make = Recorder()
    with served(tree_pass(), make) as its:
        answer = its.ask(f"/api/v1/history?{query}")
    assert answer.status == 400
    assert json.loads(answer.body) == {"error": "only since=1d|7d|30d|90d|365d may be asked"}
    assert make.asked == []


def test_what_cannot_be_made() -> None:
    async def fail(what: str, report: bytes) -> bytes:
        raise MakingError(f"{what}: no: {len(report)} bytes")

    with served(None, fail) as its:
        page, history = its.ask("/"), its.ask("/api/v1/history")
    assert (page.status, page.headers["retry-after"]) == (503, "5")
    assert page.body == b"page: no: 0 bytes\n"
    assert history.status == 503
    assert json.loads(history.body) == {"error": "history 30d: no: 0 bytes"}


def test_when_to_ask_again_is_said_where_that_may_help() -> None:
    async def fail(what: str, report: bytes) -> bytes:
        raise MakingError(f"{what}: no history is kept: {len(report)}", lasts=True)

    with served(None, fail) as its:
        history = its.ask("/api/v1/history")
    assert (history.status, "retry-after" in history.headers) == (503, False)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_only_get_and_head(route: object) -> None:
    path = getattr(route, "path", "")
    with served(tree_pass(), Recorder()) as its:
        got, head = its.ask(path), its.ask(path, "HEAD")
        others = [its.ask(path, m) for m in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO")]
    assert (got.status, head.status, head.body) == (200, 200, b"")
    assert head.headers["content-length"] == str(len(got.body))
    assert {each.status for each in others} == {405}
    assert {tuple(sorted(each.headers["allow"].split(", "))) for each in others} == {
        ("GET", "HEAD")
    }


@pytest.mark.parametrize(
    "path",
    [
        "/nothing", "/api/v1/", "/api/v2/report", "/metrics/", "//metrics", "/API/v1/report",
        "/../../etc/passwd", "/live.js/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
        "/live.js%00.html", "/templates/page.css", "/live.html.j2", "/..%2flive.html.j2",
    ],
)  # fmt: skip
def test_there_is_nothing_else(path: str) -> None:
    with served(tree_pass(), Recorder()) as its:
        answer = its.ask(path)
    assert answer.status == 404
    assert len(answer.body.splitlines()) == 1
    assert answer.headers["content-type"].startswith(
        "application/json" if path.startswith("/api/") else "text/plain"
    )


def test_the_script_is_the_packaged_one() -> None:
    import nodecheck.render

    package = Path(str(nodecheck.render.__file__)).parent
    with served(tree_pass(), Recorder()) as its:
        answer = its.ask("/live.js")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.body == (package / "templates" / "live.js").read_bytes()
