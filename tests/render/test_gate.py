"""A line that a pager shows, figures that a graph takes, and grounds for who looks closer."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.seen import Facts
from nodecheck.judge.gate.answers import WORST_FIRST, Answer
from nodecheck.judge.gate.gate import NODE, Gate
from nodecheck.model import Finding, Gap, Reason, Remedy, Severity, Status, Verdict
from nodecheck.policy import Policy, Waiver
from nodecheck.render.gate import figures, grounds, headline
from nodecheck.report import HostInfo, Report
from nodecheck.words import FIRST_LINE_BYTES
from tests.perfdata import parsed
from tests.render.benches import SLOW
from tests.render.plans import THREE_L40

WARNING = replace(SLOW, id="disk.low", subject="/", severity=Severity.WARNING)


def node(*findings: Finding) -> Report:
    return Report(
        nodecheck_version="0",
        time="2026-01-01T00:00:00+00:00",
        host=HostInfo(source="live", holds=()),
        facts=Facts(),
        findings=findings,
        verdict=Verdict(status=Status.OK, headline="The node."),
    )


def answer(status: str, text: str, name: str = "gpus") -> Answer:
    return Answer(name=name, status=Status(status), text=text)


def told(*answers: Answer) -> Gate:
    """A gate of these answers, worst first."""
    return Gate(status=answers[0].status, answers=answers)


WELL = answer("ok", "nothing was found", NODE)
LONG = answer("critical", "57 GiB free on / < 186 GiB")


@pytest.mark.parametrize(
    ("gate", "line"),
    [
        (told(WELL), "OK nothing was found"),
        (told(answer("ok", "3 GPUs >= 3"), WELL), "OK 3 GPUs >= 3"),
        (told(answer("critical", "no avx2"), answer("critical", "node: x", NODE)),
         "CRITICAL no avx2; node: x"),
        (told(answer("unknown", "2 GPUs of 3 sure"), WELL), "UNKNOWN 2 GPUs of 3 sure"),
        # the same reason twice is one
        (told(answer("critical", "no GPU"), answer("critical", "no GPU")), "CRITICAL no GPU"),
        # whole parts, as many as there is room for
        (told(LONG, replace(LONG, text="11.7 GB/s < 40 GB/s"), replace(LONG, text="x" * 30), WELL),
         "CRITICAL 57 GiB free on / < 186 GiB; 11.7 GB/s < 40 GB/s; ..."),
        (told(LONG, replace(LONG, text="x" * 43)), f"CRITICAL {LONG.text}; {'x' * 43}"),
        (told(LONG, replace(LONG, text="x" * 44)), f"CRITICAL {LONG.text}; ..."),
        (told(answer("critical", "x" * 90), LONG), f"CRITICAL {'x' * 68}..."),
        (told(answer("critical", "a|b\nc\u202e"), answer("unknown", "\udcff")),
         "CRITICAL a/b?c?; ?"),
        # what is met decides nothing: it is counted, where there is room
        (told(answer("warning", "node: disk.low", NODE), answer("ok", "3 GPUs >= 3"),
              answer("ok", "avx2", "instruction_sets")),
         "WARNING node: disk.low; 2 requirements met"),
        (told(answer("critical", "2 GPUs < 3"), answer("ok", "avx2", "instruction_sets"), WELL),
         "CRITICAL 2 GPUs < 3; 1 requirement met"),
        (told(answer("critical", "x" * 53), answer("ok", "3 GPUs >= 3")),
         f"CRITICAL {'x' * 53}"),
        # instruction sets are no figure
        (told(answer("ok", "avx2", "instruction_sets"), answer("ok", "3 GPUs >= 3"), WELL),
         "OK 3 GPUs >= 3; avx2"),
    ],
)  # fmt: skip
def test_the_first_line_is_the_answer(gate: Gate, line: str) -> None:
    assert headline(gate) == line


ANSWERS = st.lists(
    st.builds(answer, st.sampled_from([s.value for s in Status]), st.text(max_size=120)),
    min_size=1,
    max_size=8,
)


@given(ANSWERS)
def test_the_first_line_is_short_whatever_the_names(answers: list[Answer]) -> None:
    answers.sort(key=lambda each: WORST_FIRST.index(each.status))
    line = headline(told(*answers))
    assert len(line.encode()) <= FIRST_LINE_BYTES
    assert line.startswith(answers[0].status.value.upper())
    assert "\n" not in line
    assert "|" not in line


def test_figures_are_those_of_the_guidelines() -> None:
    gate = told(
        Answer(name="gpus", status=Status.UNKNOWN, text="", critical_below=3),
        Answer(name="dram_read", status=Status.OK, text="", value=40.5e9, critical_below=4e10),
        Answer(name="disk_free", status=Status.OK, text="", value=2**40, critical_below=1,
               unit="B"),
        Answer(name="tokens_per_second", status=Status.OK, text="", value=34.5678,
               warning_below=0.1),
        answer("ok", "avx2", "instruction_sets"),
    )  # fmt: skip
    assert figures(gate, node(SLOW, WARNING, WARNING)) == (
        "'disk_free'=1099511627776B;;1:;0 "
        "'dram_read'=40500000000;;40000000000:;0 "
        "'gpus'=U;;3:;0 "
        "'tokens_per_second'=34.57;0.1:;;0 "
        "'criticals'=1;;0;0 'warnings'=2;0;;0"
    )


@given(
    st.lists(
        st.builds(
            Answer,
            name=st.sampled_from(["dram_read", "disk_free", "gpus", "tokens_per_second"]),
            status=st.sampled_from(Status),
            text=st.just(""),
            value=st.none() | st.floats(0, 1e18),
            critical_below=st.floats(0, 1e18),
            unit=st.sampled_from(["", "B"]),
        ),
        min_size=1,
        unique_by=lambda each: each.name,
    )
)
def test_every_figure_can_be_read_back(answers: list[Answer]) -> None:
    found = parsed(figures(told(*answers), node()))
    assert list(found)[-2:] == ["criticals", "warnings"]
    for each in answers:
        value = found[each.name].value
        assert value == (None if each.value is None else pytest.approx(each.value, abs=0.006))


def test_the_grounds_follow() -> None:
    gate = told(answer("critical", "2 GPUs < 3"), answer("warning", "node: disk.low", NODE))
    lines = grounds(gate, node(WARNING), Policy(), THREE_L40, "gpu-resident", bars=True)
    assert lines[:3] == [
        "gpus: critical: 2 GPUs < 3",
        "warning: disk.low, /: qm set <vmid> --cpu host",
        "model: Qwen3.5-27B-Q4_K_XL, 16 GiB",
    ]
    assert lines[3].startswith("gpu-resident: limited by VRAM bandwidth, 864 GB/s; 0.7-0.8")
    assert lines[4].startswith("SGLang: VRAM of one card 51.3 GiB needed, 45 GiB there; --tp")
    assert lines[-1] == "node: The node."
    assert not any(
        "model" in line for line in grounds(gate, node(), Policy(), None, None, bars=True)
    )


def test_a_bar_in_the_grounds_would_begin_figures() -> None:
    piped = Remedy(text="x", action=SLOW.remedy.action, commands=("dmesg | grep Xid",))
    report = node(replace(WARNING, subject="a|b", remedy=piped))
    gate = told(answer("warning", "node: disk.low", NODE))
    assert grounds(gate, report, Policy(), None, None, bars=True)[0] == (
        "warning: disk.low, a|b: dmesg | grep Xid"
    )
    assert grounds(gate, report, Policy(), None, None, bars=False)[0] == (
        "warning: disk.low, a/b: nodecheck explain disk.low"
    )


def test_a_remedy_without_a_command_is_told_in_words() -> None:
    remedy = Remedy(text="Ask the provider", action=SLOW.remedy.action)
    gate = told(answer("warning", "node: disk.low", NODE))
    lines = grounds(gate, node(replace(WARNING, remedy=remedy)), Policy(), None, None, bars=False)
    assert lines[0] == "warning: disk.low, /: Ask the provider"


def until(day: int, *, subject: str | None = None) -> Waiver:
    """A waiver of disk.low to a day of January, of which it is the first."""
    expires = datetime.date(2026, 1, day)
    return Waiver(id="disk.low", subject=subject, reason="a disk comes", expires=expires)


def beside(report: Report, *waivers: Waiver) -> list[str]:
    """The grounds but for the node's sentence."""
    return grounds(
        told(WELL), report, Policy(waivers=waivers, required=()), None, None, bars=False
    )[:-1]


def test_a_waived_finding_is_told_with_its_reason_and_its_end() -> None:
    lived_with = node(replace(WARNING, severity=Severity.INFO, waived="a disk comes"))
    assert beside(lived_with, until(21)) == [
        "waived: disk.low, /: until 2026-01-21 (20 days left): a disk comes"
    ]
    assert beside(lived_with, Waiver(id="disk.low", reason="scratch")) == [
        "waived: disk.low, /: for good: scratch"
    ]


def test_a_waiver_that_ends_soon_is_told_though_it_waives_nothing_now() -> None:
    assert beside(node(), until(31, subject="/srv")) == [
        "waiver of disk.low, /srv: until 2026-01-31 (30 days left): a disk comes"
    ]
    later = replace(until(31), expires=datetime.date(2026, 2, 1))
    over = replace(until(31), expires=datetime.date(2025, 12, 31))
    assert beside(node(), later, over) == []


def test_a_subject_that_is_required_and_was_not_judged_has_a_line() -> None:
    why = Gap(check="cpu", field="*", reason=Reason.TIMEOUT, detail="the cpu probe: 5 s")
    report = replace(node(), host=HostInfo(source="live", holds=("cpu", "gpu")), gaps=(why,))
    policy = Policy(required=("cpu", "gpu"))
    assert grounds(told(WELL), report, policy, None, None, bars=False)[:-1] == [
        "required: cpu: not judged: the cpu probe: 5 s",
        "required: gpu: there is none",
    ]
