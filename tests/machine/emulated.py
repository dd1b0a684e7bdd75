"""This Python on a CPU that QEMU emulates."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys

import pytest

X86_64 = platform.machine() == "x86_64"


def under_qemu(model: str, module: str, expression: str, python: str = sys.executable) -> object:
    """Evaluate an expression of a module of nodecheck.machine on this model of a CPU."""
    qemu = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if not X86_64 or qemu is None:
        pytest.skip("qemu-x86_64 (Debian's qemu-user) is not installed, or this is no x86-64")
    code = f"import json; from nodecheck.machine import {module}; print(json.dumps({expression}))"
    # -0 keeps the virtual environment's own path as argv[0]; QEMU needs the real file.
    command = [qemu, "-cpu", model, "-0", python, os.path.realpath(python)]
    done = subprocess.run(
        [*command, "-c", code], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
