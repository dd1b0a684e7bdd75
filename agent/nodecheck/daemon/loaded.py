"""What the daemon asks to be read at start and on SIGHUP, and what it is then told."""

from __future__ import annotations

from nodecheck.daemon.settings import Settings
from nodecheck.model import Struct


class Request(Struct, frozen=True, kw_only=True):
    """The command line: `config` is a file; the others stand in the place of its settings."""

    config: str | None = None
    listen: str | None = None
    interval: str | None = None
    policy: str | None = None


class Loaded(Struct, frozen=True, kw_only=True):
    """`policy` is msgpack of the policy, opaque to the daemon."""

    settings: Settings
    policy: bytes
    token: str | None = None
