"""The datagrams that the service manager gets."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.daemon.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def to(listening: socket.socket, **more: str) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": listening.getsockname(), **more})


def received(listening: socket.socket) -> list[str]:
    found: list[str] = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(listening.recv(4096).decode())
    return found


def test_what_is_told(manager: socket.socket) -> None:
    notifier = to(manager)
    notifier.ready()
    notifier.status("OK: all is well")
    notifier.status("OK: all is well")
    notifier.reloading()
    notifier.stopping()
    ready, status, reloading, stopping = received(manager)
    assert (ready, status, stopping) == ("READY=1", "STATUS=OK: all is well", "STOPPING=1")
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading)


def test_a_status_is_one_short_line(manager: socket.socket) -> None:
    to(manager).status("a\nREADY=1\x1b" + "\u00e9" * 5000)
    (said,) = received(manager)
    assert said.startswith("STATUS=a?READY=1?")
    assert len(said) < 400


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "9" * 400}, None),
        ({"WATCHDOG_USEC": "9" * 5000}, None),
        ({"WATCHDOG_USEC": str(2**64 - 1)}, None),
        ({}, None),
    ],
)
def test_signs_of_life_are_sent_where_they_are_wanted_of_us(
    manager: socket.socket, environment: dict[str, str], seconds: float | None
) -> None:
    notifier = to(manager, **environment)
    assert notifier.watchdog_seconds == seconds
    notifier.watchdog()
    assert received(manager) == (["WATCHDOG=1"] if seconds else [])


def test_the_abstract_socket_of_a_container(tmp_path: Path) -> None:
    name = f"nodecheck-test-{os.getpid()}-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.setblocking(False)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert received(listening) == ["READY=1"]


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket", "vsock:2:1", "/" * 300])
def test_nobody_listens(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}).ready()


def test_a_manager_that_does_not_read_keeps_nobody_waiting(manager: socket.socket) -> None:
    notifier = to(manager)
    for number in range(2000):
        notifier.status(str(number))
    assert len(received(manager)) < 2000
