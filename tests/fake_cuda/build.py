"""Compiles the fake library once a session, and runs machine/cuda.py against it in processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from nodecheck.machine.cuda import Answer, Copies, Copy
from tests.fake_cuda.profiles import Card, description

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class FakeCuda:
    """The library as it is compiled, a place for its variants, and what it is to describe."""

    def __init__(self, directory: Path, compiler: str) -> None:
        self._directory = directory
        self.compiler = compiler

    def directory(self, missing: Sequence[str] = ()) -> Path:
        """Where there is a libcuda.so.1 that lacks these functions."""
        place = self._directory / "_".join(("lacking", *missing))
        if not place.exists():
            place.mkdir()
            hidden = "".join(f" {name};" for name in missing)
            script = place / "versions"
            script.write_text(f"{{ global: *; local: nothing;{hidden} }};\n")
            subprocess.run(
                (self.compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared",
                 "-fPIC", "-pthread", f"-Wl,--version-script={script}",
                 "-o", str(place / "libcuda.so.1"), *map(str, sorted(HERE.glob("*.c")))),
                check=True,
            )  # fmt: skip
        return place

    def environment(
        self,
        cards: Sequence[Card],
        place: Path,
        *,
        missing: Sequence[str] = (),
        beside: Mapping[str, str] = os.environ,
        **system: str | float,
    ) -> dict[str, str]:
        """The variables that make nodecheck load the library, and the library answer so.

        `beside` is the environment that it is added to: another fake library's, for example.
        """
        text = place / "cuda.txt"
        text.write_text(description(cards, **system))
        libraries = (str(self.directory(missing)), beside.get("LD_LIBRARY_PATH", ""))
        return {
            "NODECHECK_HISTORY": str(place / "state" / "history.db"),
            **beside,
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
            "FAKE_CUDA": str(text),
            "FAKE_CUDA_LOG": str(place / "cuda.log"),
            "FAKE_CUDA_IMAGE": str(place / "image.ptx"),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "agent"), str(ROOT))),
        }

    def query(self, environment: Mapping[str, str], deadline_seconds: float = 20.0) -> Answer:
        """What cuda.query answers with these variables."""
        return msgspec.json.decode(
            _run({"deadline_seconds": deadline_seconds}, environment), type=Answer
        )

    def copy(
        self,
        environment: Mapping[str, str],
        plan: Sequence[Copy],
        *,
        deadline_seconds: float = 60.0,
        warm_up_seconds: float = 0.02,
        seconds: float = 3600.0,
    ) -> Copies:
        """What cuda.copy gives with these variables."""
        asked = {
            "plan": plan,
            "seconds": seconds,
            "deadline_seconds": deadline_seconds,
            "warm_up_seconds": warm_up_seconds,
        }
        return msgspec.json.decode(_run(asked, environment), type=Copies)


def _run(asked: Mapping[str, object], environment: Mapping[str, str]) -> bytes:
    done = subprocess.run(
        (sys.executable, str(HERE / "ask.py")),
        env=environment,
        input=msgspec.json.encode(asked),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def log(place: Path) -> list[list[str]]:
    """The words of the lines that the library noted there."""
    return [line.split() for line in (place / "cuda.log").read_text().splitlines()]


def left(place: Path) -> dict[str, int]:
    """What was made and is still there, by kind."""
    count: Counter[str] = Counter()
    for words in log(place):
        count[words[0][1:]] += 1 if words[0][0] == "+" else -1
    return {kind: number for kind, number in count.items() if number}


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    """The library for this session."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    return FakeCuda(tmp_path_factory.mktemp("fake_cuda"), compiler)
