"""Programs from PyPI that tests run as commands, each in a virtual environment of its own.

They bring much that no other test needs, and one of them a pytest plugin.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.lab.debian import CACHE, NotHereError


def program(name: str, requirement: str) -> Path:
    """The program `name` of a requirement such as "schemathesis>=4". Raises NotHereError."""
    home = CACHE / "venvs" / name
    found, stamp = home / "bin" / name, home / "installed.txt"
    if stamp.exists() and stamp.read_text() == requirement:
        return found
    pip = (str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet")
    for command in (
        (sys.executable, "-m", "venv", "--clear", str(home)),
        (*pip, "install", requirement),
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["failed"])[-1]
            raise NotHereError(f"{requirement} could not be installed: {last}")
    stamp.write_text(requirement)
    return found
