"""A virtual environment of its own for the peers that pip installs, under build/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3] / "build" / "peers"
PYTHON = ROOT / "bin" / "python"
PACKAGES = ("numpy", "llmfit", "canirunllm", "modelinfo-cli")


def prepare() -> None:
    """Make it where it is not there yet; what pip cannot have stays missing."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ROOT)], check=True)
    absent = [package for package in PACKAGES if not has(package)]
    for package in absent:
        pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", package], check=False)


def has(package: str) -> bool:
    """Whether it is installed there."""
    return any((ROOT / "lib").glob(f"python3*/site-packages/{_folder(package)}-*.dist-info"))


def program(name: str) -> Path:
    """A command that a package there brought."""
    return ROOT / "bin" / name


def script(name: str) -> str:
    """A file of this folder, to be run by that environment's Python."""
    return str(Path(__file__).with_name(name))


def _folder(package: str) -> str:
    """As pip spells it in the folder's name."""
    return package.replace("-", "_")
