"""The C programs that test the kernels, built for aarch64 and run on CPUs that QEMU emulates."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64"
ABSENT = [program for program in (COMPILER, QEMU) if shutil.which(program) is None]

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        bool(ABSENT),
        reason=f"not installed: {ABSENT} (Debian's gcc-aarch64-linux-gnu and qemu-user)",
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the drivers, linked so that they need no library of that architecture."""
    build = tmp_path_factory.mktemp("aarch64")
    tools = Path(sys.executable).parent
    tell(
        tools / "cmake", "-S", ROOT / "csrc", "-B", build, "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", f"-DCMAKE_C_COMPILER={COMPILER}",
        "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        "-DCMAKE_EXE_LINKER_FLAGS=-static", "-DNODECHECK_WERROR=ON",
        f"-DNODECHECK_DRIVERS={ROOT / 'tests' / 'machine'}",
    )  # fmt: skip
    tell(tools / "cmake", "--build", build)
    return build


def tell(*command: str | Path) -> str:
    """Run a command; its words are the error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"
    return done.stdout


def products(built: Path, cpu: str) -> tuple[set[str], set[str]]:
    """The instruction sets whose products were right on this CPU, and those that it lacks."""
    lines = tell(QEMU, "-cpu", cpu, built / "decode_driver").splitlines()
    ran = {line.split()[1] for line in lines if line.endswith(": ok")}
    refused = {line.split()[1] for line in lines if line.endswith("cannot run here")}
    return ran, refused


def test_a_cpu_without_dot_products_has_neons(built: Path) -> None:
    ran, refused = products(built, "cortex-a53")
    assert ran == {"neon"}
    assert refused >= {"dotprod"}


def test_all_products_are_right(built: Path) -> None:
    ran, refused = products(built, "max")
    assert ran >= {"neon", "dotprod"}
    assert not refused


def test_loops_over_memory_are_right(built: Path) -> None:
    assert tell(QEMU, "-cpu", "cortex-a53", built / "native_driver")
