"""The wheel: one for all Pythons, installed and run where there is no compiler."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(out.glob("*.whl"))


@pytest.mark.timeout(400)
def test_it_is_one_abi3_wheel_with_the_pages_and_no_generated_c(wheel: Path) -> None:
    assert "-cp310-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    pages = {Path(name).name for name in names if name.startswith("nodecheck/findings/")}
    assert pages == {page.name for page in (ROOT / "docs" / "findings").glob("*.md")}
    assert not [name for name in names if name.endswith((".c", ".h"))]
    assert [name for name in names if name.startswith("nodecheck/_native")]


@pytest.mark.timeout(400)
def test_it_installs_and_runs_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    bare = {"PATH": str(tmp_path / "nothing"), "HOME": str(tmp_path)}
    python = str(tmp_path / "env" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel)]
    installed = subprocess.run(install, capture_output=True, text=True, env=bare, check=False)
    assert installed.returncode == 0, installed.stderr
    nodecheck = str(tmp_path / "env" / "bin" / "nodecheck")
    done = subprocess.run(
        [nodecheck, "--json", "--quick"], capture_output=True, text=True, env=bare, check=True
    )
    assert json.loads(done.stdout)["facts"]["cpu"]["flags"]
    page = subprocess.run(
        [nodecheck, "explain", "disk.low"], capture_output=True, text=True, env=bare, check=True
    )
    assert page.stdout.startswith("# disk.low")
