"""Real engines, held up in five ways: each has its finding and no other, and the advice helps."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from tests.control_groups import Group
from tests.lab import attach_engines
from tests.lab.attach import ATTACH, Observer, busy_loops, favoured_group, observer
from tests.lab.attach_engines import FOLDER, MODEL, Decoder, decoding, on_disk
from tests.lab.debian import NotHereError
from tests.processes import eventually

__all__ = ["observer"]

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

CPUS = len(os.sched_getaffinity(0))
ROUNDS = 3
SECONDS = 8.0
WINDOW = 5.0
SLOW_DISK = 20_000_000
"""Bytes a second."""

TABLE = FOLDER / "table.md"


@dataclass(frozen=True)
class Run:
    """How an engine is started; `memory_share` is of the model's size."""

    threads: int = CPUS
    more: tuple[str, ...] = ()
    is_sse2: bool = False
    cpus: float | None = None
    memory_share: float | None = None
    loops: int = 0

    @property
    def wants_too_much(self) -> bool:
        """More than it has CPUs for, alone or with the loops."""
        return self.threads + self.loops > CPUS or self.cpus is not None

    @contextlib.contextmanager
    def running(self) -> Iterator[Decoder]:
        """The engine in a group with these limits, and busy loops beside it."""
        with favoured_group() as group, contextlib.ExitStack() as stack:
            size = MODEL.stat().st_size
            limit = round(self.memory_share * size) if self.memory_share else None
            group.limit(cpus=self.cpus, memory_bytes=limit)
            model = stack.enter_context(on_disk()) if limit else MODEL
            stack.enter_context(busy_loops(group, self.loops))
            started = decoding(group, self.threads, *self.more, model=model, is_sse2=self.is_sse2)
            yield stack.enter_context(started)


@dataclass(frozen=True)
class SetUp:
    """A fault, and what is to be changed. `left` is found after the change."""

    name: str
    finding: str
    change: str
    before: Run
    after: Run
    left: tuple[str, ...] = ()


IN_PLACE = ("--no-repack",)
"""The weights stay in the file's mapping, whatever the instructions are."""

SET_UPS = (
    SetUp(
        "8 threads on a quota of half a CPU",
        "engine.throttled_quota",
        "1 thread",
        Run(threads=8, cpus=0.5),
        Run(threads=1, cpus=0.5),
        left=("engine.throttled_quota",),
    ),
    SetUp(
        "8 threads on a quota of half a CPU",
        "engine.throttled_quota",
        f"no quota, {CPUS} threads",
        Run(threads=8, cpus=0.5),
        Run(),
    ),
    SetUp(
        f"{4 * CPUS} threads on {CPUS} CPUs",
        "engine.oversubscribed",
        f"{CPUS} threads",
        Run(threads=4 * CPUS),
        Run(),
    ),
    SetUp(
        f"{2 * CPUS} busy loops beside it",
        "engine.oversubscribed",
        "the loops are gone",
        Run(loops=2 * CPUS),
        Run(),
    ),
    SetUp(
        "built for SSE2, the CPU has AVX2",
        "engine.slow_variant",
        "built for AVX2",
        Run(is_sse2=True),
        Run(),
    ),
    SetUp(
        "a limit of 0.7 of the model",
        "engine.paging",
        "a limit of 2.5 of it",
        Run(more=IN_PLACE, memory_share=0.7),
        Run(more=IN_PLACE, memory_share=2.5),
    ),
)


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    try:
        attach_engines.prepare()
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    """What is to be told of the set-ups, written where docs/accuracy.md has it from."""
    made: list[str] = []
    yield made
    TABLE.write_text("".join(f"| {row} |\n" for row in made))


@pytest.mark.parametrize("set_up", SET_UPS, ids=lambda s: f"{s.name}, {s.change}")
def test_a_fault_has_its_finding_alone_and_the_change_helps(
    observer: Observer, rows: list[str], set_up: SetUp
) -> None:
    slow, fast = list[float](), list[float]()
    for _ in range(ROUNDS):
        for run, rates, expected in (
            (set_up.before, slow, (set_up.finding,)),
            (set_up.after, fast, set_up.left),
        ):
            with run.running() as engine:
                rates.append(engine.rate(SECONDS))
                look = observer.look if run.wants_too_much else observer.look_undisturbed
                assert tuple(look(engine.pid, WINDOW).ids) == expected
    gains = [b / a for a, b in zip(slow, fast, strict=True)]
    rows.append(
        f"{set_up.name} | `{set_up.finding}` | {set_up.change} | {spread(slow)} | {spread(fast)} | "
        f"{spread(gains)}"
    )
    assert median(gains) > 1.1


def spread(values: list[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


def test_the_right_threads_have_no_finding(observer: Observer) -> None:
    with Run().running() as engine:
        for _ in range(ROUNDS):
            seen = observer.look_undisturbed(engine.pid, WINDOW)
            assert seen.ids == []
            assert seen.engine.cpus == pytest.approx(CPUS, rel=0.1)
    (file,) = seen.engine.model_files
    assert (Path(file.path), file.weight_type) == (MODEL, "q4_0")


def test_a_first_load_is_no_paging(observer: Observer) -> None:
    """From a slow disk, so that it lasts."""
    with (
        favoured_group() as group,
        slow_disk(group) as disk,
        on_disk() as model,
        decoding(group, CPUS, *IN_PLACE, model=model, waits=False) as engine,
    ):
        (disk / "cgroup.procs").write_text(str(engine.pid))
        time.sleep(2)
        seen = observer.look(engine.pid, WINDOW)
        told = observer.run(engine.pid, "--seconds", "2").stdout
        assert not engine.marks(), "it has loaded: nothing was shown"
    assert told.startswith("LOADING")
    assert seen.ids == []
    assert sum(each.read_bytes or 0 for each in seen.engine.processes) > SLOW_DISK


@contextlib.contextmanager
def slow_disk(group: Group) -> Iterator[Path]:
    """A control group for whose processes the model's disk reads no faster than SLOW_DISK."""
    place, disk = Path("/sys/fs/cgroup/blkio") / group.name, MODEL.stat().st_dev
    try:
        place.mkdir()
        limit = f"{os.major(disk)}:{os.minor(disk)} {SLOW_DISK}"
        (place / "blkio.throttle.read_bps_device").write_text(limit)
    except OSError as error:
        pytest.skip(f"no control group that slows the disk: {error}")
    try:
        yield place
    finally:
        eventually_gone(place)


def eventually_gone(place: Path) -> None:
    """A group can be removed a moment after its last process has ended."""

    def is_gone() -> bool:
        with contextlib.suppress(OSError):
            place.rmdir()
        return not place.exists()

    assert eventually(is_gone)


def test_an_idle_engine_is_said_to_be_idle(observer: Observer) -> None:
    with favoured_group() as group, decoding(group, CPUS, "--idle", waits=False) as engine:
        time.sleep(8)
        seen = observer.look_undisturbed(engine.pid, WINDOW)
        told = observer.run(engine.pid, "--seconds", "1").stdout
    assert seen.ids == []
    assert told.startswith("IDLE")


def test_being_watched_costs_little(rows: list[str]) -> None:
    """Tokens a second alone, and beside `nodecheck attach --watch` once it has started."""
    gains, taken, alone, beside = list[float](), list[float](), list[float](), list[float]()
    with favoured_group() as group, decoding(group, CPUS) as engine:
        for _ in range(2 * ROUNDS):
            alone.append(engine.rate(SECONDS))
            # In the engine's group, where it takes the engine's CPUs as it does without groups.
            with watching(group, engine.pid) as watcher:
                before = cpu_seconds(watcher)
                beside.append(engine.rate(SECONDS))
                taken.append((cpu_seconds(watcher) - before) / SECONDS)
            gains.append(beside[-1] / alone[-1])
    rows.append(
        f"watched, {spread(taken)} of a CPU | | not watched | {spread(beside)} | {spread(alone)} | "
        f"{spread([1 / gain for gain in gains])}"
    )
    assert median(taken) < 0.03
    assert median(gains) > 0.95


@contextlib.contextmanager
def watching(group: Group, pid: int) -> Iterator[int]:
    """The process that watches, from when it has told of its first window."""
    words = (*ATTACH, str(pid), "--seconds", f"{WINDOW:g}", "--watch", "--json")
    with subprocess.Popen(group.command(*words), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process.pid
        finally:
            process.send_signal(signal.SIGINT)


def cpu_seconds(pid: int) -> float:
    """What a process ran, and its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
