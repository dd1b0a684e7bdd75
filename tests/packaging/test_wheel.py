"""The wheel: one for all Pythons, installed and run where there is no compiler."""

from __future__ import annotations

import json
import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

from tests.machine.emulated import under_qemu
from tests.packaging.conftest import ROOT


@pytest.mark.timeout(400)
def test_it_is_one_abi3_wheel_with_the_pages_and_no_generated_c(wheel: Path) -> None:
    assert "-cp310-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    pages = {Path(name).name for name in names if name.startswith("nodecheck/findings/")}
    assert pages == {page.name for page in (ROOT / "docs" / "findings").glob("*.md")}
    policies = {Path(name).name for name in names if name.startswith("nodecheck/policies/")}
    assert policies == {p.name for p in (ROOT / "agent/nodecheck/policies").glob("*.toml")} != set()
    plugged = ROOT / "agent/nodecheck/integrations"
    files = {str(p.relative_to(ROOT / "agent")) for p in plugged.rglob("*") if p.is_file()}
    assert {name for name in files if "__pycache__" not in name} <= set(names)
    assert not [name for name in names if name.startswith("release")]
    assert not [name for name in names if name.endswith((".c", ".h"))]
    assert [name for name in names if name.startswith("nodecheck/_native")]


@pytest.fixture(scope="module")
def binaries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of an environment that the wheel was installed in, without a compiler."""
    place = tmp_path_factory.mktemp("installed") / "env"
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel)]
    installed = subprocess.run(
        install, capture_output=True, text=True, env=bare(place), check=False
    )
    assert installed.returncode == 0, installed.stderr
    return place / "bin"


def bare(home: Path) -> dict[str, str]:
    return {"PATH": str(home / "nothing"), "HOME": str(home)}


def said(binaries: Path, *arguments: str) -> str:
    command = [str(binaries / "nodecheck"), *arguments]
    environment = bare(binaries)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return done.stdout


@pytest.mark.timeout(400)
def test_it_installs_and_runs_without_a_compiler(binaries: Path) -> None:
    assert json.loads(said(binaries, "--json", "--quick"))["facts"]["cpu"]["flags"]
    assert said(binaries, "explain", "disk.low").startswith("# disk.low")


SETS = {
    "kvm64": {"sse2"},
    "Nehalem": {"sse2", "sse4.2"},
    "Haswell": {"sse2", "sse4.2", "avx", "avx2"},
    "max": {"sse2", "sse4.2", "avx", "avx2"},
}
"""QEMU's model -> the instruction sets that it has of those that kernels are written for."""

FIRST = {"kvm64": "sse2", "Nehalem": "sse4.2", "Haswell": "avx2", "max": "avx2"}
"""What an engine multiplies Q4_K with."""

PRODUCTS = f"""(lambda arena: arena.touch() and [
    (k.operation, k.isa, k.usable and len(arena.decode(k, 1024, resident=True).run(1).passes))
    for k in kernels.decode_kernels()
])(kernels.Arena([{min(os.sched_getaffinity(0))}], 2 << 20, 4 << 20))"""
"""A product that differs from the plain one is an OSError."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("model", SETS)
def test_it_multiplies_with_what_the_cpu_has(binaries: Path, model: str) -> None:
    found = under_qemu(model, "kernels", PRODUCTS, str(binaries / "python"))
    assert isinstance(found, list)
    usable = [(weights, isa) for weights, isa, ran in found if ran]
    assert {isa for _, isa in usable} == SETS[model]
    assert {weights for weights, _ in usable} == {weights for weights, *_ in found}
    assert next(isa for weights, isa in usable if weights == "q4_k") == FIRST[model]
