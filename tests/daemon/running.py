"""The daemon as a process of its own, and how to ask it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.processes import eventually

NODECHECK = (sys.executable, "-m", "nodecheck", "daemon")
DRIVEN = (sys.executable, str(Path(__file__).with_name("driven.py")))
ROOT = Path(__file__).parents[2]
QUIET = "required = []\n[thresholds]\nbusy_node_share = 1.0\n"
"""A policy by which this machine has what it must."""

_GREETING = re.compile(r"^nodecheck \S+ listens on (\S+); ", re.MULTILINE)


@dataclass
class Running:
    """A daemon that listens; `log` is its standard error."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def ask(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and body."""
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def series(self) -> dict[str, float]:
        """The samples of /metrics, by name and labels as they stand there."""
        lines = [line for line in self.ask("/metrics")[1].splitlines() if line[:1] != "#"]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def end(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Send a signal; the seconds until it has ended. Its status must be 0."""
        started = time.monotonic()
        self.process.send_signal(number)
        assert self.process.wait(10) == 0, self.log.read_text()
        return time.monotonic() - started


@contextlib.contextmanager
def running(
    place: Path, *arguments: str, program: tuple[str, ...] = NODECHECK, **environment: str
) -> Iterator[Running]:
    """A daemon with its history at `place`, on a free port unless the arguments name one."""
    log = place / "daemon.log"
    listen = () if program is not NODECHECK else ("--listen", "127.0.0.1:0")
    with log.open("wb") as err:
        process = subprocess.Popen(
            [*program, *listen, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=_environment(place, environment),
        )
    its = Running(process, log)
    try:
        assert eventually(lambda: bool(_GREETING.search(log.read_text()))
                          or process.poll() is not None)  # fmt: skip
        found = _GREETING.search(log.read_text())
        assert found, log.read_text()
        its.url = f"http://{found[1]}"
        yield its
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)


def _environment(place: Path, more: Mapping[str, str]) -> dict[str, str]:
    policy = place / "quiet.toml"
    policy.write_text(QUIET)
    usual = {key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"}
    return {
        **usual,
        "NODECHECK_HISTORY": str(place / "state" / "history.db"),
        "NODECHECK_POLICY": str(policy),
        "PYTHONPATH": f"{ROOT / 'agent'}:{ROOT}",
        **more,
    }
