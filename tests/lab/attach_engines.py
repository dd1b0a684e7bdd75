"""llama-cpp-python, installed and built anew, decoding a model of random weights."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.engines import build, models
from tests.control_groups import Group
from tests.lab.attach import drop
from tests.lab.debian import REPOSITORY, NotHereError

FOLDER = REPOSITORY / "build" / "attach-engines"
PYTHON = FOLDER / "venv" / "bin" / "python"
MODEL = FOLDER / "q4_0.gguf"
DRIVER = Path(__file__).with_name("decode_forever.py")

SHAPE = models.Model("synthetic-0.9B", 12, 2048, 16, 8, 128, 8192, 32000)
"""516 MB in Q4_0."""

CMAKE = " ".join((
    "-DGGML_NATIVE=OFF",
    *(f"-DGGML_{part}=ON" for part in build.ALL_OFF),
    *(f"-D{part}=OFF" for part in ("LLAVA_BUILD", "LLAMA_CURL", "LLAMA_OPENSSL")),
    # The sdist has no git folder, for want of which CMake would run again for ever.
    "-DCMAKE_SUPPRESS_REGENERATION=ON",
))  # fmt: skip
PATIENCE_SECONDS = 60.0
FEWEST = 4
"""Tokens from which a rate can be told."""


def prepare() -> None:
    """Install, build and write what is missing, in a quarter of an hour. Raises NotHereError."""
    stamp = FOLDER / "installed.txt"
    if not stamp.exists():
        _install()
        stamp.write_text(build.RELEASE)
    try:
        build.cpu_library("sse2")
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHereError(f"{build.RELEASE}: ggml could not be built: {error}") from error
    if not MODEL.exists():
        source, part = FOLDER / "f16.gguf", MODEL.with_suffix(".part")
        models.write(source, SHAPE)
        quantise = (PYTHON, DRIVER, "--model", source, "--quantise", part)
        subprocess.run(quantise, check=True, capture_output=True)
        source.unlink()
        part.rename(MODEL)


def _install() -> None:
    pip = (PYTHON, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    for command in (
        (sys.executable, "-m", "venv", "--clear", PYTHON.parents[1]),
        (*pip, "--no-binary", "llama-cpp-python", build.RELEASE),
    ):
        environment = os.environ | {"CMAKE_ARGS": CMAKE}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["failed"])[-1]
            raise NotHereError(f"{build.RELEASE} could not be installed: {last}")


@contextlib.contextmanager
def on_disk() -> Iterator[Path]:
    """A copy of the model of which nothing is in memory, and that nobody else maps."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as place:
        copy = Path(place) / MODEL.name
        shutil.copyfile(MODEL, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
        drop(copy)
        yield copy


@dataclass(frozen=True)
class Decoder:
    """An engine that runs; it writes when each token was done."""

    pid: int
    times: Path

    def marks(self, since: float = 0.0) -> list[float]:
        """When tokens were done, by the monotonic clock."""
        lines = self.times.read_text().splitlines() if self.times.exists() else []
        return [mark for mark in map(float, lines) if mark >= since]

    def rate(self, seconds: float) -> float:
        """Tokens a second, from now on for so long, longer where it is very slow."""
        start = time.monotonic()
        time.sleep(seconds)
        while len(self.marks(start)) < FEWEST:
            assert time.monotonic() < start + seconds + PATIENCE_SECONDS, "it hardly decodes"
            time.sleep(0.2)
        marks = self.marks(start)
        return (len(marks) - 1) / (marks[-1] - marks[0])

    def wait_until_it_decodes(self) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while len(self.marks()) < FEWEST:
            assert time.monotonic() < end, "it does not decode"
            time.sleep(0.1)


@contextlib.contextmanager
def decoding(
    group: Group,
    threads: int,
    *more: str,
    model: Path = MODEL,
    is_sse2: bool = False,
    waits: bool = True,
) -> Iterator[Decoder]:
    """An engine in a control group, by default from when it decodes; it is killed at the end."""
    environment = dict(os.environ)
    if is_sse2:
        environment["LD_LIBRARY_PATH"] = str(build.cpu_library("sse2"))
    with tempfile.TemporaryDirectory() as place:
        times = Path(place) / "times"
        told: tuple[str | Path, ...] = ("--model", model, "--n_threads", str(threads))
        with subprocess.Popen(
            group.command(PYTHON, DRIVER, *told, "--times", times, *more),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                engine = Decoder(process.pid, times)
                if waits:
                    engine.wait_until_it_decodes()
                yield engine
            finally:
                process.kill()
