"""One input that raises each finding, and one that does not: facts, as only live nodes have."""

from __future__ import annotations

from nodecheck.checks.cpu.facts import CpuFacts
from nodecheck.checks.python.facts import Library, PythonFacts
from nodecheck.checks.seen import Facts, Seen
from nodecheck.policy import Policy
from tests.trees import Tree


def environment(outcome: str, detail: str | None = None) -> Seen:
    library = Library(name="numpy", version="2.4.6", outcome=outcome, detail=detail)
    python = PythonFacts(interpreter="/opt/venv/bin/python", libraries=(library,))
    return Seen(facts=Facts(python=python, cpu=CpuFacts(x86_64_level=1)), policy=Policy())


RAISES: dict[str, Tree | Seen] = {"python.illegal_instruction": environment("illegal_instruction")}
SILENT: dict[str, Tree | Seen] = {"python.illegal_instruction": environment("ok")}
