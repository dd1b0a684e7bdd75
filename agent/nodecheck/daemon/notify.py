"""Tells the service manager how the daemon is: the datagrams of sd_notify(3)."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping

from nodecheck.words import without_controls

STATUS_MOST = 300

USEC_MOST = (1 << 64) - 1
"""Source: sd_watchdog_enabled(3), which takes no more and means none by it."""


class Notifier:
    """Sends to $NOTIFY_SOCKET, if that is set. Nothing it does waits or fails."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog_seconds(environment) if self._address else None
        self._status = ""

    def ready(self) -> None:
        """Requests are answered."""
        self._send("READY=1")

    def reloading(self) -> None:
        """The configuration is read again; `ready` ends it."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")

    def stopping(self) -> None:
        """It is about to end."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """The loop goes round. Half of `watchdog_seconds` apart, this keeps the manager calm."""
        if self.watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for systemctl status; the same is not sent twice in a row."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={without_controls(text)[:STATUS_MOST]}")

    def _send(self, *lines: str) -> None:
        if self._address[:1] not in ("/", "@"):
            return
        to = self._address.encode(errors="surrogateescape")
        to = b"\0" + to[1:] if to.startswith(b"@") else to
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto("\n".join(lines).encode(errors="replace"), to)


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """$WATCHDOG_USEC, unless it is meant for another process. Source: sd_watchdog_enabled(3)."""
    usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID")
    if pid is not None and pid != str(os.getpid()):
        return None
    number = int(usec) if usec.isascii() and usec.isdigit() and len(usec) <= 20 else 0  # 2^64
    return number / 1e6 if 0 < number < USEC_MOST else None
