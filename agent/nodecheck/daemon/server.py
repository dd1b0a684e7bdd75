"""uvicorn in the daemon's own loop, with limits that it has not: how long, how much, how many."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from nodecheck.daemon.guards import HEADERS_BYTES, SAFE_HEADERS

CONNECTIONS = 64
"""At once. Who keeps us waiting longest makes room for the next. Source: nodecheck's judgement."""

OTHER_DESCRIPTORS = 40
"""Where few may be open: so many are for what is not a connection, three children's pipes above
all. Source: counted, 14 while nothing runs and 8 a child that starts."""

ACCEPTED_AT_ONCE = 8
"""Connections that are taken before any makes room for another. Of those 40."""

REQUEST_SECONDS = 5.0
"""In which a request must be whole. Source: a scrape's is one packet."""

ANSWER_SECONDS = 60.0
"""In which an answer must be made. What is made on demand gives up long before."""

TAKEN_SECONDS = 10.0
"""In which an answer must be taken. Source: Prometheus' scrape_timeout."""

IDLE_SECONDS = 75.0
"""A connection between requests: longer than Prometheus' usual interval of a minute, which then
scrapes without connecting anew. Source: as nginx's keepalive_timeout."""

BACKLOG = 128


class Server:
    """A listening socket and its connections. `hosts` are addresses; `port` 0 takes a free one."""

    def __init__(self, app: ASGIApp, hosts: str | Sequence[str], port: int) -> None:
        self._hosts = hosts
        self.port = port
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            loop="asyncio",
            http=_Connection,
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level=logging.CRITICAL + 1,  # what clients do wrong is not the log's matter
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=HEADERS_BYTES,
        )
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises OSError where the address cannot be had."""
        self._config.load()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._connection, self._hosts, self.port, backlog=ACCEPTED_AT_ONCE
        )
        for each in self._listener.sockets:  # asyncio has one number for both
            with socket.socket(fileno=os.dup(each.fileno())) as same:
                same.listen(BACKLOG)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self, grace_seconds: float) -> None:
        """Listen no more; answers that are under way have so long to be taken."""
        if self._listener is not None:
            self._listener.close()
        for connection in self._connections():
            connection.close_when_idle()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_seconds
        while self._state.connections and loop.time() < end:  # noqa: ASYNC110 - uvicorn tells none
            await asyncio.sleep(0.02)
        for task in tuple(self._state.tasks):
            task.cancel()
        for connection in self._connections():
            connection.transport.abort()
        await asyncio.sleep(0)

    def _connections(self) -> list[_Connection]:
        return [each for each in self._state.connections if isinstance(each, _Connection)]

    def _connection(self) -> asyncio.Protocol:
        return _Connection(self._config, self._state, {})


class _Connection(H11Protocol):
    """A connection on which each step has its time."""

    _timer: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None
    since = 0.0
    """When its last step was, by the loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._within(REQUEST_SECONDS)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._timer)
        _stop(self._taking)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_idle = self.is_idle
        if was_idle and not self._has_part:
            self._within(REQUEST_SECONDS)
        super().data_received(data)
        if was_idle and not self.is_idle:
            self._within(ANSWER_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking = self.loop.call_later(TAKEN_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        _stop(self._taking)
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()  # ours instead
        if not self.is_idle:
            self._within(ANSWER_SECONDS)  # a request that came with the last
        else:
            self._within(REQUEST_SECONDS if self._has_part else IDLE_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, or too much of it."""
        body = f"not a request that can be answered: {msg}\n".encode()
        head = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        lines = (
            f"{k}: {v}\r\n" for k, v in {**head, **SAFE_HEADERS, "Connection": "close"}.items()
        )
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{''.join(lines)}\r\n".encode() + body)
        self.transport.close()
        self._within(TAKEN_SECONDS)

    def close_when_idle(self) -> None:
        """Take no further request."""
        if self.is_idle:
            self.transport.close()
        elif self.cycle is not None:
            self.cycle.keep_alive = False

    @property
    def is_idle(self) -> bool:
        """Whether it owes no answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    @property
    def _has_part(self) -> bool:
        """Whether a request has begun."""
        return bool(self.conn.trailing_data[0])

    def _within(self, seconds: float) -> None:
        """What is next must come in this time."""
        _stop(self._timer)
        self.since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _make_room(self) -> None:
        """Where there are too many, end the one that keeps us waiting longest: at most this one."""
        held = [
            each
            for each in self.connections
            if isinstance(each, _Connection) and not each.transport.is_closing()
        ]
        if len(held) > _most_connections():
            silent = (each for each in held if each.is_idle or each.flow.write_paused)
            min(silent, key=lambda each: each.since).transport.abort()


def _most_connections() -> int:
    """At once, so that passes find descriptors too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS if soft < 0 else max(1, min(CONNECTIONS, soft - OTHER_DESCRIPTORS))


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
