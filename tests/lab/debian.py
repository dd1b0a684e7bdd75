"""Programs that a test needs and this machine may not have: from Debian, or a reason to skip."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CACHE = REPOSITORY / "build" / "lab"


class NotHereError(Exception):
    """This machine lacks what a test needs and cannot get it; says why."""


def need_program(program: str, package: str) -> None:
    """Install the package where the program is not there. Raises NotHereError."""
    if shutil.which(program) is None:
        apt("apt-get", "install", "--yes", "--no-install-recommends", package)


def apt(*command: str, directory: Path = CACHE) -> str:
    """Run apt, where need be with fresh lists. Raises NotHereError where it cannot help."""
    wanted = " ".join(command)
    if os.geteuid() != 0 or shutil.which(command[0]) is None:
        raise NotHereError(f"needed, but not root or no apt: {wanted}")
    done = _run_apt(command, directory)
    if done.returncode != 0:
        _fetch_lists()
        done = _run_apt(command, directory)
    if done.returncode != 0:
        raise NotHereError(f"{wanted}: {(done.stderr.splitlines() or ['failed'])[-1]}")
    return done.stdout


@functools.cache
def _fetch_lists() -> None:
    _run_apt(("apt-get", "update"), CACHE)


def _run_apt(command: tuple[str, ...], directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    patience = ("-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0")
    return subprocess.run(
        (*command, *patience),
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
