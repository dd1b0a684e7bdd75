"""The kernel that reads a card's memory: what its text does, and that assemblers take it."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from nodecheck.machine.cuda import Copy
from tests.fake_cuda.build import FakeCuda, fake_cuda
from tests.fake_cuda.profiles import L40, node
from tests.machine.ptx import U64, Kernel

__all__ = ["fake_cuda"]

ASSEMBLERS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")
ARCHITECTURES = ("sm_50", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100",
                 "sm_103", "sm_120")  # fmt: skip


@pytest.fixture(scope="session")
def image(fake_cuda: FakeCuda, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the driver is given to compile."""
    place = tmp_path_factory.mktemp("image")
    plan = [Copy(name="device_read", cards=(0,), buffer_bytes=4096, seconds=0.01)]
    assert fake_cuda.copy(fake_cuda.environment(node(L40, 1), place), plan).copied[0].intact
    return place / "image.ptx"


@pytest.mark.parametrize("loads", [1, 6, 7, 24, 25, 77, 256])
def test_every_word_is_read_once_and_summed(loads: int, image: Path) -> None:
    kernel = Kernel(image.read_text())
    memory, sums, blocks, threads = 0x7F00_0000_0000, 0x7E00_0000_0000, 2, 3
    words = [(i + 1) * 0x9E3779B97F4A7C15 & U64 for i in range(2 * loads)]
    read: Counter[int] = Counter()
    stored: dict[int, int] = {}

    def load(address: int) -> tuple[int, int]:
        at, beside = divmod(address - memory, 16)
        assert beside == 0
        read[at] += 1
        return words[2 * at], words[2 * at + 1]

    for number in range(blocks * threads):
        block, thread = divmod(number, threads)
        place = {"block": block, "threads": threads, "thread": thread, "blocks": blocks}
        parameters = {"memory": memory, "bytes": 16 * loads, "sums": sums}
        kernel.run(parameters, place, load, stored.__setitem__)
    assert read == Counter(range(loads))
    assert sorted(stored) == [sums + 8 * number for number in range(blocks * threads)]
    assert sum(stored.values()) & U64 == sum(words) & U64


def assemblers() -> list[str]:
    """Those that are installed."""
    found = [path] if (path := shutil.which("ptxas")) else []
    for name in ASSEMBLERS:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found += [str(file.locate()) for file in files if file.name == "ptxas"]
    return [path for path in found if os.access(path, os.X_OK)]


@pytest.mark.lab
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_assembler_takes_it_without_a_word(
    architecture: str, image: Path, tmp_path: Path
) -> None:
    takes_it = [a for a in assemblers() if f"'{architecture}'" in help_of(a)]
    if not takes_it:
        pytest.skip(f"no ptxas for {architecture} (PyPI: {' or '.join(ASSEMBLERS)})")
    for assembler in takes_it:
        done = subprocess.run(
            (assembler, "-arch", architecture, "-v", str(image), "-o", str(tmp_path / "out")),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr
        assert "0 bytes spill stores" in done.stderr
        registers = int(done.stderr.split("Used ")[1].split(" ")[0])
        assert registers <= 64  # so that 1024 threads a multiprocessor run at once


def help_of(assembler: str) -> str:
    return subprocess.run((assembler, "--help"), capture_output=True, text=True, check=True).stdout
