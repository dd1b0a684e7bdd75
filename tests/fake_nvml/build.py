"""Compiles the fake library once a session, and runs probes against it in their own processes."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fake_nvml.profiles import Card, description
from tests.trees import Tree, plant

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = tuple(sorted(HERE.glob("*.c")))
HEADER_DISTRIBUTION = "nvidia-nvml-dev"


class NotHereError(Exception):
    """What the library cannot be built without."""


def compile_library(library: Path, *flags: str) -> None:
    """Build libnvidia-ml.so.1 against NVIDIA's own header. Raises NotHereError."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NotHereError("no C compiler")
    subprocess.run(
        (compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
         "-fvisibility=hidden", f"-I{_include_directory()}", *flags,
         "-o", str(library), *map(str, SOURCES)),
        check=True,
    )  # fmt: skip


def _include_directory() -> Path:
    try:
        files = importlib.metadata.files(HEADER_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nvml.h":
            return Path(str(file.locate())).parent
    raise NotHereError(f"no nvml.h: {HEADER_DISTRIBUTION} is not installed")


class FakeNvml:
    """The compiled library and a place for descriptions."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def environment(
        self, cards: Sequence[Card], place: Path, *, old: bool = False, **system: str | int
    ) -> dict[str, str]:
        """The variables that make pynvml load the library, and the library answer so.

        The library's calls are noted in `place`/calls.txt.
        """
        library = {"LD_LIBRARY_PATH": str(self._directory / ("old" if old else "new"))}
        return self.describing(cards, system, place) | library

    def describing(self, cards: Sequence[Card], system: Card, place: Path) -> dict[str, str]:
        """As environment, for a system of which much is told."""
        text = place / "nvml.txt"
        text.write_text(description(cards, **system))
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self._directory / "new"),
            "FAKE_NVML": str(text),
            "FAKE_NVML_LOG": str(place / "calls.txt"),
            "NODECHECK_HISTORY": str(place / "state" / "history.db"),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "agent"), str(ROOT))),
        }

    def probe(
        self,
        tree: Tree,
        cards: Sequence[Card],
        place: Path,
        *,
        old: bool = False,
        **system: str | int,
    ) -> dict[str, Any]:
        """What probe, rules and gaps say of a live node with this tree and these cards."""
        plant(tree, place / "node")
        done = subprocess.run(
            (sys.executable, str(HERE / "live_probe.py"), str(place / "node")),
            env=self.environment(cards, place, old=old, **system),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        answer: dict[str, Any] = msgspec.json.decode(done.stdout)
        return answer


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    """The library for this session, with and without what older drivers lack."""
    directory = tmp_path_factory.mktemp("fake_nvml")
    try:
        for name, flags in (("new", ()), ("old", ("-DOLD_DRIVER",))):
            (directory / name).mkdir()
            compile_library(directory / name / "libnvidia-ml.so.1", *flags)
    except NotHereError as reason:
        pytest.skip(str(reason))
    return FakeNvml(directory)
