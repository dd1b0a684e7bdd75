"""How findings speak: one form of sentence, evidence that adds to it, commands that can be run."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.checks import CHECKS
from nodecheck.checks.seen import Seen
from nodecheck.collect import collect
from nodecheck.diagnose import diagnose, rules
from nodecheck.model import Finding
from nodecheck.policy import Policy
from tests.trees import Tree, plant

PAGES = Path(__file__).parents[2] / "docs" / "findings"

CODE = re.compile(r"[A-Z0-9/`]|[a-z]+[-_.:=<(/]|btrfs\b")
"""What a sentence may begin with: a capital, a number, a path, or a name that is code."""

AS_ROOT = (
    "apt-mark",
    "btrfs",
    "chcpu",
    "chmem",
    "cpupower",
    "dmesg",
    "dmidecode",
    "fsck",
    "fstrim",
    "fuser",
    "ipmitool",
    "lvextend",
    "lvs",
    "modprobe",
    "mount",
    "reboot",
    "resize2fs",
    "smartctl",
    "swapoff",
    "swapon",
    "turbostat",
    "umount",
    "usermod",
    "xfs_growfs",
    "xfs_repair",
)
"""Programs that do what a remedy asks of them for root alone."""

NVIDIA_AS_ROOT = re.compile(r"nvidia-smi\b.* (-pl|-pm|-rgc|-rmc|-mig|--gpu-reset)\b")
OTHERS_AS_ROOT = re.compile(r"(sysctl -w|systemctl (enable|set-property)|echo \S+ > /)")
ON_THE_HOST = re.compile(r"(qm|pct|virsh|virt-xml|openstack|xe|acli|virtctl|govc|lxc) ")


def examples() -> dict[str, Tree | Seen]:
    found: dict[str, Tree | Seen] = {}
    for check in CHECKS:
        found |= importlib.import_module(f"tests.checks.{check}.examples").RAISES
    return found


RAISES = examples()


def findings(example: Tree | Seen, place: Path) -> list[Finding]:
    if isinstance(example, Seen):
        return [finding for rule in rules() for finding in rule.judge(example)]
    return list(diagnose(collect(plant(example, place)), Policy()).findings)


@pytest.fixture(params=sorted(RAISES))
def said(request: pytest.FixtureRequest, tmp_path: Path) -> list[Finding]:
    return findings(RAISES[request.param], tmp_path / "node")


def sentences(finding: Finding) -> Iterator[str]:
    yield finding.summary
    yield finding.impact
    yield finding.remedy.text
    if finding.remedy.cost is not None:
        yield finding.remedy.cost


def programs(command: str) -> list[str]:
    """The commands of a line, without its comment."""
    return re.split(r" *(?:&&|;|\|) *", command.partition("  #")[0])


def test_sentences_begin_with_a_capital_and_end_without_a_full_stop(said: list[Finding]) -> None:
    for text in (text for finding in said for text in sentences(finding)):
        assert CODE.match(text), text
        assert not text.endswith((".", " ", ";")), text
        assert "  " not in text, text
        assert not re.search(r"[.] [a-z]", text.replace("e.g. ", "")), text


def test_evidence_adds_to_the_summary(said: list[Finding]) -> None:
    for finding in said:
        for piece in finding.evidence:
            assert piece.value.strip(), finding.id
            assert piece.source.strip(), finding.id
            assert piece.value not in finding.summary, (finding.id, piece.value)
        assert not any(finding.summary in piece.value for piece in finding.evidence), finding.id


def test_commands_that_need_root_ask_for_it(said: list[Finding]) -> None:
    for command in (command for finding in said for command in finding.remedy.commands):
        for program in programs(command):
            first = program.split()[0] if program.split() else ""
            assert first not in AS_ROOT, command
            assert not NVIDIA_AS_ROOT.match(program), command
            assert not OTHERS_AS_ROOT.match(program), command


def test_commands_can_be_run_as_they_stand(said: list[Finding]) -> None:
    """A command of another machine says so in a comment; an address that is known is filled in."""
    for finding in said:
        for command in finding.remedy.commands:
            assert not re.match(r"(on|in) (the|a) ", command), command
            assert not re.match(r"[A-Z][a-z]+: ", command), command
            assert "<address>" not in command, command
            if ON_THE_HOST.match(command):
                assert "  # " in command, command


def commands_of_pages() -> list[tuple[str, str]]:
    return [
        (page.stem, command)
        for page in sorted(PAGES.glob("*.md"))
        for command in re.findall(r"`([^`]+)`", page.read_text().partition("## What to do")[2])
        if " " in command
    ]


@pytest.mark.parametrize(("page", "command"), commands_of_pages())
def test_commands_of_pages_ask_for_root(page: str, command: str) -> None:
    for program in programs(command.replace("\n", " ")):
        first = program.split()[0] if program.split() else ""
        assert first not in AS_ROOT, page
        assert not NVIDIA_AS_ROOT.match(program), page
        assert not OTHERS_AS_ROOT.match(program), page
