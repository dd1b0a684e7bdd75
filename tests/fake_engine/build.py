"""Compiles the stand-in once a session, starts it, and tells what it gets done."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.control_groups import Group

HERE = Path(__file__).parent
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
LIBRARY = "libggml-cpu.so"
LINE_BYTES = 64
"""Between two threads' counters."""


@dataclass(frozen=True)
class FakeEngine:
    """One that runs."""

    process: subprocess.Popen[str]
    counts: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def done(self) -> int:
        """What all its threads have done since it began."""
        return sum(
            n for (n,) in struct.iter_unpack(f"<Q{LINE_BYTES - 8}x", self.counts.read_bytes())
        )

    def rate(self, seconds: float) -> float:
        """What it gets done in a second, from now on."""
        before, start = self.done(), time.monotonic()
        time.sleep(seconds)
        return (self.done() - before) / (time.monotonic() - start)


class FakeEngines:
    """The compiled program, with a CPU library that was built for AVX2 and one for SSE2 alone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            pytest.skip("no C compiler")
        for variant, built in (("avx2", 1), ("sse2", 0)):
            (directory / variant).mkdir()
            shared = ("-shared", "-fPIC", f"-DBUILT={built}", f"-Wl,-soname,{LIBRARY}")
            target = directory / variant / LIBRARY
            source = str(HERE / "ggml_cpu.c")
            subprocess.run((compiler, *FLAGS, *shared, source, "-o", target), check=True)
        links = (str(HERE / "llama_server.c"), f"-L{directory / 'avx2'}", "-lggml-cpu", "-pthread")
        subprocess.run((compiler, *FLAGS, *links, "-o", self.program), check=True)

    @property
    def program(self) -> Path:
        return self._directory / "llama-server"

    @contextlib.contextmanager
    def running(
        self, *arguments: str | Path, group: Group | None = None, variant: str = "avx2"
    ) -> Iterator[FakeEngine]:
        """One with these arguments, from when it is ready; it is killed at the end."""
        counts = self._directory / "counts"
        counts.write_bytes(bytes(64 * LINE_BYTES))
        words: Sequence[str | Path] = (self.program, "--counts", counts, *arguments)
        with subprocess.Popen(
            group.command(*words) if group else words,
            env={**os.environ, "LD_LIBRARY_PATH": str(self._directory / variant)},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().startswith("ready")
                yield FakeEngine(process, counts)
            finally:
                process.kill()


@pytest.fixture(scope="session")
def fake_engines(tmp_path_factory: pytest.TempPathFactory) -> FakeEngines:
    return FakeEngines(tmp_path_factory.mktemp("fake_engines"))
