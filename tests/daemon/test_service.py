"""The daemon as a process, where what it stands on gives way: readers, names, descriptors, time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.running import NODECHECK, ROOT, Running, running
from tests.processes import eventually, is_running

END_SECONDS = 1.0
SOON_SECONDS = 3.0
"""Where it would hang for longer, on a machine that is busy."""

TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PLAIN: tuple[str, ...] = (*NODECHECK, "--interval", "10s")
"""Without --listen on the command line."""

F_SETPIPE_SZ = 1031


def reloaded(daemon: Running, says: str) -> None:
    seen = len(daemon.lines())
    daemon.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: any(says in line for line in daemon.lines()[seen:])), daemon.lines()


def test_a_reload_does_not_open_what_is_listened_on(tmp_path: Path) -> None:
    token, config = tmp_path / "token", tmp_path / "daemon.toml"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with_token = f'listen = "0.0.0.0:0"\ntoken_file = "{token}"\n'
    config.write_text(with_token)
    with running(tmp_path, "--config", str(config), program=PLAIN) as daemon:
        assert daemon.ask("/metrics")[0] == 401
        config.write_text('listen = "127.0.0.1:0"\n')
        reloaded(daemon, "the configuration was not changed: 0.0.0.0 is listened on until the next "
                         "start, which needs a token: name its file")  # fmt: skip
        assert daemon.ask("/metrics")[0] == 401
        assert "\nnodecheck_daemon_config_ok 0.0\n" in daemon.ask("/metrics", **BEARER)[1]
        config.write_text(with_token)
        reloaded(daemon, "the configuration was read again")
        assert daemon.ask("/metrics")[0] == 401
        assert "\nnodecheck_daemon_config_ok 1.0\n" in daemon.ask("/metrics", **BEARER)[1]
        assert daemon.end() < END_SECONDS


@contextlib.contextmanager
def started(place: Path, *arguments: str, stderr: int, **environment: str) -> Iterator[int]:
    """A daemon of which only its process is known."""
    (place / "quiet.toml").write_text("required = []\n")
    usual = {"NODECHECK_HISTORY": str(place / "history.db"),
             "NODECHECK_POLICY": str(place / "quiet.toml"),
             "PYTHONPATH": f"{place}:{ROOT / 'agent'}"}  # fmt: skip
    process = subprocess.Popen(
        [*PLAIN, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
        env={**os.environ, **usual, **environment},
    )  # fmt: skip
    try:
        yield process.pid
        begun = time.monotonic()
        process.terminate()
        assert process.wait(10) == 0
        assert time.monotonic() - begun < SOON_SECONDS
    finally:
        process.kill()
        process.wait()


def test_it_works_and_ends_while_nobody_reads_what_it_says(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 512)
    os.set_blocking(writing, True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    with started(tmp_path, "--listen", listen, stderr=writing):
        assert eventually(lambda: answers(f"http://{listen}/readyz"))
    os.close(reading)
    os.close(writing)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


SILENT = """
import pathlib, socket, time
def getaddrinfo(*_, **__):
    pathlib.Path({note!r}).touch()
    time.sleep(60)
socket.getaddrinfo = getaddrinfo
"""


def test_it_ends_while_a_name_server_is_silent(tmp_path: Path) -> None:
    note, config = tmp_path / "asked", tmp_path / "daemon.toml"
    (tmp_path / "sitecustomize.py").write_text(SILENT.format(note=str(note)))
    config.write_text('listen = "localhost:0"\n')
    with started(tmp_path, "--config", str(config), stderr=subprocess.DEVNULL):
        assert eventually(note.exists)


EARLY = """
import os, signal, sys
from nodecheck import cli
import asyncio
asyncio.run = lambda coroutine: (coroutine.close(), os.kill(os.getpid(), {number}), print("on"))
sys.argv = ["nodecheck", "daemon"]
cli.main()
"""


@pytest.mark.parametrize(
    ("number", "told"), [(signal.SIGHUP, "on\n"), (signal.SIGINT, ""), (signal.SIGTERM, "")]
)
def test_signals_that_come_while_it_starts(number: signal.Signals, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY.format(number=int(number))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


def test_few_descriptors_are_kept_for_passes(tmp_path: Path) -> None:
    """A hundred clients take all that a service may have open, and more."""
    limited = ("/bin/sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *NODECHECK)
    with running(tmp_path, "--listen", "127.0.0.1:0", "--interval", "10s", program=limited) as its:
        host, port = its.url.removeprefix("http://").split(":")
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                connection = stack.enter_context(socket.create_connection((host, int(port))))
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            its.process.send_signal(signal.SIGHUP)
            assert eventually(lambda: "the configuration was read again" in its.lines())
            time.sleep(1)
            assert its.ask("/healthz")[0] == 200
            assert its.ask("/api/v1/openapi.json")[0] == 200
            assert "no report" not in its.log.read_text()
        its.end()
        assert "Traceback" not in its.log.read_text()
        assert len(its.lines()) < 10


def test_a_child_that_is_late_ends_with_the_daemon(tmp_path: Path) -> None:
    """SIGTERM comes in the moment in which it is being ended; who waits for it is told."""
    told: list[tuple[int, str]] = []
    with running(tmp_path, "--listen", "127.0.0.1:0", program=PLAIN) as daemon:
        asking = threading.Thread(target=lambda: told.append(asked(daemon)))
        asking.start()
        assert eventually(lambda: bool(making(daemon.pid)))
        [pid] = making(daemon.pid)
        os.kill(pid, signal.SIGSTOP)
        assert daemon.end() < END_SECONDS
        asking.join()
    assert eventually(lambda: not is_running(pid))
    assert told in ([(503, "nodecheck is about to end\n")], [(0, "")])


def asked(daemon: Running) -> tuple[int, str]:
    try:
        return daemon.ask("/")
    except OSError:
        return 0, ""


def making(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            text = (status.parent / "cmdline").read_bytes()
            if b"nodecheck.daemon.making" in text and re.search(
                rf"^PPid:\t{parent}$", status.read_text(), re.MULTILINE
            ):
                found.append(int(status.parent.name))
    return found
