"""What the daemon is told: where it listens, how often it looks. Pure: text in, settings out."""

from __future__ import annotations

import ipaddress
import re
import sys
from typing import Any

import msgspec

from nodecheck.model import Struct
from nodecheck.quantities import QuantityError, parse_span
from nodecheck.words import near

NEVER = "never"

SHORTEST_INTERVAL_SECONDS = 10
"""A light pass takes some 0.4 s of a CPU: more often it would weigh on the node that it watches.
Source: measured, docs/daemon.md."""

SHORTEST_KERNELS_SECONDS = 600
"""Measuring holds all CPUs for some seconds: more often it would be a load of its own. Source:
nodecheck's own judgement, 3 s in 600."""

LONGEST_SECONDS = 7 * 86_400
"""What is looked at less often than weekly needs no daemon."""


class SettingsError(ValueError):
    """Settings that cannot be used; the message is one line."""


class Settings(Struct, frozen=True, kw_only=True):
    """`kernels_interval_seconds` is None where nothing is ever measured.

    `hosts` are names that requests may call us by, beside those of the address. `token_file` holds
    what requests must bring. `policy` is a file, or the name of a shipped policy.
    """

    listen: str = "127.0.0.1:9742"
    interval_seconds: int = 60
    kernels_interval_seconds: int | None = 6 * 3600
    token_file: str | None = None
    hosts: tuple[str, ...] = ()
    policy: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of `listen`."""
        return parse_listen(self.listen)


def parse_settings(toml: str, name: str) -> Settings:
    """The settings of a TOML text; `name`, its file, is for messages. Raises SettingsError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content = tomllib.loads(toml)
        members: dict[str, Any] = dict(_member(key, value) for key, value in content.items())
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{name}: not TOML: {str(error)[:200]}") from error
    return Settings(**members)


def changed(
    settings: Settings, *, listen: str | None, interval: str | None, policy: str | None
) -> Settings:
    """The settings with what the command line says in their place. Raises SettingsError."""
    given = {"listen": listen, "interval": interval, "policy": policy}
    said = (_member(key, value) for key, value in given.items() if value is not None)
    try:
        members: dict[str, Any] = dict(said)
    except SettingsError as error:
        raise SettingsError(f"--{error}") from error
    return msgspec.structs.replace(settings, **members)


def check(settings: Settings, bound: tuple[str, ...] = ()) -> Settings:
    """The settings, where they go together, and with what is `bound`. Raises SettingsError."""
    host, _ = settings.address
    if settings.token_file is not None:
        return settings
    if not is_loopback(host):
        raise SettingsError(
            f"listening on {host} needs a token: name its file, token_file, in the configuration; "
            "without one only 127.0.0.1 and ::1 are listened on"
        )
    if still := [address for address in bound if not is_loopback(address)]:
        raise SettingsError(
            f"{still[0]} is listened on until the next start, which needs a token: name its file, "
            f"token_file, in the configuration, or restart to listen on {settings.listen}"
        )
    return settings


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:9742" or "[::1]:9742"; port 0 is a free one.

    Raises SettingsError.
    """
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})", text, re.ASCII)
    if not match or int(match[3]) > 65535:
        raise SettingsError(
            f"{text[:60]!r} is no address and port; write it as 127.0.0.1:9742 or [::1]:9742"
        )
    return match[1] or match[2], int(match[3])


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _listen(text: str) -> str:
    parse_listen(text)
    return text


def parse_interval(text: str) -> int:
    """Seconds between two light passes. Raises SettingsError."""
    return _span(text, SHORTEST_INTERVAL_SECONDS)


def _kernels(text: str) -> int | None:
    return None if text == NEVER else _span(text, SHORTEST_KERNELS_SECONDS)


def _span(text: str, shortest: int) -> int:
    try:
        seconds = parse_span(text)
    except QuantityError as error:
        raise SettingsError(f"{text[:40]!r} is no span of time; write it as 60s or 6h") from error
    if not shortest <= seconds <= LONGEST_SECONDS:
        raise SettingsError(f"{text[:40]!r} is not between {shortest}s and {LONGEST_SECONDS}s")
    return seconds


def _named(text: str) -> str:
    if not text.strip():
        raise SettingsError("is empty")
    return text


_KEYS: dict[str, tuple[str, Any]] = {
    "listen": ("listen", _listen),
    "interval": ("interval_seconds", parse_interval),
    "kernels": ("kernels_interval_seconds", _kernels),
    "token_file": ("token_file", _named),
    "hosts": ("hosts", _named),
    "policy": ("policy", _named),
}
"""Key of the file -> member, and what reads its text."""


def _member(key: str, value: object) -> tuple[str, object]:
    if key not in _KEYS:
        raise SettingsError(f"there is no setting {key[:40]!r}{near(key, tuple(_KEYS))}")
    member, read = _KEYS[key]
    several = isinstance(value, list) and member == "hosts"
    texts = value if several and isinstance(value, list) else [value]
    if several != (member == "hosts") or not all(isinstance(text, str) for text in texts):
        wants = "a list of texts" if member == "hosts" else "a text in quotes"
        raise SettingsError(f"{key}: must be {wants}")
    try:
        made = tuple(read(text) for text in texts)
    except SettingsError as error:
        raise SettingsError(f"{key}: {error}") from error
    return member, made if several else made[0]
