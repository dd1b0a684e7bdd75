"""A library that could not be loaded is not one that is missing: no healthy node is drained."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodecheck.machine import nvidia_driver, nvml
from nodecheck.machine.command import Output
from nodecheck.machine.tree import UnreadableError
from tests.checks.gpu.inputs import device
from tests.checks.gpu.judging import judge, node_of, probed
from tests.checks.gpu.test_live import ids
from tests.checks.live_tree import LiveTree
from tests.fake_nvml.build import HERE, FakeNvml, fake_nvml
from tests.fake_nvml.profiles import L40, at
from tests.trees import Tree, plant

__all__ = ["fake_nvml"]

ONE: Tree = device("0000:01:00.0")

_PROBE = f"""
import os, resource, sys
import pynvml
from pathlib import Path
sys.path.insert(0, {str(HERE.parents[1])!r})
from tests.fake_nvml.live_probe import main
load = pynvml.nvmlInit
def starved():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(),) * 2)
    load()
"""
WITHOUT_MEMORY = f"{_PROBE}pynvml.nvmlInit = starved\nmain()\n"
AS_NOBODY = (
    f"{_PROBE}os.setgroups([])\nos.setresgid(*[65534] * 3)\nos.setresuid(*[65534] * 3)\nmain()\n"
)

here = pytest.mark.skipif(
    nvidia_driver.is_installed(nvml.LIBRARY), reason="this machine has NVIDIA's library"
)


def probe(place: Path, environment: dict[str, str], tree: Tree, script: str = "") -> dict[str, Any]:
    """What is made of a live node with this tree, whose NVML lies where `environment` says."""
    plant(tree, place / "node")
    program = ("-c", script) if script else (str(HERE / "live_probe.py"),)
    done = subprocess.run(
        (sys.executable, *program, str(place / "node")),
        env=environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = msgspec.json.decode(done.stdout)
    return answer


def without_library(fake: FakeNvml, place: Path) -> dict[str, str]:
    """Its folder is there, and empty."""
    (place / "lib").mkdir()
    return {**fake.environment([at(L40, 1)], place), "LD_LIBRARY_PATH": str(place / "lib")}


def is_unknown(answer: dict[str, Any], why: str) -> bool:
    (gap,) = (gap for gap in answer["gaps"] if gap["field"] == "gpus")
    assert ids(answer) == {}
    assert answer["gpu"]["state"] is None
    return gap["reason"] == "failed" and why in gap["detail"]


NOT_LOADED = f"{nvml.LIBRARY} is there, but could not be loaded"


@here
def test_a_library_that_is_missing_is_a_missing_driver(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = probe(tmp_path, without_library(fake_nvml, tmp_path), ONE)
    assert ids(answer) == {"gpu.driver_missing": "critical"}
    assert answer["gpu"]["state"] == "missing"


def test_a_library_for_which_there_is_no_memory(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    environment = fake_nvml.environment([at(L40, 1)], tmp_path)
    assert is_unknown(probe(tmp_path, environment, ONE, WITHOUT_MEMORY), NOT_LOADED)


@here
@pytest.mark.parametrize("tree", [ONE, {"proc/cpuinfo": ""}], ids=["a card", "no card"])
def test_a_library_that_the_loader_refuses(fake_nvml: FakeNvml, tmp_path: Path, tree: Tree) -> None:
    environment = without_library(fake_nvml, tmp_path)
    (tmp_path / "lib" / nvml.LIBRARY).write_bytes(b"\x7fELF")
    assert is_unknown(probe(tmp_path, environment, tree), NOT_LOADED)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_a_library_that_this_user_may_not_read(fake_nvml: FakeNvml) -> None:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o755)
        environment = without_library(fake_nvml, place)
        library = place / "lib" / nvml.LIBRARY
        library.write_bytes(b"any")
        library.chmod(0o600)
        assert is_unknown(probe(place, environment, ONE, AS_NOBODY), NOT_LOADED)


@here
@pytest.mark.parametrize(
    ("says", "status", "known"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9, True),
        ("Failed to initialize NVML: Driver Not Loaded", 9, True),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12, False),
        ("nvidia-smi: error while loading shared libraries: libc.so.6: cannot map", 127, False),
    ],
)
def test_nvidia_smi_may_know_more_of_the_driver(
    fake_nvml: FakeNvml, tmp_path: Path, says: str, status: int, *, known: bool
) -> None:
    environment = without_library(fake_nvml, tmp_path)
    (tmp_path / "lib" / nvml.LIBRARY).touch()
    command: Tree = {"cmd/nvidia-smi_-q_-x.txt": says, "cmd/nvidia-smi_-q_-x.rc": str(status)}
    answer = probe(tmp_path, environment, {**ONE, **command})
    if known:
        assert ids(answer) == {"gpu.driver_missing": "critical"}
    else:
        assert is_unknown(answer, NOT_LOADED)


def test_a_driver_that_lacks_memory_has_not_failed(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    environment = fake_nvml.environment([at(L40, 1)], tmp_path, init="!20")
    assert is_unknown(probe(tmp_path, environment, ONE), "Insufficient memory")


class Starved(LiveTree):
    """A live node on which no program can be started."""

    def run(self, argv: tuple[str, ...], deadline_seconds: float = 2.0) -> Output:  # noqa: ARG002
        raise UnreadableError.from_os(OSError(errno.ENOMEM, "Cannot allocate memory"), argv[0])


def test_a_program_that_could_not_be_started_says_nothing_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(nvml, "query", lambda _: nvml.Answer(error=12, message="Not Found"))
    plant(ONE, tmp_path)
    answer, gaps = probed(Starved(tmp_path))
    assert answer.gpu.state is None
    assert [(gap.field, gap.reason) for gap in gaps] == [("gpus", "failed")]
    assert "nvidia-smi: Cannot allocate memory" in gaps[0].detail
    assert judge(node_of(Starved(tmp_path))) == {}
