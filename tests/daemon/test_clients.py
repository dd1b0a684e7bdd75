"""The listening server against clients that are slow, silent, too long or not HTTP at all."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodecheck.daemon import server
from nodecheck.daemon.guards import SAFE_HEADERS
from tests.daemon.served import (
    GET,
    LAST,
    Served,
    connections,
    everything,
    first,
    served,
    statuses,
    tree_pass,
)
from tests.processes import eventually


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limits on clients that are slow, in tenths of a second."""
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(server, "TAKEN_SECONDS", 0.5)


def ends_within(connection: socket.socket, seconds: float) -> float:
    """The seconds after which the other side ends."""
    started = time.monotonic()
    connection.settimeout(seconds)
    everything(connection)
    return time.monotonic() - started


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"\x00" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad Name: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 100_000 + b"\r\n",
    ],
    ids=lambda garbage: ascii(garbage[:40]),
)  # fmt: skip
def test_what_is_no_request_is_refused(
    its: Served, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with its.connect() as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(garbage)
        told = everything(connection)
    # what was not read when the connection was closed may have cut the answer off
    if told or len(garbage) < 10_000:
        assert statuses(told) in ([400], [413])
        head, _, body = told.partition(b"\r\n\r\n")
        assert len(body.splitlines()) == 1
        for name, value in SAFE_HEADERS.items():
            assert f"\r\n{name.lower()}: {value}".encode() in head.replace(
                name.encode(), name.lower().encode()
            )
    assert its.ask("/healthz").status == 200
    assert caplog.records == []


@pytest.fixture(scope="module")
def standing() -> Iterator[Served]:
    with served(tree_pass()) as made:
        yield made


LINES = st.sampled_from(
    [
        b"GET /metrics HTTP/1.1", b"HEAD / HTTP/1.1", b"GET //x?y#z HTTP/1.1", b"A B HTTP/1.0",
        b"GET /api/v1/history?since=1d&since= HTTP/1.1", b"Host: localhost", b"Host: [::1",
        b"Connection: close", b"Connection: keep-alive, Upgrade", b"Upgrade: h2c",
        b"Transfer-Encoding: chunked", b"Content-Length: 0", b"Content-Length: 7", b"0", b"",
        b"Expect: 100-continue", b"If-None-Match: *", b"Authorization: Basic \xff", b"X: \x00",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.lists(LINES, max_size=9).map(b"\r\n".join)))
def test_whatever_comes_it_stands(standing: Served, told: bytes) -> None:
    with standing.connect() as connection:
        connection.sendall(told + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        answer = everything(connection)
    assert set(statuses(answer)) <= {200, 304, 400, 401, 403, 404, 405, 413, 421, 431}
    assert standing.ask("/healthz").status == 200


def test_garbage_after_a_request(its: Served) -> None:
    assert statuses(its.say(GET + b"\x00\x01\x02\r\n\r\n")) == [200, 400]


def test_a_body_is_refused_and_not_read(its: Served) -> None:
    post = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
    assert statuses(its.say(post)) == [413]
    continued = post.replace(b"POST", b"GET").replace(
        b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"
    )
    assert statuses(its.say(continued)) == [413]


def test_an_upgrade_is_not_taken_up(its: Served, capfd: pytest.CaptureFixture[str]) -> None:
    asks = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    with its.connect() as connection:
        connection.sendall(GET.replace(b"\r\n\r\n", b"\r\n" + asks + b"\r\n"))
        assert first(connection) == [200]
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("hurried")
def test_a_request_that_trickles_in_is_cut_off(its: Served) -> None:
    with its.connect() as connection:
        started = time.monotonic()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for letter in GET * 100:
                connection.sendall(bytes([letter]))
                time.sleep(0.02)
        assert time.monotonic() - started < 3
    assert eventually(lambda: connections(its) == 0)


@pytest.mark.usefixtures("hurried")
def test_nothing_said_is_cut_off(its: Served) -> None:
    with its.connect() as connection:
        assert ends_within(connection, 10) < 3


@pytest.mark.usefixtures("hurried")
def test_a_connection_that_is_idle_is_kept_for_a_while(
    its: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.8)
    with its.connect() as connection:
        connection.sendall(GET)
        first(connection)
        time.sleep(0.5)  # longer than a request may take
        connection.sendall(GET)
        assert first(connection) == [200]
        assert timers_of_uvicorn(its) == [None]
        assert 0.5 < ends_within(connection, 10) < 5


def timers_of_uvicorn(its: Served) -> list[object]:
    assert its.server is not None
    return [each.timeout_keep_alive_task for each in its.server._connections()]


@pytest.mark.usefixtures("hurried")
def test_half_a_request_after_a_whole_one_is_cut_off(its: Served) -> None:
    with its.connect() as connection:
        connection.sendall(GET + GET[:20])
        connection.recv(1 << 16)
        assert ends_within(connection, 10) < 3


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("wants_close", [False, True])
def test_who_takes_nothing_is_cut_off(wants_close: bool) -> None:
    async def large(what: str, report: bytes) -> bytes:
        assert what == "page"
        assert report
        return b"x" * (32 << 20)

    asks = (LAST if wants_close else GET).replace(b"/healthz", b"/")
    with served(tree_pass(), make=large) as its:
        with its.connect() as connection:
            connection.sendall(asks)
            assert eventually(lambda: connections(its) == 1)
            assert eventually(lambda: connections(its) == 0)
            assert len(everything(connection)) < 32 << 20
        assert its.ask("/healthz").status == 200


@pytest.mark.usefixtures("hurried")
def test_who_asks_on_and_on_and_takes_nothing_is_cut_off(its: Served) -> None:
    many = GET.replace(b"/healthz", b"/api/v1/report") * 1000
    with its.connect() as connection:
        connection.settimeout(5)
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(many)
        assert eventually(lambda: connections(its) == 0)


@pytest.mark.usefixtures("hurried")
def test_who_takes_slowly_gets_all_in_time(its: Served) -> None:
    with its.connect() as connection:
        connection.sendall(LAST.replace(b"/healthz", b"/api/v1/report"))
        time.sleep(0.2)
        told = everything(connection)
    assert told.endswith(its.board.latest.report if its.board.latest else b"?")
