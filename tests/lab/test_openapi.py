"""schemathesis against the running server: no 5xx, and nothing that the document does not tell."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodecheck.daemon.made import MakingError
from nodecheck.daemon.openapi import ROUTES, document
from tests.daemon.served import served, tree_pass
from tests.lab.debian import NotHereError
from tests.lab.pypi import program
from tests.processes import eventually

EXAMPLES = 25
"""Requests an operation and phase, beside those that its document calls for."""

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def schemathesis() -> Path:
    try:
        return program("schemathesis", "schemathesis>=4")
    except NotHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the real daemon, once it has a report of this machine; it needs the token."""
    folder = tmp_path_factory.mktemp("daemon")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    (folder / "daemon.toml").write_text(
        f'listen = "127.0.0.1:{port}"\nkernels = "never"\ntoken_file = "{folder / "token"}"\n'
    )
    command = [sys.executable, "-m", "nodecheck", "daemon", "--config", str(folder / "daemon.toml")]
    environment = {**os.environ, "NODECHECK_HISTORY": str(folder / "history.db")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        assert eventually(lambda: status(port, "/readyz") == 200), (folder / "log").read_text()
        yield port
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def status(port: int, path: str, **headers: str) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except ConnectionError:
        return None
    finally:
        connection.close()


def fuzz(schemathesis: Path, port: int, folder: Path, *options: str) -> tuple[int, str]:
    """Its exit status and what it says."""
    base = f"http://127.0.0.1:{port}"
    command = [
        str(schemathesis), "--no-color", "run", f"{base}/api/v1/openapi.json", "--url", base,
        "--checks", "all", "--max-examples", str(EXAMPLES), "--seed", "1",
        "--generation-database", "none", "--request-timeout", "30", *options,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=110, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_nothing_is_found(schemathesis: Path, daemon: int, tmp_path: Path) -> None:
    bearer = f"Authorization: Bearer {TOKEN}"
    status, told = fuzz(schemathesis, daemon, tmp_path, "--header", bearer)
    assert status == 0, told
    assert "No issues found" in told


def test_each_route_answers(daemon: int) -> None:
    for route in ROUTES:
        assert status(daemon, route.path, Authorization=f"Bearer {TOKEN}") == 200, route
        assert status(daemon, route.path) == (200 if route.is_open else 401), route


class Faulty:
    """Serves the real document, and a history that is none."""

    async def __call__(self, what: str, report: bytes) -> bytes:
        if what == "openapi":
            return json.dumps(document("0")).encode()
        if what == "history 7d":
            raise MakingError(f"{what} fails")
        if what == "history 90d":
            raise ZeroDivisionError
        return b'{"no": "history"}' if what.startswith("history") else report


def test_a_broken_application_is_found(schemathesis: Path, tmp_path: Path) -> None:
    with served(tree_pass(), make=Faulty()) as its:
        status, told = fuzz(schemathesis, its.port, tmp_path, "--include-path", "/api/v1/history")
    assert status == 1, told
    assert "Response violates schema" in told
    assert "Server error" in told
