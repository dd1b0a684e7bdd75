"""Judged reports of whole nodes."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from nodecheck.checks.disk.facts import Filesystem
from nodecheck.checks.seen import Facts
from nodecheck.collect import collect
from nodecheck.diagnose import diagnose
from nodecheck.model import Gap, Reason
from nodecheck.policy import Policy
from nodecheck.report import HostInfo, Report
from tests.hosts import HEALTHY, THREE_L40
from tests.nodes import l40
from tests.render.benches import CONTENDED, NODE
from tests.trees import Tree, plant

NASTY = '"><script>alert(1)</script>\u202e\x1b[2J<b>'


@functools.cache
def of_tree(name: str) -> Report:
    """The node of tests/hosts.py, judged by the shipped policy."""
    trees: dict[str, Tree] = {"three-l40": THREE_L40, "healthy": HEALTHY}
    with tempfile.TemporaryDirectory() as place:
        return diagnose(collect(plant(trees[name], Path(place))), Policy())


def large() -> Report:
    """A server with 16 cards, 24 file systems and a benchmark, judged."""
    facts = replace(
        NODE.facts,
        gpus=tuple(replace(l40(n), error="Insufficient External Power") for n in range(16)),
        disk=replace(NODE.facts.disk, filesystems=tuple(map(_filesystem, range(24)))),
    )
    return diagnose(replace(NODE, facts=facts), Policy())


def _filesystem(number: int) -> Filesystem:
    size = (number + 1) << 38
    return Filesystem(
        mount=f"/var/lib/kubelet/pods/{number:036d}/volumes/kubernetes.io~csi/pvc/mount",
        fstype="ext4",
        device=f"/dev/mapper/pvc{number}",
        device_number=f"253:{number}",
        persistent=True,
        total_bytes=size,
        available_bytes=size // 2,
        used_share=0.5,
        inodes_total=size >> 14,
        inodes_free=size >> 15,
    )


def hostile() -> Report:
    """Every name that comes from outside would leave its place, turn the writing, never end."""
    report = of_tree("three-l40")
    nasty = NASTY + "x" * 500
    cards = tuple(replace(card, name=nasty, pci_address=nasty) for card in report.facts.gpus)
    first, *others = report.findings
    evidence = tuple(replace(e, value=nasty, source=nasty, expected=nasty) for e in first.evidence)
    remedy = replace(first.remedy, text=nasty, commands=(nasty,), cost=nasty)
    finding = replace(first, summary=nasty, impact=nasty, evidence=evidence, remedy=remedy)
    return replace(
        report,
        host=replace(report.host, name=nasty),
        facts=replace(report.facts, gpus=cards),
        findings=(finding, *others),
        strategies=tuple(replace(s, basis=nasty) for s in report.strategies),
        verdict=replace(report.verdict, headline=nasty, ruled_out=(nasty,), not_checked=(nasty,)),
        gaps=(Gap(check=nasty, field=nasty, reason=Reason.FAILED, detail=nasty),),
    )


def unread() -> Report:
    """A report of which nothing is known."""
    return Report(
        nodecheck_version="0.1.0",
        time="2026-11-30T02:11:09+00:00",
        host=HostInfo(source="live", holds=()),
        facts=Facts(),
        gaps=(Gap(check="cpu", field="*", reason=Reason.TIMEOUT, detail="no answer within 1 s"),),
    )


REPORTS: dict[str, Callable[[], Report]] = {
    "three-l40": functools.partial(of_tree, "three-l40"),
    "healthy": functools.partial(of_tree, "healthy"),
    "contended": lambda: diagnose(CONTENDED, Policy()),
    "large": large,
    "hostile": hostile,
    "unread": unread,
}
"""Name -> what makes the report."""
