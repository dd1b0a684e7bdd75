"""The daemon's configuration, policy and token: `python -m nodecheck.daemon.reading`, a child.

A file system that hangs must not stop the loop, and the daemon knows no check, as policies do.
Standard input is a Request, standard output a Loaded (both msgpack), standard error one line.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import click
import msgspec

from nodecheck.cli.inputs import SYSTEM_POLICY, is_there, read_file, read_policy
from nodecheck.daemon.collector import answer
from nodecheck.daemon.loaded import Loaded, Request
from nodecheck.daemon.settings import Settings, SettingsError, changed, check, parse_settings
from nodecheck.machine import child
from nodecheck.model import Struct

SYSTEM_CONFIG = "/etc/nodecheck/daemon.toml"

CONFIG_BYTES = 16 << 10
"""Six settings and their comments take one. Source: tomllib takes two seconds for the worst that is
so long, and the square of it for longer ones."""

POLICY_BYTES = 1 << 20
"""It is held in memory and given to each pass. Source: 10,000 waivers."""

RESOLVE_SECONDS = 10.0
"""For the name that is listened on. Source: resolv.conf(5), 5 s for each of two tries."""

TOKEN_SHORTEST = 16
"""Characters: fewer can be tried one after the other. Source: 64 bits in hexadecimal."""


def load(request: Request) -> Loaded:
    """All that the daemon is told. Raises ClickException."""
    try:
        settings = changed(
            _settings(request.config),
            listen=request.listen, interval=request.interval, policy=request.policy,
        )  # fmt: skip
        check(settings, request.bound)
    except SettingsError as error:
        raise click.ClickException(str(error)) from error
    return Loaded(
        settings=settings,
        policy=_policy(settings.policy),
        token=_token(settings.token_file) if settings.token_file else None,
        addresses=request.bound or _addresses(settings),
    )


def _settings(config: str | None) -> Settings:
    named = config
    if named is None:
        if not is_there(SYSTEM_CONFIG):
            return Settings()
        named = SYSTEM_CONFIG
    return parse_settings(_text(named), named)


def _policy(named: str | None) -> bytes:
    """As read_policy; a file that is too large for us is told by its name."""
    file = named or os.environ.get("NODECHECK_POLICY") or str(SYSTEM_POLICY)
    if is_there(file):
        read_file(Path(file), POLICY_BYTES)
    return msgspec.msgpack.encode(read_policy(named))


class _Found(Struct, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    why: str | None = None


def _addresses(settings: Settings) -> tuple[str, ...]:
    """What the name that is listened on stands for. Raises ClickException."""
    host, port = settings.address
    found = child.call(lambda: _resolved(host, port), _Found, RESOLVE_SECONDS)
    why = found.error if found.value is None else found.value.why
    if found.value is None or why:
        raise click.ClickException(f"cannot listen on {settings.listen}: {why}")
    return found.value.addresses


def _resolved(host: str, port: int) -> _Found:
    try:
        told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return _Found(why=error.strerror or str(error))
    return _Found(addresses=tuple(dict.fromkeys(str(each[4][0]) for each in told)))


def _token(path: str) -> str:
    """What a file holds. Raises ClickException where it is no secret."""
    token = _text(path).strip()
    if os.stat(path).st_mode & (stat.S_IROTH | stat.S_IWOTH):  # noqa: PTH116
        raise click.ClickException(f"{path}: everybody can read this token: chmod 600 {path}")
    if len(token) < TOKEN_SHORTEST:
        raise click.ClickException(
            f"{path}: a token has at least {TOKEN_SHORTEST} characters: openssl rand -hex 32"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise click.ClickException(f"{path}: a token is one line of ASCII without spaces")
    return token


def _text(path: str) -> str:
    try:
        return read_file(Path(path), CONFIG_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path}: not UTF-8 text: {error.reason}") from error


def main() -> int:
    """Read what the request names."""

    def work() -> bytes:
        request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Request)
        return msgspec.msgpack.encode(load(request))

    return answer(work)


if __name__ == "__main__":
    sys.exit(main())
