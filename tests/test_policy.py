"""Policies: units, unknown keys, wrong types, waivers."""

from __future__ import annotations

import ast
import datetime
import inspect
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.diagnose import waived
from nodecheck.model import Severity
from nodecheck.policy import PolicyError, Thresholds, Waiver, parse_policy
from nodecheck.quantities import QuantityError, parse_size
from nodecheck.units import GIB
from tests.judge.test_verdict import finding


@pytest.mark.parametrize(
    ("text", "size"),
    [("10GiB", 10 * GIB), ("500 MB", 500_000_000), ("1.5TiB", 3 * 2**39), ("7", 7), ("2KiB", 2048)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "1e9", "10 gallons", "3T", "0x10", "1GB/s", "iB"]
)
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(QuantityError, match="is no size"):
        parse_size(text)


def test_a_policy_file_sets_what_it_names() -> None:
    policy = parse_policy('required = ["cpu"]\n[thresholds]\nmodel_min_bytes = "5GiB"\n', "p.toml")
    assert policy.thresholds.model_min_bytes == 5 * GIB
    assert policy.thresholds.disk_low_share == Thresholds().disk_low_share
    assert policy.required == ("cpu",)


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("[thresholds]\nmodel_minimum = 3\n", "model_minimum"),
        ("[thresholds]\ndisk_low_share = 'high'\n", "disk_low_share"),
        ("[thresholds]\ndisk_low_share = 90\n", "disk_low_share"),
        ("[thresholds]\nmodel_min_bytes = 'ten'\n", "is no size"),
        ("waivers = 3\n", "waivers"),
        ("[[waivers]]\nid = 'disk.low'\n", "reason"),
        ("thresholds = [\n", "not TOML"),
        ("surprise = 1\n", "surprise"),
    ],
)
def test_a_bad_policy_is_one_line_that_names_the_place(toml: str, named: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(toml, "p.toml")
    assert named in str(caught.value)
    assert str(caught.value).startswith("p.toml: ")
    assert "\n" not in str(caught.value)


def refusal(text: str) -> str:
    try:
        parse_policy(text, "p.toml")
    except PolicyError as error:
        return str(error)
    return ""


@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_one_line(text: str) -> None:
    assert "\n" not in refusal(text)


def test_every_threshold_has_its_reason() -> None:
    source = ast.parse(Path(inspect.getfile(Thresholds)).read_text())
    body = next(
        n for n in source.body if isinstance(n, ast.ClassDef) and n.name == "Thresholds"
    ).body
    for field, reason in pairwise(body):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(reason, ast.Expr), ast.unparse(field)
            text = " ".join(ast.literal_eval(reason.value).split())
            assert ". Source: " in text, ast.unparse(field)


TODAY = datetime.date(2026, 1, 2)
LOW = finding("disk.low", Severity.WARNING)


def test_a_waived_finding_is_told_but_does_not_count() -> None:
    lived_with = waived(LOW, (Waiver(id="disk.low", reason="scratch disk"),), TODAY)
    assert lived_with.severity is Severity.INFO
    assert lived_with.waived == "scratch disk"


def test_an_expired_waiver_says_so_and_waives_nothing() -> None:
    expired = Waiver(id="disk.low", reason="until the new disk", expires=datetime.date(2026, 1, 1))
    still = waived(LOW, (expired,), TODAY)
    assert still.severity is Severity.WARNING
    assert "expired on 2026-01-01" in still.evidence[-1].value


@pytest.mark.parametrize(
    "waiver",
    [Waiver(id="disk.inodes", reason="r"), Waiver(id="disk.low", reason="r", subject="/other")],
)
def test_a_waiver_of_something_else_waives_nothing(waiver: Waiver) -> None:
    assert waived(LOW, (waiver,), TODAY) == LOW
