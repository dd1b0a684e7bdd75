"""Whatever breaks below the gate, it answers in time, and what it could not see is not well."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodecheck.diagnose import rules
from tests.cli.gating import STATUSES, answered, failed, gate, gates, planted
from tests.fake_nvml.build import FakeNvml, fake_nvml
from tests.fake_nvml.profiles import L40, at
from tests.hosts import HEALTHY
from tests.trees import Tree

__all__ = ["fake_nvml"]

STYLES = tuple(STATUSES)
IN_TIME_SECONDS = 30.0
"""For NVML's deadline of 4 s with no card on PCI, on a machine that is busy."""


@pytest.fixture(scope="module")
def crash_on_open(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library that kills who opens a file."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("crash") / "crash_on_open.so"
    source = Path(__file__).with_name("crash_on_open.c")
    subprocess.run(
        (compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
         "-o", str(library), str(source), "-ldl"),
        check=True,
    )  # fmt: skip
    return str(library)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return planted(HEALTHY, tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def waives_all(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A policy for a live node, whose findings are not what is tested."""
    file = tmp_path_factory.mktemp("policy") / "policy.toml"
    file.write_text(
        "".join(f'[[waivers]]\nid = "{rule.id}"\nreason = "any machine"\n' for rule in rules())
    )
    return str(file)


@pytest.mark.parametrize(
    ("fault", "why"), [("hang", "no answer within 4 s"), ("crash", "died by SIGABRT")]
)
def test_a_driver_that_hangs_or_crashes_leaves_the_gpus_unknown(
    fake_nvml: FakeNvml, waives_all: str, tmp_path: Path, fault: str, why: str
) -> None:
    environment = fake_nvml.environment([at(L40, 1)], tmp_path, init=fault)
    asked = ("--quick", "--gpus", "1", "--policy", waives_all, "-v")
    started = time.monotonic()
    ended = gates([(*asked, "--exit-style", style) for style in STYLES], **environment)
    assert time.monotonic() - started < IN_TIME_SECONDS
    for style, done in zip(STYLES, ended, strict=True):
        assert done.returncode == STATUSES[style]["UNKNOWN"], done.stdout + done.stderr
        first, *grounds = done.stdout.splitlines()
        assert first.startswith("UNKNOWN 0 GPUs of 1 sure: ")
        assert any(line.startswith("gpus: unknown: ") and why in line for line in grounds)


@pytest.mark.parametrize(
    ("file", "asked", "line"),
    [
        ("proc/cpuinfo", (), "UNKNOWN not judged: cpu"),
        ("proc/cpuinfo", ("--require", "avx2"),
         "UNKNOWN instruction sets: the cpu probe: died by SIGABRT; not judged: cpu"),
        ("statvfs.json", ("--min-disk-free", "1GB"),
         "UNKNOWN disk: the disk probe: died by SIGABRT; not judged: disk"),
        ("cmd/nvidia-smi_--query-gpu.csv", ("--gpus", "1"),
         "UNKNOWN 0 GPUs of 1 sure: the gpu probe: died by SIGABRT; not judged: gpu"),
        ("cmd/nvidia-smi_--query-gpu.csv", ("--pcie", "gen4x16"),
         "UNKNOWN PCIe: the gpu probe: died by SIGABRT; not judged: gpu"),
        ("measurements.json", ("--min-dram-read", "1GB/s"),
         "UNKNOWN DRAM read not measured: the dram probe: died by SIGABRT"),
    ],
)  # fmt: skip
def test_a_probe_that_dies_leaves_its_subject_unknown(
    crash_on_open: str, healthy: str, file: str, asked: tuple[str, ...], line: str
) -> None:
    fault = {"LD_PRELOAD": crash_on_open, "CRASH_ON_OPEN": f"{healthy}/{file}"}
    done = gate("--root", healthy, *asked, **fault)
    answered(done)
    assert done.stdout.partition(" | ")[0] == line
    assert done.returncode == 3


def test_a_probe_that_dies_is_unknown_in_every_style(crash_on_open: str, healthy: str) -> None:
    fault = {"LD_PRELOAD": crash_on_open, "CRASH_ON_OPEN": f"{healthy}/proc/cpuinfo"}
    asked = [("--root", healthy, "--exit-style", style) for style in STYLES]
    lenient = ("--root", healthy, "--unknown", "ok")
    ended = gates([*asked, lenient], **fault)
    assert [done.returncode for done in ended] == [*(STATUSES[s]["UNKNOWN"] for s in STYLES), 0]
    assert all(done.stdout.startswith("UNKNOWN not judged: cpu") for done in ended)


def test_a_disk_that_hangs_may_have_the_room(tmp_path: Path) -> None:
    hung: Tree = {**HEALTHY, "statvfs.json": json.dumps({"/": {"hang": True}})}
    done = gate("--root", planted(hung, tmp_path / "hung"), "--min-disk-free", "1GB", "-v")
    assert "disk_free: unknown: disk: / does not tell its room" in done.stdout
    assert done.returncode != 0


@pytest.mark.parametrize("style", STYLES)
def test_a_broken_installation_has_not_judged(tmp_path: Path, style: str) -> None:
    """What every part of the program imports fails."""
    (tmp_path / "msgspec.py").write_text("raise ImportError('built for another CPU')\n")
    done = gate("--quick", "--exit-style", style, PYTHONPATH=str(tmp_path))
    assert "its own fault: ImportError: built for another CPU" in failed(done, style)


@pytest.mark.parametrize("style", STYLES)
def test_a_crash_of_ours_has_not_judged(healthy: str, style: str) -> None:
    script = (
        "import sys, nodecheck.diagnose as broken;"
        "broken.diagnose = lambda *_: 1 / 0;"
        "from nodecheck.cli import main; main()"
    )
    arguments = ("gate", "--root", healthy, "--exit-style", style, "--unknown", "ok")
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert "its own fault: ZeroDivisionError" in failed(done, style)
