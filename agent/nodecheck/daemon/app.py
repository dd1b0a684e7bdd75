"""What the daemon answers: routes over the board. No request starts a measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nodecheck.daemon.board import Board
from nodecheck.daemon.findings import staled
from nodecheck.daemon.guards import RETRY_SECONDS, Guard, Guarded, Refusal, answer
from nodecheck.daemon.made import MakingError
from nodecheck.daemon.openapi import DEFAULT_SPAN, SPANS
from nodecheck.daemon.passes import Pass

HANGS_SECONDS = 30.0
"""The loop goes round six times as often, or it hangs. Source: TURN_SECONDS of daemon/loop.py."""

JSON, TEXT, HTML = "application/json", "text/plain", "text/html"
METRICS = "text/plain; version=0.0.4"
"""Source: Prometheus' text format."""

SCRIPT = "text/javascript"

STALE_STEP_SECONDS = 60
"""A page says how old its report is to the minute, so that one page serves for a minute."""

Make = Callable[[str, bytes], Awaitable[bytes]]


def make_app(board: Board, guard: Guard, own_metrics: Callable[[], bytes], make: Make) -> Starlette:
    """The application: `own_metrics` are the daemon's own series, `make` is Making."""
    answers = _Answers(board, own_metrics, make)
    routes = {
        "/": answers.page,
        "/live.js": answers.script,
        "/metrics": answers.metrics,
        "/healthz": answers.alive,
        "/readyz": answers.ready,
        "/api/v1/report": answers.report,
        "/api/v1/history": answers.history,
        "/api/v1/findings": answers.findings,
        "/api/v1/openapi.json": answers.document,
    }
    app = Starlette(
        routes=[Route(path, endpoint) for path, endpoint in routes.items()],
        middleware=[Middleware(Guarded, guard=guard)],
        exception_handlers={HTTPException: _no_such},
    )
    app.router.redirect_slashes = False
    return app


class _Answers:
    """An answer to each route, from what the board holds now."""

    def __init__(self, board: Board, own_metrics: Callable[[], bytes], make: Make) -> None:
        self._board = board
        self._own_metrics = own_metrics
        self._make = make

    async def page(self, request: Request) -> Response:
        what, latest = "page", self._board.latest
        age = self._board.age_seconds
        if age is not None and not self._board.is_fresh:
            what += f" --stale {int(age) // STALE_STEP_SECONDS * STALE_STEP_SECONDS}"
        return await self._made(request, what, b"" if latest is None else latest.report, HTML)

    async def script(self, request: Request) -> Response:
        return _found(request, _script(), SCRIPT)

    async def metrics(self, _: Request) -> Response:
        from nodecheck.render.prometheus import unknown

        latest = self._fresh()
        series = unknown() if latest is None else latest.metrics
        return Response(series + self._own_metrics(), media_type=METRICS)

    async def alive(self, request: Request) -> Response:
        since = self._board.seconds_since_turn
        if since > HANGS_SECONDS:
            return _not_now(request, f"the loop hangs for {since:.0f} s")
        return Response("ok\n", media_type=TEXT)

    async def ready(self, request: Request) -> Response:
        if self._board.latest is None:
            return _not_now(request, "no report yet")
        if not self._board.is_fresh:
            return _not_now(request, f"the last report is of {self._board.latest.time}")
        return Response("ok\n", media_type=TEXT)

    async def report(self, request: Request) -> Response:
        latest = self._board.latest
        if latest is None:
            return _not_now(request, "no report yet")
        return _found(request, latest.report, JSON)

    async def findings(self, request: Request) -> Response:
        latest = self._board.latest
        if latest is None:
            return _not_now(request, "no report yet")
        now = latest.findings if self._board.is_fresh else staled(latest.findings)
        return _found(request, now, JSON)

    async def history(self, request: Request) -> Response:
        asked = request.query_params.multi_items()
        span = asked[0][1] if asked else DEFAULT_SPAN
        if len(asked) > 1 or (asked and asked[0][0] != "since") or span not in SPANS:
            return _refused(request, 400, f"only since={'|'.join(SPANS)} may be asked")
        latest = self._board.latest
        return await self._made(
            request, f"history {span}", b"" if latest is None else latest.report, JSON
        )

    async def document(self, request: Request) -> Response:
        return await self._made(request, "openapi", b"", JSON)

    def _fresh(self) -> Pass | None:
        return self._board.latest if self._board.is_fresh else None

    async def _made(self, request: Request, what: str, report: bytes, form: str) -> Response:
        try:
            made = await self._make(what, report)
        except MakingError as error:
            if error.lasts:
                return _refused(request, 503, str(error))
            return _not_now(request, str(error))
        return _found(request, made, form)


@lru_cache(maxsize=4)
def _tag(body: bytes) -> str:
    """An answer's entity tag: the same where its bytes are."""
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


@lru_cache(maxsize=1)
def _script() -> bytes:
    return resources.files("nodecheck.render").joinpath("templates/live.js").read_bytes()


def _found(request: Request, body: bytes, form: str) -> Response:
    """An answer, or word that who asks has it."""
    tag = _tag(body)
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or tag in (
        each.strip().removeprefix("W/") for each in known.split(",")
    ):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, headers={"ETag": tag}, media_type=form)


def _refused(request: Request, status: int, line: str) -> Response:
    return answer(request.url.path, Refusal(status, line))


def _not_now(request: Request, line: str) -> Response:
    retry = {"Retry-After": str(RETRY_SECONDS)}
    return answer(request.url.path, Refusal(503, line), retry)


async def _no_such(request: Request, error: Exception) -> Response:
    """Starlette's own refusals: no such path, or another method than GET and HEAD."""
    assert isinstance(error, HTTPException)
    lines = {404: "there is no such page; docs/http.md lists them", 405: "only GET and HEAD"}
    refused = Refusal(error.status_code, lines.get(error.status_code, error.detail))
    return answer(request.url.path, refused, error.headers)
