"""What import contracts cannot say: who may import what from outside, how long a file is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "agent" / "nodecheck"
MODULES = sorted(p for p in PACKAGE.rglob("*.py"))

DOORS = {
    "pynvml": "machine/nvml.py",
    "cpuinfo": "checks/cpu/probe.py",
    "elftools.elf.elffile": "machine/elf.py",
    "nodecheck._native": "machine/native.py",
    "psutil": "machine/processes.py",
    "sqlite3": "records/snapshots/sqlite.py",
    "subprocess": "machine/command.py",
}
"""Each enters through one module."""

LONGEST = 400


def imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("name", sorted(DOORS))
def test_it_enters_through_one_module(name: str) -> None:
    users = {str(m.relative_to(PACKAGE)) for m in MODULES if name in set(imports(m))}
    assert users == {DOORS[name]}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_a_file_fits_in_a_head(module: Path) -> None:
    assert len(module.read_text().splitlines()) <= LONGEST
