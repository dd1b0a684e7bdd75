"""The daemon for long: a hundred scrapes a second, and a day in which everything goes wrong."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.daemon.running import ROOT, Running, running
from tests.daemon.soaking import MUTANTS, Held, Result
from tests.daemon.soaking_faults import KINDS
from tests.processes import eventually

RATE = 100
"""Scrapes a second: a fleet's mistake, not its usual."""

SECONDS = 60
SETTLED_SECONDS = 10
CONNECTIONS = 10
P99_SECONDS = 0.020
GROWTH = 1.03
DAY_GROWTH = 1.08
"""Source: measured: 1.03 to 1.05, of fourteen answers of 16 MB and what the test itself keeps."""

BLOCKS_GROWTH = 1.02
"""Three blocks left by each pass of a day would be more. Source: measured: 1.004."""

UNMEASURED = 'kernels = "never"\n'
"""Measuring holds all CPUs for three seconds, once in hours: another matter than scrapes."""

GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Scrape(NamedTuple):
    """Seconds since the first was due: when it was to be sent, was sent, was answered."""

    due: float
    sent: float
    answered: float

    @property
    def seconds(self) -> float:
        """Since it was due: who waits behind a slow one waits too."""
        return self.answered - self.due


class Process(NamedTuple):
    """What a daemon holds while no pass runs."""

    resident_bytes: int
    descriptors: int
    threads: int


def scrape(connection: socket.socket) -> bool:
    """Whether the answer is whole, and the node's."""
    connection.sendall(GET)
    told = b""
    while b"\r\n\r\n" not in told:
        told += _more(connection)
    head, _, body = told.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split()[0])
    while len(body) < size:
        body += _more(connection)
    return head.startswith(b"HTTP/1.1 200 ") and b"\nnodecheck_build_info{" in body


def _more(connection: socket.socket) -> bytes:
    block = connection.recv(1 << 16)
    assert block, "the connection was closed"
    return block


def process(pid: int) -> Process:
    place = Path(f"/proc/{pid}")
    fields = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    return Process(
        resident_bytes=int(fields["VmRSS"].split()[0]) << 10,
        descriptors=len(list((place / "fd").iterdir())),
        threads=int(fields["Threads"]),
    )


def load(daemon: Running) -> tuple[list[Scrape], list[tuple[float, Process]]]:
    """The scrapes, and what the daemon held each second."""
    address = ("127.0.0.1", int(daemon.url.rpartition(":")[2]))
    scrapes: list[Scrape] = []
    held: list[tuple[float, Process]] = []
    open_ones = [socket.create_connection(address, timeout=10) for _ in range(CONNECTIONS)]
    start = time.monotonic() + 0.1
    try:
        for number in range(RATE * SECONDS):
            due = number / RATE
            time.sleep(max(0.0, start + due - time.monotonic()))
            sent = time.monotonic() - start
            assert scrape(open_ones[number % CONNECTIONS])
            scrapes.append(Scrape(due, sent, time.monotonic() - start))
            if number % RATE == 0:
                held.append((due, process(daemon.pid)))
    finally:
        for each in open_ones:
            each.close()
    return scrapes, held


def least(held: list[tuple[float, Process]], since: float, until: float) -> Process:
    """Of each the least in that time: a pass that runs takes pipes."""
    among = [each for at, each in held if since <= at < until]
    return Process(*(min(values) for values in zip(*among, strict=True)))


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_a_hundred_scrapes_a_second_are_answered_in_time(tmp_path: Path) -> None:
    """Late by more than 20 ms may be one in a hundred, and nothing grows."""
    config = tmp_path / "daemon.toml"
    config.write_text(UNMEASURED)
    with running(tmp_path, "--interval", "10s", "--config", str(config)) as daemon:
        assert eventually(lambda: daemon.ask("/readyz")[0] == 200), daemon.lines()
        worked = time.process_time()
        scrapes, held = load(daemon)
        worked = time.process_time() - worked
        passes = daemon.series()['nodecheck_daemon_passes_total{kind="light",outcome="ok"}']
        daemon.end()
    seconds = [each.seconds for each in scrapes]
    answer = [each.answered - each.sent for each in scrapes]
    early = least(held, SETTLED_SECONDS, 2 * SETTLED_SECONDS)
    late = least(held, SECONDS - SETTLED_SECONDS, SECONDS)
    print(  # noqa: T201
        f"{len(scrapes)} scrapes beside {passes:.0f} passes: since due median "
        f"{1e3 * statistics.median(seconds):.2f} ms, p99 {1e3 * p99(seconds):.2f} ms, most "
        f"{1e3 * max(seconds):.1f} ms; since sent median {1e3 * statistics.median(answer):.2f} ms, "
        f"p99 {1e3 * p99(answer):.2f} ms; who asks takes {100 * worked / SECONDS:.1f} % of a CPU; "
        f"held early {early}, late {late}"
    )
    assert worked < SECONDS / 4, "what is measured is who asks"
    assert passes >= SECONDS / 10 - 1
    assert p99(seconds) < P99_SECONDS
    assert late.resident_bytes <= early.resident_bytes * GROWTH
    assert (late.descriptors, late.threads) == (early.descriptors, early.threads)


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """4 MB for a history, where this may be had: without it no disk is full."""
    place = tmp_path / "state"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "nodecheck-soak", str(place)]
    is_mounted = os.geteuid() == 0 and not subprocess.run(mount, check=False).returncode
    try:
        yield place
    finally:
        if is_mounted:
            subprocess.run(["umount", str(place)], check=True)


def live(place: Path, hours: float, *mutants: str) -> Result:
    """A day in a process of its own, so that what is held is the daemon's."""
    directory = place.parent / "day"
    (directory / "tmp").mkdir(parents=True)
    usual = {key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.daemon.soaking", str(directory), str(hours), *mutants],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={
            **usual,
            "NODECHECK_HISTORY": str(place / "history.db"),
            "TMPDIR": str(directory / "tmp"),
            "PYTHONPATH": f"{ROOT / 'agent'}:{ROOT}",
        },
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return msgspec.json.decode(done.stdout, type=Result)


def nothing_leaked(result: Result) -> bool:
    early, late = result.early, result.late
    assert early
    assert late
    memory = {"resident_bytes": early.resident_bytes, "blocks": early.blocks}
    return (
        msgspec.structs.replace(late, **memory) == early
        and late.resident_bytes <= early.resident_bytes * DAY_GROWTH
        and late.blocks <= early.blocks * BLOCKS_GROWTH
    )


def report(result: Result) -> None:
    print(  # noqa: T201
        f"{result.minutes} minutes looked at, {result.stale_minutes} of them stale; passes "
        f"{result.passes}; seen {dict(sorted(result.seen.items()))}; early {result.early}, late "
        f"{result.late}; {len(result.lines)} lines"
    )
    if missing := set(KINDS) - set(result.seen):
        print(f"not to be had here: {missing}")  # noqa: T201


@pytest.mark.parametrize(
    "hours", [0, pytest.param(24, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
def test_whatever_befalls_it_is_never_wrong_never_silent_and_leaks_nothing(
    small_disk: Path, hours: int
) -> None:
    """0 hours: each fault once, shortly."""
    result = live(small_disk, hours)
    report(result)
    assert result.wrong == []
    assert nothing_leaked(result)
    missing = set(KINDS) - set(result.seen)
    assert missing <= ({"unkillable", "full_disk"} if os.geteuid() else set())
    assert result.minutes >= 60 * hours
    assert result.stale_minutes > 0
    assert "stuck" in result.seen or "unkillable" in missing


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_daemon_with_a_fault_is_found_out(small_disk: Path, mutant: str) -> None:
    result = live(small_disk, 0, mutant)
    assert result.wrong or not nothing_leaked(result)


def test_what_is_held_is_compared() -> None:
    held = Held(descriptors=9, threads=1, children=0, files=4, resident_bytes=100, blocks=100)
    result = Result(
        wrong=[], seen={}, minutes=1, stale_minutes=0, passes={}, lines=[], early=held, late=held
    )
    assert nothing_leaked(result)
    for name in Held.__struct_fields__:
        more = msgspec.structs.replace(held, **{name: getattr(held, name) + 9})
        assert not nothing_leaked(msgspec.structs.replace(result, late=more))
