"""Hold the daemon at rest to its budgets, beside prometheus-node-exporter: `make bench-daemon`.

Both run for MINUTES (10) and are scraped in turn as Prometheus would, once every 15 seconds; then
many times in a row, in turn. CPU is what the process and all its children that ended used.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from tests.lab.monitoring import free_port

MINUTES = 10.0
SCRAPE_SECONDS = 15.0
BURST = 500
PATIENCE_SECONDS = 60.0
NODECHECK = str(Path(sys.executable).with_name("nodecheck"))
EXPORTER = "prometheus-node-exporter"

DAEMON_CPU_SHARE, WITH_COLLECTOR_SHARE = 0.002, 0.01
DAEMON_RESIDENT_BYTES = 50e6


def main() -> int:
    """Print every figure; 1 where a budget is not held."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    with tempfile.TemporaryDirectory() as place, _both(Path(place)) as watched:
        for each in watched:
            each.begin()
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            for each in watched:
                each.scrape()
                each.look()
            time.sleep(SCRAPE_SECONDS)
        for each in watched:
            each.end()
        for _ in range(BURST):
            for each in watched:
                each.scrape()
        return 0 if _told(watched, minutes) else 1


class Watched:
    """A server, and what was seen of it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], port: int) -> None:
        self.name = name
        self.process = psutil.Process(process.pid)
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.latencies: list[float] = []
        self.resident = 0
        self.own_share = self.whole_share = 0.0

    def begin(self) -> None:
        """Count from here on; what was seen before is forgotten."""
        self.latencies.clear()
        self._started, self._before = time.monotonic(), self.process.cpu_times()

    def end(self) -> None:
        """Count up to here."""
        seconds, now, before = (
            time.monotonic() - self._started,
            self.process.cpu_times(),
            self._before,
        )
        own = now.user + now.system - before.user - before.system
        children = (now.children_user + now.children_system
                    - before.children_user - before.children_system)  # fmt: skip
        self.own_share, self.whole_share = own / seconds, (own + children) / seconds

    def look(self) -> None:
        """How much of it is in memory now."""
        self.resident = max(self.resident, self.process.memory_info().rss)

    def scrape(self) -> bytes:
        """Its metrics, timed."""
        start = time.perf_counter()
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            body: bytes = answer.read()
        self.latencies.append(time.perf_counter() - start)
        return body

    def until_ready(self, word: bytes) -> None:
        """Wait for an answer that holds `word`. Raises AssertionError."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            with suppress(OSError):
                if word in self.scrape():
                    return
            time.sleep(0.2)
        raise AssertionError(f"{self.name} does not tell {word!r}")


@contextmanager
def _both(place: Path) -> Iterator[list[Watched]]:
    """The daemon, of which a light pass a minute is asked, and the exporter where it is there."""
    (place / "daemon.toml").write_text('interval = "60s"\nkernels = "never"\n')
    ports = [free_port(), free_port()]
    environment = {**os.environ, "NODECHECK_HISTORY": str(place / "history.db")}
    config = ("--config", str(place / "daemon.toml"))
    started = [_start([NODECHECK, "daemon", "--listen", f"127.0.0.1:{ports[0]}", *config],
                      environment)]  # fmt: skip
    watched = [Watched("nodecheck daemon", started[0], ports[0])]
    if exporter := shutil.which(EXPORTER):
        started.append(
            _start([exporter, f"--web.listen-address=127.0.0.1:{ports[1]}"], environment)
        )
        watched.append(Watched(EXPORTER, started[1], ports[1]))
    else:
        print(f"{EXPORTER}: not installed, left out")
    try:
        watched[0].until_ready(b"nodecheck_report_timestamp_seconds")
        for each in watched[1:]:
            each.until_ready(b"node_")
        yield watched
    finally:
        for process in started:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()


def _start(argv: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(argv, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)


def _told(watched: list[Watched], minutes: float) -> bool:
    print(f"{minutes:g} minutes, scraped every {SCRAPE_SECONDS:g} s, then {BURST} times in a row")
    for each in watched:
        times = sorted(each.latencies)
        middle, most = statistics.median(times), times[int(0.99 * len(times))]
        print(f"{each.name:26} CPU {100 * each.own_share:.3f} %, with children "
              f"{100 * each.whole_share:.3f} %   resident {each.resident / 1e6:.1f} MB   "
              f"scrape {1000 * middle:.1f} ms, p99 {1000 * most:.1f} ms")  # fmt: skip
    ours = watched[0]
    for other in watched[1:]:
        middles = [statistics.median(each.latencies) for each in (ours, other)]
        print(f"{ours.name} / {other.name}: CPU {ours.own_share / other.own_share:.2f}, "
              f"with children {ours.whole_share / other.whole_share:.2f}, "
              f"resident {ours.resident / other.resident:.2f}, "
              f"scrape {middles[0] / middles[1]:.2f}")  # fmt: skip
    return all([
        _held("daemon itself, share of a core", ours.own_share, DAEMON_CPU_SHARE),
        _held("with its collector, share of a core", ours.whole_share, WITH_COLLECTOR_SHARE),
        _held("daemon itself, resident bytes", ours.resident, DAEMON_RESIDENT_BYTES),
    ])  # fmt: skip


def _held(what: str, value: float, budget: float) -> bool:
    held = value <= budget
    print(f"{what:40} {value:.4g}  budget {budget:g}: {'held' if held else 'NOT HELD'}")
    return held


if __name__ == "__main__":
    sys.exit(main())
