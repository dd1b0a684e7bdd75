"""Prometheus, Alertmanager and node_exporter from Debian, on loopback, and who talks to them."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

INTEGRATION = files("nodecheck") / "integrations" / "prometheus"
SHIPPED = ("nodecheck.rules.yml", "nodecheck.rules.test.yml", "prometheus.yml", "alertmanager.yml")
DASHBOARDS = ("nodecheck-fleet.json", "nodecheck-node.json")
PATIENCE_SECONDS = 30.0

PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    "prometheus-node-exporter": "prometheus-node-exporter",
}
"""Program -> the Debian package that brings it."""


def program(name: str) -> str:
    """Its path, or the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: apt-get install {PACKAGES[name]}")
    return found


def ran(*command: str, given: bytes = b"") -> str:
    """What a program says, which has to end well."""
    done = subprocess.run(
        (program(command[0]), *command[1:]),
        input=given, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], log: Path, ready: str, **environment: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """The server while it answers at the URL `ready`; it is ended afterwards."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, **environment)
    try:
        until(lambda: process.poll() is not None or is_ready(ready), log)
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except OSError:
        return False


def until(holds: Callable[[], object], log: Path, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for it; what the log says last tells why it did not come."""
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last, log.read_text()[-3000:]
        time.sleep(0.05)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server of the test's own in a thread, and its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def exporter(nodes: dict[str, Callable[[], bytes]]) -> Iterator[int]:
    """Nodes that are scraped at /NAME, each by what makes its metrics."""

    class Nodes(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made = nodes[self.path.removeprefix("/")]()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(made)))
            self.end_headers()
            self.wfile.write(made)

        def log_message(self, *_: object) -> None:
            """Nothing: it is no news."""

    with serving(Nodes) as port:
        yield port


@contextmanager
def webhook(alerts: list[dict[str, Any]]) -> Iterator[int]:
    """Takes what Alertmanager delivers, alert by alert, each with the path that it came to."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            alerts.extend({**alert, "path": self.path} for alert in json.loads(body)["alerts"])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: it is no news."""

    with serving(Receiver) as port:
        yield port


class Prometheus:
    """A running Prometheus, asked by its API."""

    def __init__(self, port: int, log: Path) -> None:
        self.port, self.log = port, log

    def ask(self, endpoint: str, **parameters: str) -> Any:
        """The data of the answer; what it complains of fails the test."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self.port}/api/v1/{endpoint}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as error:
            pytest.fail(f"{parameters}: {error.read().decode()}")
        assert "warnings" not in told, told
        return told["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of now."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def until(self, expression: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until it has an answer."""
        until(lambda: self.query(expression), self.log, seconds)


@contextmanager
def prometheus(place: Path, configuration: str) -> Iterator[Prometheus]:
    """A Prometheus with this configuration."""
    port, log = free_port(), place / "prometheus.log"
    config = place / "prometheus.yml"
    config.write_text(configuration)
    command = (
        program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={place / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    )  # fmt: skip
    with running(command, log, f"http://127.0.0.1:{port}/-/ready"):
        yield Prometheus(port, log)


def scraping(name: str, *targets: str, path: str = "/metrics") -> dict[str, Any]:
    """A job that is scraped each second."""
    return {
        "job_name": name, "scrape_interval": "1s", "scrape_timeout": "1s", "metrics_path": path,
        "static_configs": [{"targets": list(targets)}],
    }  # fmt: skip


def shipped(name: str) -> str:
    """The text of a file of the integration."""
    return (INTEGRATION / name).read_text(encoding="utf-8")
