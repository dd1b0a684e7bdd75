"""The API's document, OpenAPI 3.1: the routes, and the types that are served. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

SPANS = ("1d", "7d", "30d", "90d", "365d")
"""How far back a history may be asked for: few, so that few are made."""

DEFAULT_SPAN = "30d"

JSON, TEXT = "application/json", "text/plain"
ABOUT = (
    "What nodecheck knows of this node. Nothing here starts a measurement. Every path answers GET "
    "and HEAD; a path that is not listed is answered with 404."
)

_Object = dict[str, Any]


class _Route(NamedTuple):
    """What one path answers. `schema` is what a component is called, or a schema."""

    path: str
    name: str
    about: str
    form: str
    schema: str | _Object
    has_tag: bool = True
    is_open: bool = False
    parameters: tuple[_Object, ...] = ()


_STRING: _Object = {"type": "string"}

_SINCE: _Object = {
    "name": "since",
    "in": "query",
    "description": "How far back.",
    "schema": {"type": "string", "enum": list(SPANS), "default": DEFAULT_SPAN},
}

ROUTES = (
    _Route("/", "page", "The page to look at.", "text/html", _STRING),
    _Route("/live.js", "script", "What keeps the page up to date.", "text/javascript", _STRING),
    _Route("/metrics", "metrics", "For Prometheus: text format 0.0.4.", TEXT, _STRING, False),
    _Route("/healthz", "alive", "Whether the daemon works.", TEXT, _STRING, False, True),
    _Route("/readyz", "ready", "Whether there is a report of now.", TEXT, _STRING, False, True),
    _Route("/api/v1/report", "report", "The last report.", JSON, "Report"),
    _Route(
        "/api/v1/history",
        "history",
        "What changed, what drifted, when a disk is full, which counters grew.",
        JSON,
        "History",
        parameters=(_SINCE,),
    ),
    _Route("/api/v1/findings", "findings", "The verdict and its findings.", JSON, "Findings"),
    _Route("/api/v1/openapi.json", "document", "This document.", JSON, {"type": "object"}),
)

ERRORS = {
    400: "The request is not one, or asks for what there is not.",
    401: "A token is needed.",
    403: "A page of another site asks.",
    405: "Another method than GET and HEAD.",
    413: "The request has a body.",
    421: "The Host header is not a name of this node.",
    431: "The request's line and headers are too long.",
    500: "A fault of nodecheck's own.",
    503: "There is no answer yet, or it could not be made.",
}

_HEADERS: dict[int, _Object] = {
    401: {"WWW-Authenticate": {"required": True, "schema": _STRING}},
    405: {"Allow": {"required": True, "schema": _STRING}},
    503: {"Retry-After": {"schema": {"type": "integer", "description": "Seconds."}}},
}

_TAG: _Object = {"ETag": {"required": True, "schema": _STRING}}

_IF_NONE_MATCH: _Object = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of an answer that is at hand: 304 where it is still the same.",
    "schema": _STRING,
}


def document(version: str) -> _Object:
    """The document of this version of nodecheck."""
    import msgspec

    from nodecheck.daemon.findings import Findings
    from nodecheck.records.history.history import History
    from nodecheck.report import Report

    _, types = msgspec.json.schema_components(
        (Report, History, Findings), ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "nodecheck", "version": version, "description": ABOUT},
        "servers": [{"url": "/"}],
        "paths": {route.path: _path(route) for route in ROUTES},
        "components": {
            "schemas": {**types, "Error": _error()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "The token as password, with any name: for browsers.",
                },
            },
        },
        # none is needed where the daemon was given no token
        "security": [{"token": []}, {"password": []}, {}],
    }


def _error() -> _Object:
    return {
        "type": "object",
        "properties": {"error": {"type": "string", "description": "One line."}},
        "required": ["error"],
        "additionalProperties": False,
    }


def _path(route: _Route) -> _Object:
    tagged = (_IF_NONE_MATCH,) if route.has_tag else ()
    operation: _Object = {
        "operationId": route.name,
        "summary": route.about,
        "parameters": [*route.parameters, *tagged],
        "responses": _responses(route),
        **({"security": []} if route.is_open else {}),
    }
    head = {
        **operation,
        "operationId": f"{route.name}Head",
        "responses": {
            status: {k: v for k, v in each.items() if k != "content"}
            for status, each in operation["responses"].items()
        },
    }
    return {"get": operation, "head": head}


def _responses(route: _Route) -> _Object:
    schema = route.schema
    if isinstance(schema, str):
        schema = {"$ref": f"#/components/schemas/{schema}"}
    answer: _Object = {"description": route.about, "content": {route.form: {"schema": schema}}}
    responses: _Object = {"200": {**answer, **({"headers": _TAG} if route.has_tag else {})}}
    if route.has_tag:
        responses["304"] = {"description": "It is still the same.", "headers": _TAG}
    for status in ERRORS:
        if status != 401 or not route.is_open:
            responses[str(status)] = _refusal(status, route)
    return responses


def _refusal(status: int, route: _Route) -> _Object:
    content: _Object = {TEXT: {"schema": _STRING}}
    if route.path.startswith("/api/"):
        error: _Object = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
        # what is no HTTP at all is refused before its path is read
        content = {**error, **content} if status == 400 else error
    headers = {"headers": _HEADERS[status]} if status in _HEADERS else {}
    return {"description": ERRORS[status], **headers, "content": content}
