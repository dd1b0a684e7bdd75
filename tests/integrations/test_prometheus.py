"""Rules, dashboards and the document agree with the series that there are, and with each other."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from nodecheck.daemon.board import Board
from nodecheck.daemon.own_metrics import Tally, own_metrics
from nodecheck.records.figures import REPEATS_SHARE
from nodecheck.records.fleet.odd import FEWEST
from nodecheck.records.fleet.outliers import SPREADS
from nodecheck.render.prometheus import figures, gpus, measured, state, text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLACE = files("nodecheck") / "integrations" / "prometheus"
DOCUMENT = Path(__file__).parents[2] / "docs" / "prometheus.md"
FINDINGS = Path(__file__).parents[2] / "docs" / "findings"
RULES = (PLACE / "nodecheck.rules.yml").read_text(encoding="utf-8")
RULE_TESTS = (PLACE / "nodecheck.rules.test.yml").read_text(encoding="utf-8")
BOARDS = {
    name: json.loads((PLACE / name).read_text(encoding="utf-8"))
    for name in ("nodecheck-fleet.json", "nodecheck-node.json")
}
SERIES = (
    *state.SERIES, *figures.SERIES, *gpus.SERIES, *measured.SERIES, text.LEFT_OUT,
)  # fmt: skip

UNITS = (
    ("_tokens_per_second", "tokens/s"), ("_bytes_per_second", "bytes/s"), ("_bytes", "bytes"),
    ("_seconds_total", "seconds"), ("_seconds", "seconds"), ("_celsius", "degrees Celsius"),
    ("_watts", "watts"), ("_hertz", "hertz"), ("_ratio", "0 to 1"), ("_total", "count"),
    ("_lanes", "lanes"),
)  # fmt: skip
"""Suffix of a name -> its unit, the longest first."""


def table() -> list[str]:
    """The rows of the document's table of series."""
    rows = ["| series | labels | unit | what it says |", "|---|---|---|---|"]
    for each in SERIES:
        unit = next((unit for suffix, unit in UNITS if each.name.endswith(suffix)), "")
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append(f"| `{each.name}` | {labels} | {unit} | {each.help} |")
    return rows


def test_the_document_has_every_series_with_its_labels_and_what_it_says() -> None:
    rows = [row for row in DOCUMENT.read_text().splitlines() if row.startswith("| `nodecheck_")]
    assert rows == table()[2:]


def test_no_two_series_have_one_name() -> None:
    names = [each.name for each in SERIES]
    assert sorted(set(names)) == sorted(names)


def own() -> set[str]:
    """The daemon's own series, and those that Prometheus makes."""
    tally = Tally()
    tally.seconds["light"] = 0.4
    told = own_metrics(Board(60, 10), tally)().decode()
    names = set(re.findall(r"^([a-z_]+)[{ ]", told, re.MULTILINE))
    return names | {"nodecheck_report_age_seconds", "up"}


def alerts() -> dict[str, str]:
    """Name -> the text of the rule."""
    parts = re.split(r"^      - (?=alert:|record:)", RULES, flags=re.MULTILINE)[1:]
    found = (re.match(r"alert: (\w+)\n", part) for part in parts)
    return {
        match.group(1): part for match, part in zip(found, parts, strict=True) if match is not None
    }


def recorded() -> set[str]:
    return set(re.findall(r"record: (\S+)", RULES))


def queries() -> Iterator[str]:
    """All expressions of the rules and dashboards."""
    yield from (re.sub(r"#.*", "", part) for part in re.findall(r"expr: (.*?)\n +(?:for|- |#|\Z)",
                                                               RULES, re.DOTALL))  # fmt: skip
    for board in BOARDS.values():
        for panel in board["panels"]:
            yield from (target["expr"] for target in panel.get("targets", ()))
        yield from (each["expr"] for each in board["annotations"]["list"])
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                yield variable["query"]["query"]


def test_rules_and_dashboards_name_series_and_labels_that_there_are() -> None:
    labels = {each.name: {*each.labels, "job", "instance"} for each in SERIES}
    known = set(labels) | own() | recorded()
    for query in queries():
        for name, matchers in re.findall(r"((?:\w+:)*nodecheck_\w[\w:]*)(\{[^}]*\})?", query):
            assert name in known, query
            used = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", matchers))
            assert not used - labels.get(name, used), query


def test_every_recorded_series_is_used() -> None:
    used = " ".join(queries())
    for name in recorded():
        assert name in used


@pytest.mark.parametrize("alert", alerts())
def test_every_alert_waits_has_a_severity_and_says_what_to_do(alert: str) -> None:
    rule = alerts()[alert]
    assert re.search(r"^        for: \d+[mh]$", rule, re.MULTILINE)
    assert re.search(r"^          severity: (critical|warning|info)$", rule, re.MULTILINE)
    assert re.search(r'^          summary: "\{\{ \$labels\.instance \}\}', rule, re.MULTILINE)
    (description,) = re.findall(r"description: >-\n(.*)", rule, re.DOTALL)
    assert re.search(r"`(nodecheck|journalctl|systemctl)|Look for", description)


@pytest.mark.parametrize("alert", alerts())
def test_every_alert_has_a_test_that_it_fires_and_one_that_it_does_not(alert: str) -> None:
    assert re.search(rf"alertname: {alert}(,|\n +)? *exp_alerts:", RULE_TESTS)
    assert re.search(rf"alertname: {alert}\}}", RULE_TESTS)


@pytest.mark.parametrize("alert", alerts())
def test_every_alert_is_in_the_document(alert: str) -> None:
    assert f"| `{alert}` |" in DOCUMENT.read_text()


def test_the_document_names_no_alert_that_there_is_not() -> None:
    assert set(re.findall(r"^\| `(Nodecheck\w+)` \|", DOCUMENT.read_text(), re.MULTILINE)) == set(
        alerts()
    )


def test_the_tests_of_the_rules_use_findings_that_there_are() -> None:
    ids = set(re.findall(r'nodecheck_finding\{[^}]* id="([^"]+)"', RULE_TESTS))
    assert ids
    assert not ids - {page.stem for page in FINDINGS.glob("*.md")}


def test_the_thresholds_of_outliers_are_those_of_nodecheck_compare() -> None:
    counts = re.findall(r"count by \([^)]*\) \([^)]*\) >= (\d+)", RULES)
    assert [int(count) for count in counts] == [FEWEST, FEWEST]
    (factor, least) = re.findall(r"clamp_min\(\s+([\d.]+) \*.*?\), ([\d.]+)\)\)", RULES, re.DOTALL)[
        0
    ]
    assert float(factor) == pytest.approx(SPREADS / 0.6745, abs=0.05)
    assert float(least) == 2 * REPEATS_SHARE


def panels() -> list[Any]:
    return [
        pytest.param(panel, id=f"{board['uid']} {panel['title']}")
        for board in BOARDS.values()
        for panel in board["panels"]
    ]


@pytest.mark.parametrize("panel", panels())
def test_every_panel_is_one_that_grafana_takes(panel: dict[str, Any]) -> None:
    assert set(panel["gridPos"]) == {"x", "y", "w", "h"}
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    if panel["type"] == "row":
        assert panel["panels"] == []
        return
    assert panel["type"] in {"stat", "table", "timeseries", "bargauge", "state-timeline"}
    for each in (panel, *panel["targets"]):
        assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    references = [target["refId"] for target in panel["targets"]]
    assert sorted(set(references)) == sorted(references)
    if panel["type"] == "table":
        assert [target["format"] for target in panel["targets"]] == ["table"]
        assert panel["targets"][0]["instant"]


@pytest.mark.parametrize("name", BOARDS)
def test_every_dashboard_is_one_that_grafana_takes(name: str) -> None:
    board = BOARDS[name]
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= set(board)
    numbers = [panel["id"] for panel in board["panels"]]
    assert sorted(set(numbers)) == sorted(numbers)
    for one, other in combinations([panel["gridPos"] for panel in board["panels"]], 2):
        assert not overlap(one, other), (one, other)
    variables = {each["name"] for each in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([board["panels"], board["annotations"]])))
    assert used - {"__value", "datasource"} <= variables
    assert "id" not in board
    assert "__inputs" not in board


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
        for at, size in (("x", "w"), ("y", "h"))
    )


def test_links_between_the_dashboards_lead_to_one() -> None:
    paths = set(re.findall(r'"/d/([\w-]+)', json.dumps(list(BOARDS.values()))))
    assert paths == {board["uid"] for board in BOARDS.values()}


def test_every_file_is_among_those_that_init_gives() -> None:
    given = tomllib.loads((PLACE / "init.toml").read_text(encoding="utf-8"))["files"]
    there = {each.name for each in PLACE.iterdir()} - {"init.toml"}
    assert {each["name"] for each in given} == there
