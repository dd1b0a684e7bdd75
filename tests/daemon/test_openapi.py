"""The API's document says what is served: each route, each refusal, each type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from nodecheck.daemon import guards, made, server
from nodecheck.daemon.app import make_app
from nodecheck.daemon.board import Board
from nodecheck.daemon.findings import Findings
from nodecheck.daemon.guards import Guard
from nodecheck.daemon.openapi import DEFAULT_SPAN, ERRORS, ROUTES, SPANS, document
from nodecheck.quantities import parse_span
from nodecheck.records.history.history import History
from nodecheck.report import Report
from tests.daemon.served import OWN, tree_pass
from tests.render.histories import FULL

DOCUMENT = document("1.2.3")


async def nothing(what: str, report: bytes) -> bytes:
    return what.encode() + report


def test_the_routes_are_those_of_the_application() -> None:
    app = make_app(Board(60, 30), Guard("127.0.0.1"), lambda: OWN, nothing)
    served = [getattr(route, "path", None) for route in app.routes]
    assert [route.path for route in ROUTES] == served
    assert list(DOCUMENT["paths"]) == served


def test_names_are_unique() -> None:
    operations = [each for path in DOCUMENT["paths"].values() for each in path.values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names)) == 2 * len(ROUTES)


def test_every_refusal_is_told() -> None:
    for route in ROUTES:
        for operation in DOCUMENT["paths"][route.path].values():
            told = {int(status) for status in operation["responses"]} - {200, 304}
            assert told == set(ERRORS) - ({401} if route.is_open else set())


def references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [found for each in part for found in references(each)]
    if not isinstance(part, dict):
        return []
    below = [found for each in part.values() for found in references(each)]
    return [part["$ref"], *below] if isinstance(part.get("$ref"), str) else below


def test_every_reference_leads_somewhere() -> None:
    found = references(DOCUMENT)
    assert len(found) > 50
    for reference in found:
        start, name = reference.rsplit("/", 1)
        assert start == "#/components/schemas"
        assert name in DOCUMENT["components"]["schemas"]


def check(name: str, content: bytes) -> None:
    """Hold JSON against a component of the document."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(json.loads(content))


def test_what_is_served_is_of_the_types_that_are_told() -> None:
    latest = tree_pass()
    check("Report", latest.report)
    check("Findings", latest.findings)
    check("History", msgspec.json.encode(FULL))
    check("Error", b'{"error": "one line"}')
    with pytest.raises(jsonschema.ValidationError):
        check("Report", b"{}")
    with pytest.raises(jsonschema.ValidationError):
        check("Findings", latest.findings.replace(b'"critical"', b'"bad"', 1))


@pytest.mark.parametrize("kind", [Report, History, Findings])
def test_the_types(kind: type[msgspec.Struct]) -> None:
    made = DOCUMENT["components"]["schemas"][kind.__name__]
    assert set(made["properties"]) == set(kind.__struct_fields__)


def test_spans() -> None:
    assert DEFAULT_SPAN in SPANS
    seconds = [parse_span(span) for span in SPANS]
    assert seconds == sorted(seconds)
    [since] = [
        each for each in DOCUMENT["paths"]["/api/v1/history"]["get"]["parameters"]
        if each["name"] == "since"
    ]  # fmt: skip
    assert since["schema"]["enum"] == list(SPANS)


def test_the_daemon_reads_no_check_to_know_the_routes() -> None:

    code = (
        "import sys, nodecheck.daemon.app, nodecheck.daemon.server, nodecheck.daemon.made\n"
        "print([m for m in ('nodecheck.checks', 'nodecheck.report', 'jinja2', 'pygal', 'sqlite3',"
        " 'cffi', 'rich', 'httptools', 'uvloop') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_routes_are_those_that_people_read_of() -> None:
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
    assert re.findall(r"^\| `(/[^`]*)` \|", text, re.MULTILINE) == [r.path for r in ROUTES]
    for path in re.findall(r"http://[^/ ]+(/[\w./]+)", text):
        assert path in {route.path for route in ROUTES}
    assert f"`since` is {', '.join(SPANS[:2])}, {DEFAULT_SPAN} (unless said)" in text


def test_the_limits_are_those_that_people_read_of() -> None:
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
    table = text.partition("## Limits")[2]
    limits = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE))
    assert limits == {
        "what": "limit",
        "connections": f"{server.CONNECTIONS} at once",
        "a request's line and headers": f"{guards.HEADERS_BYTES >> 10} KiB",
        "a request's body": "none",
        "until a request is whole": f"{server.REQUEST_SECONDS:g} s",
        "until its answer is taken": f"{server.TAKEN_SECONDS:g} s",
        "between two requests": f"{server.IDLE_SECONDS:g} s",
        "that wait for what is being made": f"{made.WAITING} requests",
    }
    assert f"more than {made.DEADLINE_SECONDS:g} s is a 503" in text
    assert f"not tried again for {made.FAILED_SECONDS:g} s" in text
