"""Reports on disk: round trip, schema, other versions, garbage."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.diagnose import diagnose
from nodecheck.model import pretty_json
from nodecheck.policy import Policy
from nodecheck.report import Report, ReportError, from_json
from tests.judge.test_verdict import MASKED, report
from tests.nodes import three_l40

SCHEMA = Path(__file__).parents[1] / "docs" / "report.schema.json"


def test_a_report_reads_back_as_it_was() -> None:
    made = diagnose(report(three_l40(), MASKED), Policy())
    assert from_json(pretty_json(made), "saved") == made


def test_the_published_schema_is_the_one_in_force() -> None:
    in_force = json.loads(json.dumps(msgspec.json.schema(Report)))
    assert json.loads(SCHEMA.read_text()) == in_force, "run: make schema"


def test_a_report_is_valid_against_the_published_schema() -> None:
    made = json.loads(pretty_json(diagnose(report(three_l40(), MASKED), Policy())))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(made)


def test_another_schema_version_is_refused_by_name() -> None:
    with pytest.raises(ReportError, match=r"^old\.json: report schema 99, this nodecheck reads 1"):
        from_json(b'{"schema_version": 99}', "old.json")


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"\xff\xfe", b"null", b'{"schema_version": 1}', b"[" * 5000]
)
def test_what_is_no_report_is_one_line(text: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        from_json(text, "x.json")
    assert str(caught.value).startswith("x.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "yesterday", ""]
)
def test_a_time_that_utc_does_not_have_is_one_line(time: str) -> None:
    made = replace(diagnose(report(three_l40(), MASKED), Policy()), time=time)
    with pytest.raises(ReportError, match=r"^x\.json: not a nodecheck report: "):
        from_json(pretty_json(made), "x.json")


@pytest.mark.parametrize("time", ["soon", "0001-01-01T00:00:00+14:00"])
def test_a_time_of_measuring_that_is_none_is_one_line(time: str) -> None:
    made = replace(report(three_l40()), measured_time=time)
    with pytest.raises(ReportError, match=r"^x\.json: not a nodecheck report: "):
        from_json(pretty_json(made), "x.json")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_one_line(text: bytes) -> None:
    with pytest.raises(ReportError):
        from_json(text, "x.json")
