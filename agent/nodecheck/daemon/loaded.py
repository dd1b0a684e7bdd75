"""What the daemon asks to be read at start and on SIGHUP, and what it is then told."""

from __future__ import annotations

from nodecheck.daemon.settings import Settings
from nodecheck.model import Struct


class Request(Struct, frozen=True, kw_only=True):
    """The command line: `config` is a file; the others stand in the place of its settings.

    `bound` are the addresses that are listened on already, whatever the settings now say.
    """

    config: str | None = None
    listen: str | None = None
    interval: str | None = None
    policy: str | None = None
    bound: tuple[str, ...] = ()


class Loaded(Struct, frozen=True, kw_only=True):
    """`policy` is msgpack, opaque to the daemon; `addresses` are what `listen` stands for."""

    settings: Settings
    policy: bytes
    addresses: tuple[str, ...] = ()
    token: str | None = None
