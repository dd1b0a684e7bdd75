"""`nodecheck attach` beside stand-in engines to whom the kernel does the real thing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.engines import models
from tests.control_groups import Group
from tests.fake_engine.build import FakeEngine, FakeEngines, fake_engines
from tests.lab.attach import NOBODY, Observer, Seen, busy_loops, drop, group, observer
from tests.lab.debian import CACHE
from tests.lab.tracing import STRACE, trespasses

__all__ = ["fake_engines", "group", "observer"]

CPUS = len(os.sched_getaffinity(0))
THREADS = ("--threads", str(CPUS))
MODEL = models.Model("stand-in", 2, 1024, 8, 8, 128, 4096, 8192)
"""86 MB."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: cannot become another user")


@pytest.fixture(scope="module")
def model() -> Iterator[Path]:
    """A GGUF file of random weights on a disk, not in memory."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"attach-{os.getpid()}.gguf"
    with path.open("wb") as file:
        file.write(models.header(MODEL))
        for _, shape in models.shapes(MODEL):
            file.write(os.urandom(4 * shape[0] if len(shape) == 1 else 2 * shape[0] * shape[1]))
        os.fsync(file.fileno())
    yield path
    path.unlink()


def threads_of(engine: FakeEngine) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{engine.pid}/task").iterdir()]


def test_nothing_holds_it_up(
    fake_engines: FakeEngines, observer: Observer, group: Group, model: Path
) -> None:
    with fake_engines.running(*THREADS, "--model", model, group=group) as engine:
        seen = observer.look_undisturbed(engine.pid)
    assert seen.ids == []
    assert (seen.engine.state, seen.engine.pid) == ("watched", engine.pid)
    assert seen.engine.engine == "llama.cpp"
    assert seen.engine.settings["threads"] == str(CPUS)
    assert seen.engine.cpus == pytest.approx(CPUS, rel=0.2)
    (file,) = seen.engine.model_files
    assert (file.path, file.size_bytes) == (str(model), model.stat().st_size)


def test_eight_threads_on_half_a_cpu(
    fake_engines: FakeEngines, observer: Observer, group: Group
) -> None:
    group.limit(cpus=0.5)
    with fake_engines.running("--threads", "8", group=group) as engine:
        seen = observer.look(engine.pid)
    assert seen.ids == ["engine.throttled_quota"]
    assert seen.engine.cpu_group is not None
    assert seen.engine.cpu_group.quota_cpus == 0.5


def test_a_load_beside_it(fake_engines: FakeEngines, observer: Observer, group: Group) -> None:
    with fake_engines.running(*THREADS, group=group) as engine, busy_loops(group, 2 * CPUS):
        seen = observer.look(engine.pid)
    assert seen.ids == ["engine.oversubscribed"]
    assert "sh" in {other.name for other in seen.engine.others}


def test_more_threads_than_cpus(
    fake_engines: FakeEngines, observer: Observer, group: Group
) -> None:
    with fake_engines.running("--threads", str(4 * CPUS), group=group) as engine:
        seen = observer.look(engine.pid)
    assert seen.ids == ["engine.oversubscribed"]


@pytest.mark.skipif(CPUS == 1, reason="one CPU: nothing to be kept off")
def test_threads_that_are_kept_on_one_cpu(
    fake_engines: FakeEngines, observer: Observer, group: Group
) -> None:
    with fake_engines.running(*THREADS, group=group) as engine:
        for thread in threads_of(engine):
            os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
        seen = observer.look(engine.pid)
    assert seen.ids == ["engine.oversubscribed"]
    assert seen.engine.usable_cpus == (min(os.sched_getaffinity(0)),)


def test_a_library_without_the_cpus_instructions(
    fake_engines: FakeEngines, observer: Observer, group: Group
) -> None:
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no AVX2 here")
    with fake_engines.running(*THREADS, group=group, variant="sse2") as engine:
        seen = observer.look_undisturbed(engine.pid)
    assert seen.ids == ["engine.slow_variant"]
    (library,) = seen.engine.libraries
    assert library.left_out is not None
    assert "avx2" in library.left_out


def test_a_model_larger_than_its_memory(
    fake_engines: FakeEngines, observer: Observer, group: Group, model: Path
) -> None:
    group.limit(memory_bytes=model.stat().st_size // 2)
    drop(model)
    with fake_engines.running(*THREADS, "--model", model, group=group) as engine:
        seen = observer.look_undisturbed(engine.pid)
    assert seen.ids == ["engine.paging"]
    assert seen.engine.memory_group is not None
    assert seen.engine.memory_group.file_refaults


def test_it_is_found_by_its_name_and_below_what_started_it(
    fake_engines: FakeEngines, observer: Observer, group: Group
) -> None:
    with fake_engines.running(*THREADS, group=group) as engine:
        seen = observer.look(os.getpid(), 1)
        done = observer.run("--engine", "llama.cpp", "--seconds", "1", "--json")
    (ours,) = (each for each in seen.engine.processes if each.pid == engine.pid)
    assert (ours.name, ours.parent) == ("llama-server", os.getpid())
    assert ours.cpu_seconds > 0.2
    # Another may run on this machine: then all are named.
    assert str(engine.pid) in done.stdout + done.stderr


def test_it_waits_for_requests(fake_engines: FakeEngines, observer: Observer, model: Path) -> None:
    with fake_engines.running("--pool", "8", "--model", model) as engine:
        done = observer.run(engine.pid, "--seconds", "1")
    assert done.stdout.startswith("IDLE")
    assert "engine." not in done.stdout
    assert done.returncode == 0


@as_root
def test_another_users_engine(
    fake_engines: FakeEngines, observer: Observer, group: Group, model: Path
) -> None:
    with fake_engines.running(*THREADS, "--model", model, group=group) as engine:
        seen = observer.look_undisturbed(engine.pid, 1, NOBODY)
        done = observer.run(engine.pid, "--seconds", "1", through=NOBODY)
    assert seen.ids == []
    assert seen.engine.engine == "llama.cpp"
    assert seen.engine.cpus == pytest.approx(CPUS, rel=0.2)
    assert {"libraries", "model_files"} <= seen.denied
    assert len(seen.denied) == len([g for g in seen.gaps if g.reason.value == "denied"])
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = [line for line in done.stdout.splitlines() if "another user" in line]
    assert len(told) == 1, done.stdout


@pytest.mark.parametrize("is_reaped", [True, False])
def test_it_ends_while_it_is_watched(
    fake_engines: FakeEngines, observer: Observer, group: Group, *, is_reaped: bool
) -> None:
    with fake_engines.running(*THREADS, "--seconds", "3", group=group) as engine:
        if is_reaped:
            threading.Thread(target=engine.process.wait).start()
        seen = observer.look(engine.pid, 6)
    assert seen.engine.state == "ended"
    assert seen.engine.processes[0].ended
    assert seen.engine.cpus is not None
    assert seen.engine.cpus > 0
    assert set(seen.ids) <= {"engine.oversubscribed"}, "but for what else runs here"
    assert seen.wall_seconds < 6


def test_there_is_no_such_process() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    done = Observer().run(gone.pid)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert str(gone.pid) in line


def test_ten_thousand_threads(fake_engines: FakeEngines, observer: Observer, group: Group) -> None:
    with fake_engines.running(*THREADS, group=group) as engine:
        few = observer.look_undisturbed(engine.pid, 1)
    with fake_engines.running(*THREADS, "--pool", "10000", group=group) as engine:
        many = observer.look_undisturbed(engine.pid, 1)
    for seen in (few, many):
        threads, cost = seen.engine.thread_count, beside(seen, 1)
        sys.stdout.write(f"{threads} threads: {cost:.2f} s beside the window, ")
        sys.stdout.write(f"{seen.cpu_seconds:.2f} s of CPU time\n")
    assert many.engine.thread_count == 10_001 + CPUS
    assert len([each for each in many.engine.threads if each.cpu_share > 0.2]) == CPUS
    assert many.ids == []
    assert beside(many, 1) < beside(few, 1) + 2


def beside(seen: Seen, window: float) -> float:
    return seen.wall_seconds - window


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    return tmp_path / "trace.txt"


def test_it_reads_only(fake_engines: FakeEngines, trace: Path, model: Path) -> None:
    own = trace.parent / "own"
    places = {"XDG_STATE_HOME": str(own), "NODECHECK_HISTORY": str(own / "history.db")}
    with fake_engines.running(*THREADS, "--model", model) as engine:
        pids = threads_of(engine)
        done = Observer().run(
            *(engine.pid, "--seconds", "1"),
            through=(*STRACE, "-o", str(trace)),
            PYTHONDONTWRITEBYTECODE="1",
            **places,
        )
    assert done.returncode == 0, done.stderr
    text = trace.read_text()
    assert f"/proc/{engine.pid}/" in text
    assert list(trespasses(text, pids, str(own))) == []


@pytest.mark.parametrize(
    "trespass",
    [
        "echo > FILE",
        "exec 3>> FILE",
        "rm FILE",
        "mv FILE FILE.new",
        "kill -0 PID",
        "taskset -p ff PID",
        "renice 0 -p PID",
        "ionice -c 3 -p PID",
        "prlimit --pid PID --nofile=99",
        "exec 3< /proc/PID/mem",
        "echo 1 > /proc/PID/clear_refs",
        "strace -p PID & sleep 0.3; kill $!",
    ],
)
def test_what_is_looked_for_would_be_seen(
    fake_engines: FakeEngines, trace: Path, trespass: str
) -> None:
    file = trace.parent / "file"
    file.touch()
    with fake_engines.running() as engine:
        script = trespass.replace("FILE", str(file)).replace("PID", str(engine.pid))
        subprocess.run((*STRACE, "-o", trace, "sh", "-c", script), check=False, capture_output=True)
        pids = threads_of(engine)
    found = list(trespasses(trace.read_text(), pids, str(trace.parent / "own")))
    assert found
