"""The whole program on an emulated CPU of type kvm64: it must run there, and say so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.engines import models

QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")

pytestmark = [
    pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 (Debian qemu-user) is not installed"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 runs under qemu-x86_64"),
    pytest.mark.timeout(180),
]


def emulated(cpu: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run nodecheck under qemu-user; argv[0] is the venv's Python, which finds its packages so."""
    command = [str(QEMU), "-cpu", cpu, "-0", sys.executable, os.path.realpath(sys.executable)]
    return subprocess.run(
        [*command, "-m", "nodecheck", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_it_runs_on_kvm64_and_says_so() -> None:
    done = emulated("kvm64", "--json", "--quick")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    severities = {finding["id"]: finding["severity"] for finding in report["findings"]}
    assert severities["cpu.hypervisor_masked"] == "critical"
    assert severities["cpu.flags_disagree"] == "warning"
    assert report["verdict"]["status"] == "critical"
    cpu = report["facts"]["cpu"]
    assert cpu["cpuid_brand"] == "Common KVM processor"
    assert cpu["x86_64_level"] == 1
    assert not {"ssse3", "avx", "avx2"} & set(cpu["usable_flags"])
    assert set(cpu["witness"].values()) == {"sigill"}, "emulation refuses what it hides"


def test_kernels_and_the_terminal_report_run_there_too() -> None:
    done = emulated("kvm64", "--kernels", "always")
    assert done.returncode == 0, done.stderr
    assert "Common KVM processor" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_plan_there_is_held_by_instructions_and_warns_of_small_types(tmp_path: Path) -> None:
    model, page = tmp_path / "model.gguf", tmp_path / "plan.html"
    model.write_bytes(models.header(models.OURS))
    stored = ("--weight-type", "q4_k", "--html", str(page))
    done = emulated("kvm64", "plan", str(model), *stored, "--json", "--quick")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    (alone,) = (s for s in plan["strategies"] if s["strategy"] == "cpu-only")
    assert alone["limit"].startswith("CPU instruction set (SSE2)")
    assert any("q8_0" in line and "q4_k" in line for line in plan["advice"])
    assert "CPU instruction set (SSE2)" in page.read_text()


def test_an_unmasked_type_is_not_accused() -> None:
    report = json.loads(emulated("Haswell", "--json", "--quick").stdout)
    assert "cpu.hypervisor_masked" not in {finding["id"] for finding in report["findings"]}
