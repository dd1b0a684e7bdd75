"""Who may ask, and what every answer carries: names of this node, a token, headers for browsers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("nodecheck.daemon")

RETRY_SECONDS = 5
"""When to ask again where there is no answer yet: a light pass takes about a second."""

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""They need no token: a kubelet or a load balancer has none, and they tell one word."""

POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; "
    "style-src 'unsafe-inline'; "  # charts are drawn with style attributes
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page may run its own script and ask its own server, nothing else."""

SAFE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer. There is no Access-Control header: no other site may read anything here."""

HEADERS_BYTES = 16 << 10
"""A request line and its headers. Source: browsers and proxies stay below 8 KiB."""

RAW_SAFE_HEADERS = [(k.lower().encode(), v.encode()) for k, v in SAFE_HEADERS.items()]

CHALLENGES = ('Bearer realm="nodecheck"', 'Basic realm="nodecheck", charset="UTF-8"')


class Refusal(NamedTuple):
    """Why a request is not answered: a status and one line."""

    status: int
    line: str


@dataclass
class Guard:
    """Who may ask. May be changed in place: a request is held to what stands when it comes.

    `listen_host` is the address that is listened on, `hosts` further names of this node; without a
    `token` everybody who reaches the port may ask.
    """

    listen_host: str
    hosts: tuple[str, ...] = ()
    token: str | None = None

    def refusal(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Why a request is refused; None where it may be answered. Names are in lower case."""
        fields: dict[str, list[str]] = {}
        for name, value in headers:
            fields.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        is_plain = "host" not in fields and path in OPEN_PATHS  # HTTP/1.0, as load balancers ask
        return (
            (None if is_plain else self._wrong_host(fields.get("host", [])))
            or _from_another_site({name: values[0] for name, values in fields.items()})
            or (None if path in OPEN_PATHS else self._no_token(fields.get("authorization", [])))
            or _body(fields)
        )

    def _wrong_host(self, values: list[str]) -> Refusal | None:
        """A name that is not ours may be another's that was pointed here: DNS rebinding."""
        if len(values) != 1 or not values[0].strip():
            return Refusal(400, "one Host header is needed")
        name = host_name(values[0])
        if is_address(name) or name in self._names():
            return None
        return Refusal(421, "not a name of this node; its names go under hosts in the config file")

    def _names(self) -> set[str]:
        node = os.uname().nodename.lower()
        given = (self.listen_host, *map(host_name, self.hosts))
        return {"localhost", node, node.partition(".")[0], *(name.lower() for name in given)}

    def _no_token(self, values: list[str]) -> Refusal | None:
        if self.token is None or any(is_token(value, self.token) for value in values[:1]):
            return None
        return Refusal(401, "a token is needed: Authorization: Bearer TOKEN")


def host_name(header: str) -> str:
    """The name or address in a Host header, in lower case, without port, brackets and last dot."""
    text = header.strip().lower()
    name, colon, port = text.rpartition(":")
    bare = ":" in name and not name.endswith("]")  # an address of IPv6, which has colons
    if colon and ((port.isdecimal() and port.isascii()) or not (port or bare)):
        text = name
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1]
    return text.removesuffix(".")


def is_address(name: str) -> bool:
    """Whether it is an address: nobody can point one elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_token(authorization: str, token: str) -> bool:
    """Whether a header carries the token: as Bearer, or as the password of Basic (browsers)."""
    scheme, _, given = authorization.strip().partition(" ")
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(given.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        given = decoded.partition(b":")[2].decode("latin-1")
        return hmac.compare_digest(given.encode("latin-1"), token.encode())
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode("latin-1"), token.encode()
    )


def _from_another_site(fields: Mapping[str, str]) -> Refusal | None:
    """Another site may link to a page here, but not load one: even a failed load tells and costs.

    Only browsers send these headers, and a page cannot forge them.
    """
    site = fields.get("sec-fetch-site", "none")
    is_link = (fields.get("sec-fetch-mode"), fields.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    if site in ("none", "same-origin") or is_link:
        return None
    return Refusal(403, "not for the pages of other sites")


def _body(fields: Mapping[str, list[str]]) -> Refusal | None:
    lengths = fields.get("content-length", ["0"])
    if "transfer-encoding" in fields or any(length.strip("0 ") for length in lengths):
        return Refusal(413, "no request here has a body")
    return None


def origin_form(scope: Scope) -> Scope:
    """A request to a proxy names the whole URL, and the name in that counts. Source: RFC 9112."""
    scheme, found, rest = scope["path"].partition("://")
    if not found or scheme.lower() not in ("http", "https"):
        return scope
    host, _, path = rest.partition("/")
    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
    named = (b"host", host.encode("latin-1", "replace"))
    whole = f"/{path}"
    return {**scope, "path": whole, "raw_path": whole.encode(), "headers": [*others, named]}


def _too_long(scope: Scope) -> Refusal | None:
    """What comes at once is whole before its parser counts it."""
    line = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"])
    size = line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size <= HEADERS_BYTES:
        return None
    return Refusal(431, f"a request's line and headers are {HEADERS_BYTES >> 10} KiB at most")


def answer(path: str, refused: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal as it is sent: JSON under /api, one line of text elsewhere."""
    if path.startswith("/api/"):
        body, form = json.dumps({"error": refused.line}) + "\n", "application/json"
    else:
        body, form = refused.line + "\n", "text/plain"
    response = Response(body, refused.status, dict(headers or {}), form)
    if refused.status == 401:
        for challenge in CHALLENGES:
            response.headers.append("WWW-Authenticate", challenge)
    if refused.status == 413:
        response.headers["Connection"] = "close"  # or the body would be read to its end
    return response


class Guarded:
    """An application behind a guard: the guard's answer first, its headers on every answer."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. What fails inside is one line in the log and a 500."""
        started = False

        async def send_safely(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                date = (b"date", formatdate(usegmt=True).encode())
                message["headers"] = [*message["headers"], *RAW_SAFE_HEADERS, date]
            await send(message)

        scope = origin_form(scope)
        path = scope["path"]
        refused = _too_long(scope) or self._guard.refusal(path, scope["headers"])
        try:
            await (answer(path, refused) if refused else self._app)(scope, receive, send_safely)
        except asyncio.CancelledError:
            if not started:
                again = {"Retry-After": str(RETRY_SECONDS)}
                ends = Refusal(503, "nodecheck is about to end")
                await answer(path, ends, again)(scope, receive, send_safely)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the next request is answered
            line = " ".join(f"{path!a}: {type(error).__name__}: {error}".split())
            log.error(line)  # noqa: TRY400 - a line, no trace
            if not started:
                failed = Refusal(500, "this could not be answered; the log says why")
                await answer(path, failed)(scope, receive, send_safely)
