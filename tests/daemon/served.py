"""The real server with the real application, in a thread, over a board that a test holds."""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from nodecheck.daemon import collector
from nodecheck.daemon.app import Make, make_app
from nodecheck.daemon.board import Board
from nodecheck.daemon.guards import Guard
from nodecheck.daemon.made import Making
from nodecheck.daemon.passes import Pass
from nodecheck.daemon.server import Server
from nodecheck.report import Report
from tests.render.reports import of_tree

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
STATUS_LINE = re.compile(rb"^HTTP/1\.1 (\d\d\d) ", re.MULTILINE)
PATIENCE_SECONDS = 30.0
OWN = b"nodecheck_daemon_test 1\n"


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Answer(NamedTuple):
    """Headers of the same name are one, its values with a comma between them."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Served:
    """A server that answers, and how to ask it."""

    board: Board
    clock: Clock
    guard: Guard
    host: str = "127.0.0.1"
    port: int = 0
    server: Server | None = None
    grace_seconds: float = 0.3
    stop_seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """One request on a connection of its own; `_` in the name of a header stands for -."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            response = connection.getresponse()
            fields = {
                name.lower(): ", ".join(response.headers.get_all(name, []))
                for name in response.headers
            }
            return Answer(response.status, fields, response.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=PATIENCE_SECONDS)

    def say(self, request: bytes) -> bytes:
        """All that is answered to these bytes until the connection is closed."""
        with self.connect() as connection:
            connection.sendall(request)
            return everything(connection)

    def call(self, function: Callable[[], None]) -> None:
        """In the server's loop."""
        self.loop.call_soon_threadsafe(function)


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends, or cuts it off."""
    told = b""
    try:
        while block := connection.recv(1 << 16):
            told += block
    except ConnectionResetError:
        pass
    return told


def statuses(told: bytes) -> list[int]:
    return [int(each) for each in STATUS_LINE.findall(told)]


def first(connection: socket.socket) -> list[int]:
    """The statuses that are told until an answer of /healthz is whole."""
    told = b""
    while not told.endswith(b"ok\n") and (block := connection.recv(1 << 16)):
        told += block
    return statuses(told)


def connections(its: Served) -> int:
    assert its.server is not None
    return len(its.server._state.connections)


def pass_of(report: Report) -> Pass:
    """What the collector makes of a report."""
    return Pass(
        time=report.time,
        status=report.verdict.status,
        headline=report.verdict.headline,
        report=msgspec.json.encode(report),
        findings=collector._findings(report),
        metrics=collector._metrics(report),
    )


def tree_pass() -> Pass:
    return pass_of(of_tree("three-l40"))


@contextmanager
def served(
    latest: Pass | None = None,
    make: Make | None = None,
    guard: Guard | None = None,
    host: str = "127.0.0.1",
) -> Iterator[Served]:
    """A server on a free port; `make` is Making unless given. Nothing may go wrong inside it."""
    clock = Clock()
    board = Board(interval_seconds=60, slack_seconds=30, clock=clock)
    if latest is not None:
        board.take(latest)
    its = Served(board, clock, guard or Guard(host), host)
    ready = threading.Event()
    thread = threading.Thread(target=its.loop.run_until_complete, args=(_serve(its, make, ready),))
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS)
        yield its
    finally:
        its.call(its.stopping.set)
        thread.join(PATIENCE_SECONDS)
        its.loop.close()
    assert its.faults == []


async def _serve(its: Served, make: Make | None, ready: threading.Event) -> None:
    if sys.version_info < (3, 12):  # one of a loop that is closed may have been left
        asyncio.get_event_loop_policy().set_child_watcher(asyncio.ThreadedChildWatcher())
    making = Making()
    its.server = Server(make_app(its.board, its.guard, lambda: OWN, make or making), its.host, 0)
    await its.server.start()
    its.loop.set_exception_handler(lambda _, context: its.faults.append(repr(context)))
    log, faults = logging.getLogger("uvicorn.error"), _Faults(its.faults)
    log.setLevel(logging.ERROR)
    log.addHandler(faults)
    its.port = its.server.port
    ready.set()
    await its.stopping.wait()
    started = its.loop.time()
    await its.server.stop(its.grace_seconds)
    its.stop_seconds = its.loop.time() - started
    await making.stop()
    log.removeHandler(faults)


class _Faults(logging.Handler):
    """Notes what uvicorn takes for a fault: not that a request was given up at the end."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__()
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        if not record.exc_info or record.exc_info[0] is not asyncio.CancelledError:
            self._faults.append(record.getMessage())
