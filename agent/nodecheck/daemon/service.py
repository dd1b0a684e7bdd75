"""The daemon as a whole: loop and server together, signals, and a clean end."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from nodecheck import __version__
from nodecheck.daemon.app import make_app
from nodecheck.daemon.guards import Guard
from nodecheck.daemon.journal import Journal, Logged
from nodecheck.daemon.loaded import Loaded, Request
from nodecheck.daemon.loop import COLLECTOR, Loop
from nodecheck.daemon.made import Making
from nodecheck.daemon.notify import Notifier
from nodecheck.daemon.own_metrics import own_metrics
from nodecheck.daemon.process import Child, Clock, Ended, watch_children_without_threads
from nodecheck.daemon.server import Server
from nodecheck.daemon.settings import NEVER, Settings
from nodecheck.quantities import write_span

READER = (sys.executable, "-m", "nodecheck.daemon.reading")

READ_SECONDS = 25.0
"""For configuration, token and policy, each on a file system that may hang for some seconds."""

GRACE_SECONDS = 0.3
"""Requests that are being answered have so long: SIGTERM is over within a second."""

END_SECONDS = 0.8
"""Then the daemon ends, whatever is left: a collector that hangs takes 0.7 s to be given up."""


class StartError(Exception):
    """Why the daemon cannot start; one line."""


async def serve(
    request: Request, command: Sequence[str] = COLLECTOR, clock: Clock | None = None
) -> None:
    """Be the daemon until SIGTERM or SIGINT. Raises StartError.

    `command` and `clock` are as Loop's.
    """
    await _Service(request, command, clock or Clock()).run()


class _Service:
    def __init__(self, request: Request, command: Sequence[str], clock: Clock) -> None:
        self._request, self._command, self._clock = request, command, clock
        self._journal, self._notifier = Journal(), Notifier()
        self._reader = Child(READER, Clock())
        self._stopping: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._reload_wanted = asyncio.Event()

    async def run(self) -> None:
        """Start, turn, end."""
        self._take_signals()
        self._take_faults()
        watch_children_without_threads()
        loaded = await self._until_stopped(self._read())
        if loaded is None:
            return
        if loaded.answer is None:
            raise StartError(str(loaded.error))
        await self._serve(msgspec.msgpack.decode(loaded.answer, type=Loaded))

    async def _serve(self, loaded: Loaded) -> None:
        host, port = loaded.settings.address
        self._request = msgspec.structs.replace(self._request, bound=loaded.addresses)
        guard = Guard(host, loaded.settings.hosts, loaded.token)
        loop = Loop(loaded, self._journal, self._notifier, command=self._command, clock=self._clock)
        making = Making()
        app = make_app(loop.board, guard, own_metrics(loop.board, loop.tally), making)
        server = Server(app, loaded.addresses, port)
        try:
            await server.start()
        except OSError as error:
            raise StartError(f"cannot listen on {loaded.settings.listen}: {_why(error)}") from error
        gc.freeze()  # what is there now stays: no collection need look at it again
        self._journal.tell(_greeting(loaded.settings, server.port))
        self._notifier.ready()
        self._notifier.status("no report yet")
        turning = asyncio.create_task(loop.turn(self._stopping))
        reloading = asyncio.create_task(self._reload_when_wanted(loop, guard, loaded))
        events: list[asyncio.Future[Any]] = [self._stopping, turning, reloading]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        self._notifier.stopping()
        self._stop()  # also where one of the others failed
        reloading.cancel()
        ends = asyncio.gather(
            turning, reloading, making.stop(), server.stop(GRACE_SECONDS), return_exceptions=True
        )
        await asyncio.wait([ends], timeout=END_SECONDS)
        for task in (turning, reloading):
            if task.done() and not task.cancelled():
                task.result()

    def _take_signals(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, nobody is told how children ended
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload_wanted.set)

    def _take_faults(self) -> None:
        """What goes wrong beside us is a line in the log too."""
        logging.getLogger().addHandler(Logged(self._journal))
        asyncio.get_running_loop().set_exception_handler(self._unforeseen)

    def _unforeseen(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        why = f": {type(error).__name__}: {error}" if error else ""
        line = f"{context.get('message')}{why}"
        self._journal.state("unforeseen", line, line)

    def _stop(self) -> None:
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def _read(self) -> Ended:
        return await self._reader.run([], msgspec.msgpack.encode(self._request), READ_SECONDS)

    async def _until_stopped(self, reading: Coroutine[Any, Any, Ended]) -> Ended | None:
        """What is read; None where we are told to end meanwhile."""
        task = asyncio.create_task(reading)
        events: list[asyncio.Future[Any]] = [task, self._stopping]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    async def _reload_when_wanted(self, loop: Loop, guard: Guard, loaded: Loaded) -> None:
        """At each SIGHUP read all anew, and go by it where it can be used."""
        while True:
            await self._reload_wanted.wait()
            self._reload_wanted.clear()
            self._notifier.reloading()
            ended = await self._read()
            if ended.answer is None:
                loop.tally.config_ok = False
                line = f"the configuration was not changed: {ended.error}"
                self._notifier.status(line)
            else:
                loop.tally.config_ok = True
                new = msgspec.msgpack.decode(ended.answer, type=Loaded)
                loop.reload(new)
                guard.hosts, guard.token = new.settings.hosts, new.token
                line = _changes(loaded, new)
                loaded = new
            self._journal.tell(line)
            self._notifier.ready()


def _greeting(settings: Settings, port: int) -> str:
    host = settings.address[0]
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    kernels = settings.kernels_interval_seconds
    measures = f"every {write_span(kernels)}" if kernels else NEVER
    return (
        f"nodecheck {__version__} listens on {at}; looks every "
        f"{write_span(settings.interval_seconds)}, measures {measures}"
    )


def _changes(old: Loaded, new: Loaded) -> str:
    """What a reload came to."""
    line = "the configuration was read again"
    if new.settings.listen != old.settings.listen:
        line += f"; {new.settings.listen} is listened on from the next start"
    return line


def _why(error: OSError) -> str:
    """In words, without what asyncio puts around them."""
    if error.errno == errno.EADDRINUSE:
        return "another program listens there (ss -ltnp tells which)"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
