"""Debian's Chromium without a window, driven by its DevTools protocol over a pipe.

It reaches nothing but the page, or the server on 127.0.0.1 that the page is of: every other request
is refused and noted.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.lab.debian import CACHE, NotHereError, need_program

CHROMIUM = "chromium"
ANSWER_SECONDS = 60.0
"""For each command; a loaded machine starts the browser in ten seconds."""

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--remote-debugging-pipe", "--disable-dev-shm-usage", "--force-color-profile=srgb",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--no-pings", "--password-store=basic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip
"""Root has no sandbox; nothing is asked of any server, by any name of the outside."""

PACKAGE, LOCK = (Path(__file__).with_name(f"package{part}.json") for part in ("", "-lock"))
"""What npm brings, of which version and with which checksum."""


@dataclass
class Page:
    """What came of opening a page: what it asked for elsewhere, and what the console says."""

    url: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    loaded: bool = False


def axe() -> str:
    """The source of axe-core, from npm. Raises NotHereError."""
    folder = CACHE / "npm"
    source, kept = folder / "node_modules/axe-core/axe.min.js", folder / LOCK.name
    if not source.exists() or kept.read_bytes() != LOCK.read_bytes():
        _install(folder)
    return source.read_text()


def _install(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise NotHereError("npm is not here, which brings axe-core")
    folder.mkdir(parents=True, exist_ok=True)
    for file in (PACKAGE, LOCK):
        shutil.copy(file, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    hasty = ("--fetch-retries=0", "--fetch-timeout=20000")
    try:
        done = subprocess.run(
            [*command, *hasty], cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NotHereError("npm ci: no answer within 120 s") from error
    if done.returncode != 0:
        raise NotHereError(f"npm ci: {(done.stderr.splitlines() or ['failed'])[-1]}")


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser that ends with the block. Raises NotHereError."""
    need_program(CHROMIUM, "chromium")
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    # it reads commands from descriptor 3 and answers on 4
    wired = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
    with (profile / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", wired, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    os.close(commands)
    os.close(answers)
    try:
        yield Browser(to_browser, from_browser)
    finally:
        os.close(to_browser)  # at which it ends by itself
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        os.close(from_browser)


class Browser:
    """One tab."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands = commands
        self.answers = answers
        self.unread = b""
        self.sent = 0
        self.session: str | None = None
        self.page = Page("about:blank")
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        attached = self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")
        self.tell("Fetch.enable", patterns=[{"urlPattern": "*"}])

    def open(self, place: Path | str) -> Page:
        """Load a file or an address on 127.0.0.1, with all that it wants."""
        self.page = Page(place.as_uri() if isinstance(place, Path) else place)
        self.tell("Page.navigate", url=self.page.url)
        end = time.monotonic() + ANSWER_SECONDS
        while not self.page.loaded:
            self._hear(end)
        return self.page

    def show(self, width: int, scheme: str, media: str = "screen") -> None:
        """As wide a screen, light or dark; or paper."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.tell("Emulation.setEmulatedMedia", media=media, features=features)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.tell("Emulation.setDeviceMetricsOverride", **size)

    def evaluate(self, script: str) -> Any:
        """The value of a script, waited for. Raises AssertionError where it throws."""
        done = self.tell(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def picture(self, file: Path) -> None:
        """The whole page as PNG."""
        taken = self.tell("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(taken["data"]))

    def print(self, file: Path) -> None:
        """The page on A4, as PDF."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        file.write_bytes(base64.b64decode(self.tell("Page.printToPDF", **size)["data"]))

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command. Raises AssertionError where it is an error or none comes."""
        number = self._send(method, parameters)
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            message = self._hear(end)
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return self.sent

    def _hear(self, end: float) -> dict[str, Any]:
        """The next message; what the page does is noted."""
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            assert ready, f"the browser says nothing for {ANSWER_SECONDS:.0f} s"
            part = os.read(self.answers, 1 << 20)
            assert part, "the browser has ended"
            self.unread += part
        line, _, self.unread = self.unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self.page.loaded = True
        elif event == "Network.requestWillBeSent":
            self._note_request(told["request"]["url"])
        elif event == "Fetch.requestPaused":
            self._allow_or_not(told["requestId"], told["request"]["url"])
        elif event == "Log.entryAdded":
            self.page.complaints.append(told["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.page.complaints.append(str(told["args"]))
        elif event == "Runtime.exceptionThrown":
            self.page.complaints.append(str(told["exceptionDetails"]))

    def _is_own(self, url: str) -> bool:
        """Whether it is the page, or of the server that the page is of."""
        page, asked = urlsplit(self.page.url), urlsplit(url)
        served = page.scheme == "http" and (asked.scheme, asked.netloc) == (
            page.scheme,
            page.netloc,
        )
        return served or url == self.page.url

    def _note_request(self, url: str) -> None:
        if not self._is_own(url) and url not in self.page.requests:
            self.page.requests.append(url)

    def _allow_or_not(self, request: str, url: str) -> None:
        self._note_request(url)
        if self._is_own(url):
            self._send("Fetch.continueRequest", {"requestId": request})
        else:
            self._send(
                "Fetch.failRequest", {"requestId": request, "errorReason": "BlockedByClient"}
            )
