"""Whom the gate drains and resumes in Slurm, and in which words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.seen import Facts
from nodecheck.judge.gate.answers import Answer
from nodecheck.judge.gate.gate import NODE, Gate
from nodecheck.judge.gate.requirements import requirements
from nodecheck.judge.gate.serving import RATE
from nodecheck.judge.gate.slurm import Decision, Do, SlurmNode, decide, doubt_of, parse_node
from nodecheck.judge.gate.slurm_reason import is_ours, reason_of, tells_the_same
from nodecheck.model import Finding, Reason, Severity, Status
from nodecheck.policy import Policy, Requirements
from nodecheck.report import Report
from tests.judge.gate.nodes import gap, node
from tests.render.benches import SLOW

LOST = "nodecheck: gpu.lost: GPU 1: 1 GPU fell off the bus"
MINE = "fan is replaced"
US = "slurm"
"""Who we run as."""

SHOWN = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1 
   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.20
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=(null)
   NodeAddr=127.0.0.1 NodeHostName=vm Port=26818 Version=22.05.8
   OS=Linux 6.1.0 #1 SMP State=OFF Reason=none 
   RealMemory=1 AllocMem=0 FreeMem=22000 Sockets=2 Boards=1
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=p 
   BootTime=2026-11-30T21:00:00 SlurmdStartTime=2026-11-30T22:00:00
   LastBusyTime=2026-11-30T22:00:00
   CfgTRES=cpu=2,mem=1M,billing=2
   AllocTRES=
   CapWatts=n/a
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s
{rest}
"""  # noqa: W291 - as scontrol prints it


def shown(state: str, rest: str = "", name: str = "n1") -> SlurmNode:
    return parse_node(SHOWN.format(state=state, rest=rest), name)


def drained(state: str, reason: str = LOST, by: str | None = US) -> SlurmNode:
    base, *flags = state.split("+")
    return SlurmNode(state=base, flags=frozenset(flags), reason=reason, by=by)


def decided(node: SlurmNode, reason: str | None, doubt: str | None = None) -> Decision:
    return decide(node, reason, doubt, US)


def finding(name: str, subject: str, summary: str, severity: str = "critical") -> Finding:
    return replace(SLOW, id=name, severity=Severity(severity), subject=subject, summary=summary)


def with_findings(*findings: Finding) -> Report:
    return replace(node(Facts()), findings=findings)


def gate(status: str, *answers: tuple[str, str, str]) -> Gate:
    """A gate of these answers: name, status, text."""
    made = (Answer(name=n, status=Status(s), text=t) for n, s, t in answers)
    return Gate(status=Status(status), answers=tuple(made))


@pytest.mark.parametrize(
    ("state", "base", "flags"),
    [
        ("IDLE", "IDLE", set()),
        ("IDLE+DRAIN", "IDLE", {"DRAIN"}),
        ("MIXED+CLOUD+DRAIN+PLANNED", "MIXED", {"CLOUD", "DRAIN", "PLANNED"}),
        ("DOWN*+DRAIN", "DOWN", {"*", "DRAIN"}),
        ("UNKNOWN+NOT_RESPONDING", "UNKNOWN", {"NOT_RESPONDING"}),
    ],
)
def test_the_state_is_read_as_slurm_prints_it(state: str, base: str, flags: set[str]) -> None:
    assert shown(state) == SlurmNode(state=base, flags=frozenset(flags))


TIME = "2026-11-30T22:00:00"


@pytest.mark.parametrize(
    ("rest", "reason", "by"),
    [
        (f"   Reason={LOST} [root@{TIME}]", LOST, "root"),
        (f"   Reason={MINE} [slurm@30 Nov 22:00]\n   Comment=Reason=nodecheck: x", MINE, "slurm"),
        (f"   Reason=a [b@c] d [al@corp.example@{TIME}]", "a [b@c] d", "al@corp.example"),
        (f"   Reason=a [root@x] [bob@{TIME}]", "a [root@x]", "bob"),
        (f"   Reason=two [root@{TIME}]\n          lines", "two\nlines", "root"),
        (f"   Reason=two [root@{TIME}]\n          lines [x@y]\n          more\n   Comment=c",
         "two\nlines [x@y]\nmore", "root"),
        (f"   Reason=two [root@{TIME}]\n          State=x", "two\nState=x", "root"),
        ("   Comment=Reason=nodecheck: x", "", None),
        ("   Reason=without its time", "without its time", None),
    ],
)  # fmt: skip
def test_the_reason_is_read_whole_and_who_gave_it(rest: str, reason: str, by: str | None) -> None:
    node = shown("IDLE+DRAIN", rest)
    assert (node.reason, node.by) == (reason, by)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Node n1 not found\n",
        SHOWN.format(state="IDLE", rest="").replace("=n1", "=n2"),
        2 * SHOWN.format(state="IDLE", rest=""),
        "NodeName=n1 Arch=x86_64\n   Gres=(null)\n",
    ],
)
def test_what_is_not_this_node_alone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="n1"):
        parse_node(text, "n1")


@pytest.mark.parametrize(
    ("state", "drains"),
    [
        ("IDLE", True), ("MIXED", True), ("ALLOCATED+COMPLETING", True), ("UNKNOWN", True),
        ("IDLE+MAINTENANCE+RESERVED", True), ("IDLE+NOT_RESPONDING", True),
        ("IDLE+CLOUD+POWERING_UP", True), ("ALLOCATED+REBOOT_REQUESTED", True),
        ("DOWN", False), ("DOWN+NOT_RESPONDING", False), ("IDLE+FAIL", False), ("FUTURE", False),
        ("IDLE+CLOUD+POWERED_DOWN", False), ("IDLE+POWERING_DOWN", False), ("ERROR", False),
        ("ALLOCATED+REBOOT_ISSUED", False),
    ],
)  # fmt: skip
def test_a_node_that_takes_jobs_is_drained_when_it_fails(state: str, *, drains: bool) -> None:
    for reason, by in (("", None), (LOST, US)):
        done = decided(drained(state, reason, by), LOST).do
        assert done is (Do.DRAIN if drains else Do.LEAVE)
    assert decided(drained(state), None).do is Do.LEAVE


@pytest.mark.parametrize(
    ("state", "reason", "by"),
    [
        ("ALLOCATED+REBOOT_REQUESTED", "kernel update", "root"),
        ("IDLE", MINE, "bob"),
        ("IDLE+NOT_RESPONDING", "Not responding", US),
        ("DOWN+NOT_RESPONDING", "Not responding", US),
        ("MIXED", f"{LOST}\nRMA 4711", US),
        ("MIXED", LOST, "bob"),
        ("MIXED", LOST, None),
    ],
)
def test_a_reason_that_others_gave_is_never_replaced(
    state: str, reason: str, by: str | None
) -> None:
    """By "Not responding" Slurm knows that a node may come back, by another it reboots one."""
    done = decided(drained(state, reason, by), LOST)
    assert done.do is Do.LEAVE
    if not state.startswith("DOWN"):
        assert done.said.startswith(f"left {drained(state)}, where others gave a reason: ")


@pytest.mark.parametrize(
    ("state", "resumes"),
    [
        ("IDLE+DRAIN", True), ("MIXED+DRAIN", True), ("ALLOCATED+COMPLETING+DRAIN", True),
        ("IDLE+CLOUD+DRAIN", True), ("IDLE+DRAIN+DYNAMIC_NORM+PLANNED", True),
        ("DOWN+DRAIN", False), ("DOWN+DRAIN+NOT_RESPONDING", False), ("UNKNOWN+DRAIN", False),
        ("IDLE+DRAIN+FAIL", False), ("IDLE+DRAIN+MAINTENANCE", False), ("FUTURE+DRAIN", False),
        ("IDLE+DRAIN+REBOOT_REQUESTED", False), ("IDLE+DRAIN+REBOOT_ISSUED", False),
        ("IDLE+DRAIN+INVALID_REG", False), ("IDLE+DRAIN+POWERING_DOWN", False),
        ("IDLE+DRAIN+NOT_RESPONDING", False), ("IDLE+DRAIN+POWERING_UP", False),
        ("IDLE+DRAIN+*", False), ("IDLE+DRAIN+WHATEVER_COMES", False),
    ],
)  # fmt: skip
def test_a_node_is_resumed_only_where_nothing_else_holds_it(state: str, *, resumes: bool) -> None:
    assert decided(drained(state), None).do is (Do.RESUME if resumes else Do.LEAVE)


@pytest.mark.parametrize(
    "reason",
    [MINE, "", "Prolog error", "Kill task failed", "by nodecheck: x", "Nodecheck: x",
     f"{LOST} : Kill task failed", f"{LOST}\nRMA 4711", f"{LOST}\n", f"{LOST}, ticket #7",
     f"{LOST}; Bob's", f"{LOST} [bob]", f"{LOST}\u00e9", "nodecheck: ask Bob before use",
     "nodecheck: hold: RMA 4711", "nodecheck: RMA", "nodecheck:", "nodecheck: gpu.lost, RMA: x",
     "nodecheck: gpu.lost and RMA: x", "nodecheck: gpu.lost;RMA: x", "nodecheck gpu.lost: x",
     "nodecheck: gpus, gpus, gpus, gpus: x", "nodecheck: gpus: " + "x" * 190],
)  # fmt: skip
@pytest.mark.parametrize("why", [None, LOST, "nodecheck: gpus: 7 GPUs < 8"])
def test_what_others_drained_is_left_with_its_reason(reason: str, why: str | None) -> None:
    done = decided(drained("IDLE+DRAIN", reason), why)
    assert done.do is Do.LEAVE
    assert done.said.startswith("left drained, which others did: ")


@pytest.mark.parametrize("by", ["bob", "root", None])
@pytest.mark.parametrize("why", [None, LOST, "nodecheck: gpus: 7 GPUs < 8"])
def test_what_others_wrote_in_our_words_is_left(by: str | None, why: str | None) -> None:
    """Who adds to a reason gives it anew, under his name; without a name it may be anybody's."""
    added = drained("IDLE+DRAIN", "nodecheck: gpus: 0 GPUs < 8; RMA 4711", by)
    assert decided(added, why).do is Do.LEAVE
    assert decided(drained("IDLE+DRAIN", LOST, by), why).do is Do.LEAVE


def test_a_doubt_resumes_nothing() -> None:
    done = decided(drained("IDLE+DRAIN"), None, "gpu: no answer within 4 s")
    assert done.do is Do.LEAVE
    assert "gpu: no answer within 4 s" in done.said


@pytest.mark.parametrize(
    ("reason", "renews"),
    [
        (LOST, False),
        ("nodecheck: gpu.lost: GPU 1: 2 GPUs fell off the bus", False),
        ("nodecheck: gpu.lost: GPU 2: 1 GPU fell off the bus", True),
        ("nodecheck: gpus, gpu.lost: 7 GPUs < 8", True),
    ],
)
def test_a_reason_is_renewed_where_other_things_fail(reason: str, *, renews: bool) -> None:
    """Figures alone would move the time since when it is drained."""
    done = decided(drained("IDLE+DRAIN"), reason)
    assert done.do is (Do.RENEW if renews else Do.LEAVE)
    assert decided(drained("IDLE+DRAIN+REBOOT_ISSUED"), reason).do is Do.LEAVE


def test_what_was_done_is_told() -> None:
    assert decided(drained("IDLE"), LOST) == Decision(Do.DRAIN, "drained")
    assert decided(drained("MIXED+PLANNED", ""), None).said == "left MIXED+PLANNED"
    other = decided(drained("IDLE+DRAIN", MINE), None)
    assert other.said == f"left drained, which others did: {MINE}"


def test_the_reason_names_what_fails_and_of_what() -> None:
    lost = finding("gpu.lost", "GPU 1 (NVIDIA L40, 0000:02:00.0)", "1 GPU fell off the bus")
    warned = finding("disk.low", "/", "The disk is nearly full", "warning")
    failing = gate("critical", (NODE, "critical", "node: gpu.lost and 1 more"))
    assert reason_of(failing, with_findings(lost, warned)) == (
        "nodecheck: gpu.lost: GPU 1 (NVIDIA L40, 0000:02:00.0): 1 GPU fell off the bus"
    )
    asked = gate(
        "critical", ("gpus", "critical", "1 GPU < 2"), (NODE, "critical", "node: gpu.lost"),
        ("disk_free", "ok", "61.2 GB free"),
    )  # fmt: skip
    assert reason_of(asked, with_findings(lost)) == "nodecheck: gpus, gpu.lost: 1 GPU < 2"
    unknown = gate("unknown", (NODE, "unknown", "not judged: gpu"))
    assert reason_of(unknown, with_findings(warned)) == "nodecheck: unknown: not judged; gpu"


def test_of_many_faults_some_are_named() -> None:
    found = [finding(f"gpu.fault_{number}", "", "It is broken") for number in range(5)]
    failing = gate("critical", (NODE, "critical", "node"))
    assert reason_of(failing, with_findings(*found)) == (
        "nodecheck: gpu.fault_0, gpu.fault_1, gpu.fault_2 and 2 more: It is broken"
    )


SAFE = frozenset(string.ascii_letters + string.digits + " _.,:;/()<>+*%-?")


@given(subject=st.text(), words=st.text())
def test_a_reason_is_one_short_line_whatever_a_driver_says(subject: str, words: str) -> None:
    failing = gate("critical", (NODE, "critical", "node"))
    made = reason_of(failing, with_findings(finding("gpu.lost", subject, words)))
    assert set(made) <= SAFE
    assert len(made) <= 200
    assert is_ours(made)
    assert tells_the_same(made, made)
    node = shown("IDLE+DRAIN", f"   Reason={made} [{US}@2026-11-30]")
    assert node.reason == made
    assert decided(node, None).do is Do.RESUME


@given(status=st.sampled_from(["critical", "unknown"]), texts=st.lists(st.text(), min_size=9))
def test_whatever_the_gate_asks_for_its_reason_is_known_again(
    status: str, texts: list[str]
) -> None:
    asked = Requirements(
        instruction_sets=("avx2",), dram_read_bytes_per_second=1e9, disk_free_bytes=1, gpus=1,
        pcie="gen4x16",
    )  # fmt: skip
    names = {answer.name for answer in requirements(node(Facts()), Policy(requirements=asked))}
    assert len(names) == 6
    for name in (*sorted(names), RATE, "model", NODE):
        failing = gate(status, *((name, status, text) for text in texts))
        assert is_ours(reason_of(failing, with_findings()))


def test_what_would_split_a_line_of_slurms_is_told_otherwise() -> None:
    said = 'A="b" | c\'s `x`\n$(reboot) : d\u2028é: [e@f]'
    failing = gate("critical", ("gpus", "critical", said))
    assert reason_of(failing, with_findings()) == "nodecheck: gpus: Ab / cs x??(reboot); d??; (e?f)"


def test_what_did_not_answer_is_a_doubt() -> None:
    """Also where a warning hides it."""
    sure = gate("warning", (NODE, "warning", "node: disk.low"), ("gpus", "ok", "8 GPUs >= 8"))
    lenient = Policy(required=())
    assert doubt_of(sure, node(Facts()), lenient) is None
    unsure = gate("warning", (NODE, "warning", "disk.low"), ("gpus", "unknown", "0 of 8 sure"))
    assert doubt_of(unsure, node(Facts()), lenient) == "0 of 8 sure"
    for reason in (Reason.TIMEOUT, Reason.FAILED):
        lacking = node(Facts(), gap("disk", "filesystems", reason))
        assert doubt_of(sure, lacking, lenient) == "disk: the reason"
    assert doubt_of(sure, node(Facts(), gap("gpu", "gpus", Reason.DENIED)), lenient)
    assert (
        doubt_of(sure, node(Facts(), gap("memory", "dimms", Reason.UNSUPPORTED)), lenient) is None
    )
    assert doubt_of(sure, node(Facts()), Policy(required=("cpu",))) == "not judged: cpu"
