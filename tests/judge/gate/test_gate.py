"""The gate's status is that of the worst answer, and its reasons come in that order."""

from __future__ import annotations

import datetime

import pytest
from msgspec.structs import replace

from nodecheck.checks.seen import Facts
from nodecheck.diagnose import waived
from nodecheck.judge.gate.answers import Answer
from nodecheck.judge.gate.gate import expired_waivers, gate
from nodecheck.model import Finding, Severity, Status, Verdict
from nodecheck.policy import Policy, Requirements, Waiver
from nodecheck.report import HostInfo, Report
from tests.judge.gate.nodes import node
from tests.render.benches import SLOW

WARNING = replace(SLOW, id="disk.low", severity=Severity.WARNING)
NOTED = replace(SLOW, id="virt.guest", severity=Severity.INFO)
LIVED_WITH = replace(WARNING, severity=Severity.INFO, waived="scratch")
MODEL = Answer(name="tokens_per_second", status=Status.WARNING, text="the model")


def judged(status: Status, *findings: Finding) -> Report:
    verdict = Verdict(status=status, headline="The node.")
    return replace(node(Facts()), findings=findings, verdict=verdict)


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (judged(Status.OK), "nothing was found that holds this node back"),
        (judged(Status.OK, NOTED), "nothing was found that holds this node back"),
        (judged(Status.OK, NOTED, LIVED_WITH),
         "nothing but 1 waived finding was found that holds this node back"),
        (judged(Status.WARNING, WARNING, NOTED), "node: disk.low"),
        (judged(Status.CRITICAL, SLOW, WARNING, WARNING),
         "node: cpu.decode_compute_bound and 2 more"),
        (judged(Status.UNKNOWN), "not judged: cpu"),
    ],
)  # fmt: skip
def test_the_nodes_own_status_counts(report: Report, text: str) -> None:
    told = gate(report, Policy(), None)
    assert told.status is report.verdict.status
    assert [answer.text for answer in told.answers] == [text]


def test_a_gpu_that_is_certainly_not_there_is_not_called_unjudged() -> None:
    report = replace(judged(Status.UNKNOWN), host=HostInfo(source="live", holds=("cpu", "gpu")))
    told = gate(report, Policy(required=("gpu",)), None)
    assert told.answers[0].text == "a GPU is required and there is none"
    both = gate(report, Policy(required=("cpu", "gpu")), None)
    assert both.answers[0].text == "not judged: cpu; a GPU is required and there is none"


def test_the_worst_comes_first_and_of_equals_what_was_asked_for() -> None:
    asked = Requirements(gpus=1, dram_read_bytes_per_second=1e9)
    told = gate(judged(Status.CRITICAL, SLOW), Policy(requirements=asked), MODEL)
    assert [(answer.name, answer.status.value) for answer in told.answers] == [
        ("gpus", "critical"),
        ("node", "critical"),
        ("tokens_per_second", "warning"),
        ("dram_read", "unknown"),
    ]
    assert told.status is Status.CRITICAL


@pytest.mark.parametrize(
    ("node_is", "gpus", "status"),
    [
        (Status.OK, 0, Status.OK),
        (Status.OK, 1, Status.CRITICAL),
        (Status.UNKNOWN, 0, Status.UNKNOWN),
        (Status.UNKNOWN, 1, Status.CRITICAL),
        (Status.WARNING, 0, Status.WARNING),
    ],
)
def test_critical_before_warning_before_unknown(node_is: Status, gpus: int, status: Status) -> None:
    findings = (WARNING,) if node_is is Status.WARNING else ()
    policy = Policy(requirements=Requirements(gpus=gpus))
    assert gate(judged(node_is, *findings), policy, None).status is status


def test_a_waiver_that_is_over_is_told_with_its_day() -> None:
    over = Waiver(id="disk.low", reason="a new disk comes", expires=datetime.date(2026, 5, 31))
    found = waived(WARNING, (over,), datetime.date(2026, 6, 1))
    assert expired_waivers((SLOW, found)) == (
        "waiver of disk.low expired on 2026-05-31: a new disk comes",
    )
    told = gate(judged(Status.WARNING, found), Policy(), None)
    assert told.answers[0].text == "node: waiver of disk.low expired on 2026-05-31"
    assert expired_waivers((waived(WARNING, (over,), datetime.date(2026, 5, 31)),)) == ()


COUNTED = replace(SLOW, id="gpu.count_low")


@pytest.mark.parametrize(
    ("findings", "told"),
    [
        ((COUNTED,), [("gpus", "0 GPUs < 2"), ("node", "not judged: cpu")]),
        ((COUNTED, WARNING), [("gpus", "0 GPUs < 2"), ("node", "node: disk.low")]),
        ((SLOW, COUNTED), [("gpus", "0 GPUs < 2"), ("node", "node: cpu.decode_compute_bound")]),
    ],
)
def test_missing_gpus_are_told_once(
    findings: tuple[Finding, ...], told: list[tuple[str, str]]
) -> None:
    policy = Policy(requirements=Requirements(gpus=2))
    answers = gate(judged(Status.CRITICAL, *findings), policy, None).answers
    assert [(answer.name, answer.text) for answer in answers] == told


def test_cards_missing_since_the_last_snapshot_are_the_nodes_own_fault() -> None:
    policy = Policy(requirements=Requirements(gpus=0))
    told = gate(judged(Status.WARNING, replace(COUNTED, severity=Severity.WARNING)), policy, None)
    assert told.answers[0].text == "node: gpu.count_low"
    assert told.status is Status.WARNING


def test_a_node_with_nothing_else_wrong_says_so() -> None:
    policy = Policy(required=(), requirements=Requirements(gpus=2))
    told = gate(judged(Status.CRITICAL, COUNTED), policy, None)
    assert told.status is Status.CRITICAL
    assert told.answers[1].text == "nothing else was found that holds this node back"
