"""The wheel and the tarball, built once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="session")
def tarball(wheel: Path) -> Path:
    """As `make dist` makes it, beside the wheel."""
    pack_into(wheel.parent)
    return next(wheel.parent.glob("*.tar.gz"))


def pack_into(dist: Path) -> None:
    command = [sys.executable, "-m", "release.wheelhouse", str(dist)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "agent")}
    made = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="session")
def public() -> Iterator[Path]:
    """A folder that every user may enter, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def unpacked(tarball: Path, public: Path) -> Path:
    """The tarball's folder, as root has unpacked it on a node."""
    subprocess.run(["tar", "-xzf", tarball, "-C", public], check=True)
    return next(public.glob("nodecheck-*"))
