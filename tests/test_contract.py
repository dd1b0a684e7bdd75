"""Every finding id has a rule, a page, an input that raises it and one that does not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from nodecheck.checks import CHECKS
from nodecheck.checks.seen import Rule, Seen
from nodecheck.collect import collect
from nodecheck.diagnose import diagnose, rules
from nodecheck.policy import Policy
from tests.trees import Tree, plant

PAGES = Path(__file__).parents[1] / "docs" / "findings"
RULES: dict[str, Rule] = {rule.id: rule for rule in rules()}


def examples(kind: str) -> dict[str, Tree | Seen]:
    found: dict[str, Tree | Seen] = {}
    for check in CHECKS:
        found |= getattr(importlib.import_module(f"tests.checks.{check}.examples"), kind)
    return found


RAISES, SILENT = examples("RAISES"), examples("SILENT")


def raised(example: Tree | Seen, tmp_path: Path) -> set[str]:
    if isinstance(example, Seen):
        return {finding.id for rule in rules() for finding in rule.judge(example)}
    report = diagnose(collect(plant(example, tmp_path / "node")), Policy())
    return {finding.id for finding in report.findings}


def test_ids_are_subject_and_problem_and_used_once() -> None:
    ids = [rule.id for rule in rules()]
    assert len(ids) == len(set(ids))
    assert all(part.isidentifier() for id_ in ids for part in id_.split("."))
    assert all(id_.count(".") == 1 for id_ in ids)


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}
    assert pages == set(RULES)


@pytest.mark.parametrize("id_", sorted(RULES))
def test_a_page_tells_the_whole_story(id_: str) -> None:
    text = (PAGES / f"{id_}.md").read_text()
    assert text.startswith(f"# {id_}\n")
    for heading in ("How nodecheck knows", "What it costs", "What to do", "Check afterwards"):
        assert f"## {heading}\n" in text


@pytest.mark.parametrize("id_", sorted(RULES))
def test_an_input_raises_it(id_: str, tmp_path: Path) -> None:
    assert id_ in raised(RAISES[id_], tmp_path)


@pytest.mark.parametrize("id_", sorted(RULES))
def test_an_input_does_not(id_: str, tmp_path: Path) -> None:
    assert id_ not in raised(SILENT[id_], tmp_path)
