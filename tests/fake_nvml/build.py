"""Compiles the fake library once a session, and runs probes against it in their own processes."""

from __future__ import annotations

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


class FakeNvml:
    """The compiled library and a place for descriptions."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def environment(
        self, cards: Sequence[Card], place: Path, *, old: bool = False, **system: str | int
    ) -> dict[str, str]:
        """The variables that make pynvml load the library, and the library answer so."""
        text = place / "nvml.txt"
        text.write_text(description(cards, **system))
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self._directory / ("old" if old else "new")),
            "FAKE_NVML": str(text),
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
            check=True,
        )
        answer: dict[str, Any] = msgspec.json.decode(done.stdout)
        return answer


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    """The library for this session, with and without what older drivers lack."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    directory = tmp_path_factory.mktemp("fake_nvml")
    for name, flags in (("new", ()), ("old", ("-DOLD_DRIVER",))):
        (directory / name).mkdir()
        library = directory / name / "libnvidia-ml.so.1"
        subprocess.run(
            (compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags,
             "-o", str(library), str(HERE / "fake_nvml.c")),
            check=True,
        )  # fmt: skip
    return FakeNvml(directory)
