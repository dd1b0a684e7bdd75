"""What the documents say is what the program does."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodecheck.cli import COMMANDS
from nodecheck.judge.rates.ceilings import CPU_RATES
from nodecheck.model import pretty_json
from nodecheck.policy import parse_policy
from nodecheck.quantities import write_rate
from tests.hosts import HEALTHY, THREE_L40
from tests.readme import report
from tests.render.histories import FULL, LAST, QUIET

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_report_in_the_readme_is_what_is_printed(tmp_path: Path) -> None:
    assert report(THREE_L40, tmp_path / "node") in (ROOT / "README.md").read_text(), (
        "run: make readme"
    )


def test_each_command_is_in_the_readmes_table() -> None:
    rows = re.findall(r"^\| (`nodecheck.*?`) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    told = {word for row in rows for word in re.findall(r"`nodecheck ([a-z]+)", row)}
    assert told == set(COMMANDS)


def test_a_healthy_node_takes_about_ten_lines(tmp_path: Path) -> None:
    lines = report(HEALTHY, tmp_path / "node").splitlines()
    assert lines[2].startswith("OK")
    assert len(lines) <= 12


def commands() -> list[str]:
    """Every `nodecheck ...` in backquotes or on a line of a code block."""
    found: set[str] = set()
    for document in DOCUMENTS:
        text = document.read_text()
        found |= set(re.findall(r"`(nodecheck [^`\n]+)`", text))
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            found |= set(
                re.findall(r"^(?:\$ )?(nodecheck [a-z-][^\n#|]*?) *(?:  |#|$)", block, re.MULTILINE)
            )
    return sorted(found)


@pytest.mark.parametrize("command", commands())
def test_a_command_in_a_document_is_a_command(command: str) -> None:
    """Its options and subcommand exist: the parser takes them, before anything is done."""
    words = [word for word in shlex.split(command)[1:] if word not in ("...", ">", "|")]
    known = [sys.executable, "-m", "nodecheck"]
    if words and not words[0].startswith("-"):
        known.append(words.pop(0))
    told = help_of(known)
    if words and re.search(rf"^Commands:\n(  .*\n)*?  {re.escape(words[0])} ", told, re.MULTILINE):
        told = help_of([*known, words.pop(0)])
    for option in (word.partition("=")[0] for word in words if word.startswith("--")):
        assert option in told


def help_of(command: list[str]) -> str:
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_policy_in_the_documents_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    text = (ROOT / "docs" / "policy.md").read_text()
    file.write_text(re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0])
    command = [sys.executable, "-m", "nodecheck", "policy", "check", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "instruction_sets avx2 fma   dram_read_bytes_per_second 40GB/s" in done.stdout


def test_the_shipped_policies_are_as_the_documents_say() -> None:
    rows = (ROOT / "docs" / "policy.md").read_text()
    for file in (ROOT / "agent" / "nodecheck" / "policies").glob("*.toml"):
        policy = parse_policy(file.read_text(), file.stem)
        row = next(row for row in rows.splitlines() if row.startswith(f"| `{file.stem}` | "))
        assert f"| {', '.join(policy.required)} |" in row
        asked = policy.requirements
        rate = asked.dram_read_bytes_per_second
        for said in (*asked.instruction_sets, rate and write_rate(rate), asked.gpus and "1 GPU"):
            assert not said or said in row


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_rates_in_measuring_are_those_in_force() -> None:
    rows = (ROOT / "docs" / "measuring.md").read_text()
    for level, rates in CPU_RATES.items():
        cells = " | ".join(f"{low:.1f}-{high:.1f}" for low, high in rates.values())
        assert f"| {level} | {cells} |" in rows


def test_the_alarm_on_a_history_tells_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    alarm = tmp_path / "alarm"
    text = (ROOT / "docs" / "history.md").read_text()
    alarm.write_text(text.partition("```python\n")[2].partition("```\n")[0])

    def told(history: bytes) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(alarm)]
        return subprocess.run(
            command, input=history.decode(), capture_output=True, text=True, check=False
        )

    fault = replace(FULL.growths[1], newest=LAST)
    soon = replace(FULL.forecasts[0], days=(9.7, 12.0))
    bad = replace(FULL, growths=(FULL.growths[0], fault), forecasts=(soon,))
    assert told(pretty_json(bad)).stdout.splitlines() == [
        "disk_available@/srv/models: full in 9 days at the soonest",
        "dram_read@8: -9%",
        "xid_79@0000:41:00.0: +3",
        "pcie.link_degraded, 0000:41:00.0: warning",
        "mem.insufficient, RAM: critical",
    ]
    assert told(pretty_json(QUIET)).stdout == ""
    stale = told(pretty_json(replace(QUIET, time=LAST + 2 * 86_400)))
    assert stale.stdout == "no snapshot was stored for a day\n"
    assert (told(b"").returncode, told(b"").stderr) == (1, "")
