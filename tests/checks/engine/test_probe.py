"""What a running engine holds and does, put together; each part in a child of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from nodecheck.checks.engine import probe as probing
from nodecheck.checks.engine.facts import EngineFacts
from nodecheck.checks.engine.probe import probe
from nodecheck.machine import page_cache
from nodecheck.machine.host import LiveHost, open_host
from nodecheck.machine.reader import Reader
from nodecheck.model import Gap, Reason
from tests.checks.engine import captures
from tests.fake_engine.build import FakeEngines, fake_engines
from tests.processes import children
from tests.trees import Tree, plant

__all__ = ["fake_engines"]


def probed(pid: int | None, seconds: float = 1.0) -> tuple[EngineFacts, list[Gap]]:
    reader = Reader(open_host(None), "engine")
    return probe(reader, pid, seconds), reader.gaps


def test_nobody_asked() -> None:
    assert probed(None) == (EngineFacts(), [])


def test_there_is_no_such_process() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert probed(gone.pid) == (EngineFacts(state="absent", pid=gone.pid), [])


def test_an_engine_that_works(fake_engines: FakeEngines, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF" + bytes(1 << 20))
    with fake_engines.running("--threads", "2", "--model", model) as engine:
        facts, gaps = probed(engine.pid)
    (process,) = facts.processes
    assert (facts.state, facts.pid, facts.engine) == ("watched", engine.pid, "llama.cpp")
    assert facts.seconds == pytest.approx(1.0, abs=0.5)
    assert facts.settings["threads"] == "2"
    assert [file.path for file in facts.model_files] == [str(model)]
    assert {library.family for library in facts.libraries} == {"ggml"}
    assert len(facts.threads) == 2
    assert process.gpu_files == ()
    assert process.cpu_seconds > 0
    assert [gap for gap in gaps if gap.reason is Reason.FAILED] == []


def test_what_is_in_memory_is_counted_when_the_window_ends(
    fake_engines: FakeEngines, tmp_path: Path
) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF" + bytes(32 << 20))
    os.sync()
    with fake_engines.running("--threads", "0", "--model", model) as engine, model.open() as file:
        drop = threading.Timer(1.5, os.posix_fadvise, (file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED))
        drop.start()
        facts, _ = probed(engine.pid, 3.0)
        drop.join()
        left = page_cache.cached_bytes(file.fileno(), 0, 32 << 20)
    (seen,) = facts.model_files
    assert left is not None
    assert left < 16 << 20
    assert seen.cached_bytes == pytest.approx(left, abs=4 << 20)  # its head is read


def test_an_engine_that_is_stopped(fake_engines: FakeEngines) -> None:
    with fake_engines.running("--threads", "1") as engine:
        os.kill(engine.pid, signal.SIGSTOP)
        facts, _ = probed(engine.pid)
        os.kill(engine.pid, signal.SIGCONT)
    (process,) = facts.processes
    assert (process.first_state, process.state) == ("T", "T")


def test_an_engine_that_has_ended_and_waits_to_be_reaped() -> None:
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        began = time.monotonic()
        facts, _ = probed(zombie.pid, 9.0)
    assert time.monotonic() - began < 4
    assert facts.state == "ended"


class Hanging(LiveHost):
    """A node on which reading this ending of a path takes for ever."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self._ending = ending

    def read(self, path: str) -> str:
        self._wait(path)
        return super().read(path)

    def read_bytes(self, path: str) -> bytes:
        self._wait(path)
        return super().read_bytes(path)

    def _wait(self, path: str) -> None:
        while path.endswith(self._ending):
            time.sleep(1)


@pytest.mark.parametrize(
    ("ending", "deadline", "field", "known"),
    [
        ("/maps", "HELD_SECONDS", "libraries", "processes"),
        ("/io", "BESIDE_SECONDS", "threads", "engine"),
    ],
)
def test_what_hangs_takes_nothing_else_with_it(
    fake_engines: FakeEngines,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    deadline: str,
    field: str,
    known: str,
) -> None:
    monkeypatch.setattr(probing, deadline, 1.0)
    with fake_engines.running("--threads", "1") as engine:
        reader = Reader(Hanging(ending), "engine")
        facts = probe(reader, engine.pid, 1.0)
    assert (field, Reason.TIMEOUT) in {(gap.field, gap.reason) for gap in reader.gaps}
    assert getattr(facts, known)
    assert facts.state == "watched"
    assert children() == set()


def test_a_capture(tmp_path: Path) -> None:
    files: Tree = {
        "proc/77/stat": captures.stat(77, ticks=(100, 0)),
        "proc/77/stat.2": captures.stat(77, ticks=(600, 0)),
        "proc/77/comm": "llama-server\n",
        "proc/77/cmdline": "llama-server\0--threads\x008\0",
    }
    facts = probe(Reader(plant(files, tmp_path), "engine"), 77)
    assert (facts.state, facts.engine, facts.cpus) == ("watched", "llama.cpp", 1.0)
