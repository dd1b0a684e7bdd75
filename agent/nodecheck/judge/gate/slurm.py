"""What the gate's answer means for a node in Slurm: drained, resumed, or left as it is. Pure."""

from __future__ import annotations

import re
from enum import Enum

from nodecheck.judge.gate.gate import Gate
from nodecheck.judge.gate.gpus import looked_in_vain
from nodecheck.judge.gate.slurm_reason import is_ours, tells_the_same
from nodecheck.judge.verdict import unjudged
from nodecheck.model import UNANSWERED, Status, Struct
from nodecheck.policy import Policy
from nodecheck.report import Report

DRAIN = "DRAIN"

IN_USE = frozenset({"IDLE", "ALLOCATED", "MIXED"})
"""States of a node that Slurm has in service, drained or not."""

NO_OBSTACLES = frozenset({
    DRAIN, "BLOCKED", "CLOUD", "COMPLETING", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL",
    "PLANNED", "RESERVED",
})  # fmt: skip
"""Flags beside which a drained node may be resumed. With any other it is being worked on, is about
to go, or does not answer. Source: node_state_flags of Slurm, 21.08 to 26.05."""

GOING = frozenset({"FAIL", "POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED"})
"""Flags of a node that takes no job anyway, and whose reason, where it has one, is another's."""


class SlurmNode(Struct, frozen=True, kw_only=True):
    """A node as slurmctld has it: `state` is its base state, such as IDLE, `flags` all else.

    `reason` may have several lines; `by` is the user who gave it.
    """

    state: str
    flags: frozenset[str] = frozenset()
    reason: str = ""
    by: str | None = None

    def __str__(self) -> str:
        return "+".join((self.state, *sorted(self.flags)))


class Do(Enum):
    """What is to be done about a node."""

    DRAIN = "drained"
    RENEW = "stays drained, for another reason"
    RESUME = "resumed"
    LEAVE = "left"


class Decision(Struct, frozen=True):
    """What is to be done, and in a few words what became of the node."""

    do: Do
    said: str


def parse_node(text: str, name: str) -> SlurmNode:
    """The node that `scontrol show node` told of. Raises ValueError where it told another thing."""
    if re.findall(r"(?m)^NodeName=(\S+)", text) != [name]:
        raise ValueError(f"scontrol does not tell of {name} alone")
    told = re.search(r"(?m)^ *State=([A-Z_]+)(\S*)", text)
    if told is None:
        raise ValueError(f"scontrol tells no state of {name}")
    flags = [flag for flag in told[2].split("+") if flag]
    reason, by = _reason_in(text)
    return SlurmNode(state=told[1], flags=frozenset(flags), reason=reason, by=by)


def _reason_in(text: str) -> tuple[str, str | None]:
    """The reason, and who gave it, which stands behind its first line; later ones are indented."""
    found = re.search(r"(?m)^ *Reason=(.*)((?:\n {4,}.*)*)", text)
    if found is None:
        return "", None
    first, by = found[1].strip(), None
    if given := re.search(r" *\[([^\[\]]*)@[^\[\]@]*\]$", first):
        first, by = first[: given.start()], given[1]
    more = (line.strip() for line in found[2].splitlines()[1:])
    return "\n".join((first, *more)), by


def decide(node: SlurmNode, reason: str | None, doubt: str | None, user: str) -> Decision:
    """What to do with a node that fails the gate for `reason`, None where it passes.

    `doubt` is why it is not certain that a node which passes is well. `user` is who we are to
    Slurm: a reason that another user gave is not ours, whatever it says.
    """
    ours = is_ours(node.reason) and node.by == user
    if DRAIN in node.flags:
        return _drained(node, reason, doubt, ours=ours)
    if reason is None:
        return Decision(Do.LEAVE, f"left {node}")
    if node.flags & GOING or node.state not in (*IN_USE, "UNKNOWN"):
        return Decision(Do.LEAVE, f"left {node}, which takes no jobs")
    if node.reason and not ours:
        return Decision(Do.LEAVE, f"left {node}, where others gave a reason: {node.reason[:60]}")
    return Decision(Do.DRAIN, Do.DRAIN.value)


def _drained(node: SlurmNode, reason: str | None, doubt: str | None, *, ours: bool) -> Decision:
    if not ours:
        return Decision(Do.LEAVE, f"left drained, which others did: {node.reason[:60]}")
    if reason is not None:
        gone = bool(node.flags & GOING) or node.state not in IN_USE
        same = gone or tells_the_same(node.reason, reason)
        return Decision(Do.LEAVE, "stays drained") if same else Decision(Do.RENEW, Do.RENEW.value)
    if doubt is not None:
        return Decision(Do.LEAVE, f"left drained, as it may not be well: {doubt}")
    if node.state not in IN_USE or not node.flags <= NO_OBSTACLES:
        return Decision(Do.LEAVE, f"left {node}")
    return Decision(Do.RESUME, Do.RESUME.value)


def doubt_of(told: Gate, report: Report, policy: Policy) -> str | None:
    """Why a fault may be there unseen; None where all that was asked answered."""
    for answer in told.answers:
        if answer.status is Status.UNKNOWN:
            return answer.text
    if missing := unjudged(report, policy):
        return f"not judged: {', '.join(missing)}"
    for gap in report.gaps:
        if gap.reason in UNANSWERED:
            return f"{gap.check}: {gap.detail}"
    return "which GPUs there are is not known" if looked_in_vain(report.gaps) else None
