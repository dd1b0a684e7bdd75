"""Policies: units, unknown keys, wrong types, dates, waivers."""

from __future__ import annotations

import ast
import datetime
import inspect
import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nodecheck
from nodecheck.diagnose import diagnose, waived
from nodecheck.model import Severity
from nodecheck.policy import (
    Policy,
    PolicyError,
    Requirements,
    Retention,
    Waiver,
    in_units,
    parse_policy,
)
from nodecheck.thresholds import Thresholds
from nodecheck.units import GIB
from tests.judge.test_verdict import finding, report
from tests.nodes import three_l40

SHIPPED = sorted((Path(nodecheck.__file__).parent / "policies").glob("*.toml"))


def test_a_policy_file_sets_what_it_names() -> None:
    policy = parse_policy('required = ["cpu"]\n[thresholds]\nmodel_min_bytes = "5GiB"\n', "p.toml")
    assert policy.thresholds.model_min_bytes == 5 * GIB
    assert policy.thresholds.disk_low_share == Thresholds().disk_low_share
    assert policy.required == ("cpu",)
    assert policy.name == "p.toml"


def test_quantities_are_read_by_the_end_of_their_members_name() -> None:
    policy = parse_policy(
        '[requirements]\ndram_read_bytes_per_second = "40GB/s"\ndisk_free_bytes = "200GB"\n'
        'gpus = 3\npcie = "gen4x16"\ninstruction_sets = ["avx2", "fma"]\n'
        '[retention]\nage_seconds = "30d"\nsize_bytes = "1GiB"\n',
        "p.toml",
    )
    assert policy.requirements == Requirements(
        instruction_sets=("avx2", "fma"),
        dram_read_bytes_per_second=40e9,
        disk_free_bytes=200 * 10**9,
        gpus=3,
        pcie="gen4x16",
    )
    assert policy.retention == Retention(age_seconds=30 * 86_400, size_bytes=GIB)


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("[thresholds]\nmodel_minimum = 3\n", "model_minimum"),
        ("[thresholds]\ndisk_low_share = 'high'\n", "disk_low_share"),
        ("[thresholds]\ndisk_low_share = 90\n", "disk_low_share"),
        ("[thresholds]\nmodel_min_bytes = 'ten'\n", "model_min_bytes: 'ten' is no size"),
        ("[thresholds]\nheadroom_copies = inf\n", "headroom_copies"),
        ("[thresholds]\nheadroom_copies = nan\n", "headroom_copies"),
        (f"[thresholds]\ncontext_tokens = {10**500}\n", "context_tokens"),
        (f"[thresholds]\ncontext_tokens = {'9' * 5000}\n", "not TOML"),
        ("[requirements]\ndram_read_bytes_per_second = '40GB'\n", "'40GB' is no rate"),
        ("[requirements]\npcie = 'gen4x32'\n", "pcie: 'gen4x32' is no PCIe link"),
        ("[requirements]\npcie = 4\n", "pcie"),
        ("[requirements]\ngpus = -1\n", "gpus"),
        ("[requirements]\ninstruction_sets = 'avx2'\n", "instruction_sets"),
        ("[retention]\nage_seconds = 'a year'\n", "is no span"),
        ("[retention]\nage_seconds = '0d'\n", "age_seconds"),
        ("waivers = 3\n", "waivers"),
        ("requierd = 1\n", "p.toml: there is no member 'requierd'; there are name, required, "),
        (
            "[thresholds]\ndisk_lo_share = 1\n",
            "thresholds: there is no member 'disk_lo_share'; did you mean disk_low_share",
        ),
        (
            "[[waivers]]\nid = 'disk.low'\nreason = 'r'\nexpire = 1\n",
            "waivers 1: there is no member 'expire'; there are id, reason, ",
        ),
        ("[[waivers]]\nid = 'disk.low'\n", "p.toml: waivers 1: reason is missing"),
        ("[[waivers]]\nid = 'disk.low'\nreason = ''\n", "reason"),
        ("[[waivers]]\nid = 'disk.low'\nreason = ' '\n", "reason"),
        ("[[waivers]]\nid = 'disk.low'\nreason = 'r'\nsubject = ''\n", "subject"),  # on none
        ("name = ''\n", "name"),
        ("thresholds = [\n", "not TOML"),
        ("surprise = 1\n", "surprise"),
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("a." * 5000 + "a = 1", "nested too deeply"),
    ],
)
def test_a_bad_policy_is_one_line_that_names_the_place(toml: str, named: str) -> None:
    assert named in refusal(toml)
    assert refusal(toml).startswith("p.toml: ")
    assert "\n" not in refusal(toml)


def refusal(text: str) -> str:
    try:
        parse_policy(text, "p.toml")
    except PolicyError as error:
        return str(error)
    return ""


@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_one_line(text: str) -> None:
    assert "\n" not in refusal(text)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_policy_gives_a_reason_for_every_line(file: Path) -> None:
    before = ""
    for line in filter(None, file.read_text().splitlines()):
        if not line.startswith(("#", "[")):
            assert before.startswith("# "), line
        before = line if line.startswith("#") else ""


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_policy_waives_nothing_and_asks_for_what_can_be_judged(file: Path) -> None:
    policy = parse_policy(file.read_text(), file.stem)
    assert policy.waivers == ()
    assert {"cpu", "memory", "disk"} <= set(policy.required)


def test_the_minimal_policy_is_the_default_written_out() -> None:
    file = next(file for file in SHIPPED if file.stem == "minimal")
    minimal = parse_policy(file.read_text(), "minimal")
    assert msgspec.structs.replace(minimal, name="default") == Policy()


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


@pytest.mark.parametrize("member", ["thresholds", "retention", "reference_workload"])
def test_what_is_written_in_units_is_read_as_the_same(member: str) -> None:
    shipped = getattr(Policy(), member)
    toml = f"[{member}]\n" + "".join(
        f"{name} = {as_toml(in_units(name, getattr(shipped, name)))}\n"
        for name in shipped.__struct_fields__
    )
    assert getattr(parse_policy(toml, "p"), member) == shipped


def as_toml(said: str) -> str:
    return said if re.fullmatch(r"[0-9.e-]+", said) else f'"{said}"'


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
    assert still.evidence[0].value == "waiver expired on 2026-01-01: until the new disk"
    assert still.evidence[1:] == LOW.evidence


def test_a_waiver_that_holds_counts_beside_one_that_has_expired() -> None:
    expired = Waiver(id="disk.low", reason="first", expires=datetime.date(2026, 1, 1))
    renewed = Waiver(id="disk.low", reason="renewed", expires=datetime.date(2026, 3, 1))
    assert waived(LOW, (expired, renewed), TODAY).waived == "renewed"


@pytest.mark.parametrize(
    ("time", "counts"),
    [
        ("2026-11-29T23:59:59+00:00", False),
        ("2026-11-30T00:00:00+00:00", False),
        ("2026-11-30T23:59:59+00:00", False),
        ("2026-12-01T00:00:00+00:00", True),
        ("2026-11-30T23:30:00-05:00", True),
        ("2026-12-01T01:00:00+05:00", False),
        ("2027-12-01T00:00:00+00:00", True),
    ],
)
def test_a_waiver_holds_to_the_end_of_its_last_day(time: str, counts: bool) -> None:
    toml = '[[waivers]]\nid = "disk.low"\nreason = "r"\nexpires = 2026-11-30\n'
    made = msgspec.structs.replace(report(three_l40()), time=time)
    low = next(f for f in diagnose(made, parse_policy(toml, "p")).findings if f.id == "disk.low")
    assert (low.severity is Severity.WARNING) is counts
    assert (low.waived is None) is counts


@pytest.mark.parametrize(
    "waiver",
    [Waiver(id="disk.inodes", reason="r"), Waiver(id="disk.low", reason="r", subject="/other")],
)
def test_a_waiver_of_something_else_waives_nothing(waiver: Waiver) -> None:
    assert waived(LOW, (waiver,), TODAY) == LOW


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ('"2027-06-30"', "without quotes"),
        ('"30 June"', "without quotes"),
        ("2027-06-30T10:00:00Z", "without a time"),
        ("2027-06-30 10:00:00", "without a time"),
        ("10:00:00", "is no date"),
        ("2027", "is no date"),
        ("true", "is no date"),
        ("2027-02-30", "not TOML"),
    ],
)
def test_what_is_no_date_is_one_clear_line(written: str, why: str) -> None:
    said = refusal(f'[[waivers]]\nid = "disk.low"\nreason = "r"\nexpires = {written}\n')
    assert why in said
    assert "\n" not in said


def test_a_label_tells_policies_apart_by_what_they_judge() -> None:
    one, other = (
        parse_policy(f"[thresholds]\ndisk_low_share = {n}\n", "p.toml") for n in (0.8, 0.9)
    )
    assert one.label.startswith("p.toml (")
    assert one.label != other.label
    kept = parse_policy(
        "[thresholds]\ndisk_low_share = 0.8\n[retention]\nage_seconds = '9d'\n", "p.toml"
    )
    assert kept.label == one.label
