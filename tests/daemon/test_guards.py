"""Who may ask, and what every answer carries."""

from __future__ import annotations

import asyncio
import base64
import os

import pytest

from nodecheck.daemon.guards import HEADERS_BYTES, SAFE_HEADERS, Guard, host_name, is_token
from tests.daemon.served import served, statuses, tree_pass

TOKEN = "correct horse battery staple"


def refused(guard: Guard, path: str = "/metrics", **headers: str) -> int | None:
    """The status of a refusal; None where the request may be answered."""
    named = {"host": "127.0.0.1:9742", **headers}
    fields = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in named.items()]
    told = guard.refusal(path, fields)
    return None if told is None else told.status


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9742",
        "[::1]:9742",
        "[::1]",
        "10.1.2.3:80",
        "localhost:9742",
        "LOCALHOST",
        "localhost.",
        "localhost:",
        "127.0.0.1:",
        "[::1]:",
        "fe80::",
        "gpu7.example:9742",
        "GPU7.Example.",
        "listened",
        os.uname().nodename,
        os.uname().nodename.partition(".")[0] + ":1",
    ],
)
def test_names_of_this_node(host: str) -> None:
    assert refused(Guard("listened", ("gpu7.example",)), host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:9742",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example",
        "gpu7.example.attacker.example",
        "notgpu7.example",
        "[::1].attacker.example",
        "127.0.0.1@attacker.example",
        "attacker.example#127.0.0.1",
        os.uname().nodename + ".attacker.example",
        "2130706433",
        "::1]",
        "[::1]]",
        "[localhost",
        "[::1]x:1",
        ":9742",
        ":",
        "attacker.example:",
    ],
)
def test_names_that_may_have_been_pointed_here(host: str) -> None:
    assert refused(Guard("127.0.0.1", ("gpu7.example",)), host=host) == 421


def test_a_node_that_knows_its_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = os.uname()
    node = os.uname_result((known[0], "GPU7.cluster.example", *known[2:]))
    monkeypatch.setattr(os, "uname", lambda: node)
    statuses = [
        refused(Guard("127.0.0.1"), host=host)
        for host in ("gpu7.cluster.example:1", "gpu7", "gpu7.cluster", "gpu7.attacker.example")
    ]
    assert statuses == [None, None, 421, 421]


def test_one_host_is_needed() -> None:
    guard = Guard("127.0.0.1")
    missing = guard.refusal("/", [])
    doubled = guard.refusal("/", [(b"host", b"localhost"), (b"host", b"localhost")])
    empty = guard.refusal("/", [(b"host", b" ")])
    assert [told.status for told in (missing, doubled, empty) if told] == [400, 400, 400]
    assert guard.refusal("/readyz", []) is None  # HTTP/1.0, as load balancers ask
    assert guard.refusal("/readyz", [(b"host", b"")])


def test_ports_are_taken_off() -> None:
    assert host_name("[FE80::1]:99") == "fe80::1"
    assert host_name("node:99") == "node"
    assert host_name("node:no") == "node:no"


def basic(password: str, user: str = "any") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic(TOKEN)])
def test_the_token_opens(given: str) -> None:
    assert refused(Guard("127.0.0.1", token=TOKEN), authorization=given) is None


@pytest.mark.parametrize(
    "given",
    [
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Digest {TOKEN}",
        "Basic",
        "Basic !!!",
        f"{basic(TOKEN)}!",
        "Basic " + base64.b64encode(TOKEN.encode()).decode(),
        basic(TOKEN.upper()),
        basic(TOKEN, user=f"{TOKEN}:{TOKEN}"),
        "Bearer \xff\xfe",
        "Basic \xff\xfe",
    ],
)
def test_nothing_else_opens(given: str) -> None:
    assert refused(Guard("127.0.0.1", token=TOKEN), authorization=given) == 401


def test_a_token_of_any_letters() -> None:
    assert is_token(basic("Schlüssel"), "Schlüssel")
    assert not is_token(basic("Schlussel"), "Schlüssel")


def test_an_empty_token_is_not_opened_by_nothing() -> None:
    assert refused(Guard("127.0.0.1", token=TOKEN), authorization=basic("")) == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(path: str) -> None:
    guard = Guard("127.0.0.1", token=TOKEN)
    assert refused(guard, path) is None
    assert refused(guard, path, host="attacker.example") == 421
    assert refused(guard, f"{path}/") == 401


@pytest.mark.parametrize(
    ("site", "mode", "destination", "status"),
    [
        ("none", "navigate", "document", None),
        ("same-origin", "cors", "empty", None),
        ("cross-site", "navigate", "document", None),
        ("cross-site", "no-cors", "image", 403),
        ("cross-site", "cors", "empty", 403),
        ("same-site", "no-cors", "script", 403),
        ("cross-site", "navigate", "iframe", 403),
    ],
)
def test_other_sites_may_link_here_but_load_nothing(
    site: str, mode: str, destination: str, status: int | None
) -> None:
    headers = {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": destination}
    assert refused(Guard("127.0.0.1"), **headers) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_length": "0"}, None),
        ({"content_length": "1"}, 413),
        ({"content_length": "10000000000"}, 413),
        ({"transfer_encoding": "chunked"}, 413),
    ],
)
def test_bodies_are_refused(headers: dict[str, str], status: int | None) -> None:
    assert refused(Guard("127.0.0.1"), **headers) == status


def carries_all(headers: dict[str, str]) -> None:
    assert {k: headers.get(k.lower()) for k in SAFE_HEADERS} == SAFE_HEADERS
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers
    assert "x-powered-by" not in headers
    assert headers["date"].endswith("GMT")


@pytest.fixture
def guarded() -> Guard:
    return Guard("127.0.0.1", token=TOKEN)


def test_every_answer_carries_them(guarded: Guard) -> None:
    with served(tree_pass(), guard=guarded) as its:
        told = {
            its.ask("/healthz").status: its.ask("/healthz"),
            401: its.ask("/metrics"),
            404: its.ask("/nothing", Authorization=f"Bearer {TOKEN}"),
            405: its.ask("/healthz", "POST"),
            421: its.ask("/", Host="attacker.example"),
        }
    for status, answer in told.items():
        assert answer.status == status
        carries_all(answer.headers)


def test_no_origin_is_let_in(guarded: Guard) -> None:
    with served(tree_pass(), guard=guarded) as its:
        asked = {"Origin": "https://attacker.example", "Access_Control_Request_Method": "GET"}
        answers = [its.ask("/healthz", method, **asked) for method in ("GET", "OPTIONS")]
    assert [answer.status for answer in answers] == [200, 405]
    for answer in answers:
        carries_all(answer.headers)


def test_a_refusal_for_want_of_a_token_says_how(guarded: Guard) -> None:
    with served(tree_pass(), guard=guarded) as its:
        answer = its.ask("/api/v1/report")
        page = its.ask("/api/v1/report", Authorization=basic(TOKEN))
    assert answer.status == 401
    assert answer.body == b'{"error": "a token is needed: Authorization: Bearer TOKEN"}\n'
    assert answer.headers["www-authenticate"] == (
        'Bearer realm="nodecheck", Basic realm="nodecheck", charset="UTF-8"'
    )
    assert page.status == 200


def test_a_guard_may_be_changed_while_it_stands(guarded: Guard) -> None:
    with served(tree_pass(), guard=guarded) as its:
        assert its.ask("/metrics").status == 401
        guarded.token = None
        assert its.ask("/api/v1/report").status == 200
        assert its.ask("/api/v1/report", Host="late.example").status == 421
        guarded.hosts = ("late.example",)
        assert its.ask("/api/v1/report", Host="late.example").status == 200


async def broken(*_: object) -> bytes:
    raise ZeroDivisionError("of\nall things")


def test_a_fault_of_ours_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with served(tree_pass(), make=broken) as its:
        answer = its.ask("/api/v1/openapi.json")
        assert its.ask("/healthz").status == 200
    assert answer.status == 500
    assert answer.body == b'{"error": "this could not be answered; the log says why"}\n'
    carries_all(answer.headers)
    [record] = [each for each in caplog.records if each.name.startswith("nodecheck")]
    assert record.getMessage() == ("'/api/v1/openapi.json': ZeroDivisionError: of all things")


async def cancelled(*_: object) -> bytes:
    raise asyncio.CancelledError


def test_who_is_asked_while_nodecheck_ends_says_so() -> None:
    with served(tree_pass(), make=cancelled) as its:
        answer = its.ask("/api/v1/openapi.json")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert answer.body == b'{"error": "nodecheck is about to end"}\n'
    carries_all(answer.headers)


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://localhost:9742/healthz", b"attacker.example", 200),
        (b"HTTP://localhost/healthz", b"localhost", 200),
        (b"http://localhost/nothing", b"localhost", 404),
        (b"http://attacker.example/healthz", b"localhost", 421),
        (b"http://localhost@attacker.example/healthz", b"localhost", 421),
        (b"ftp://localhost/healthz", b"localhost", 404),
    ],
)
def test_a_target_may_be_a_whole_url(target: bytes, host: bytes, status: int) -> None:
    """Its name is the one that counts."""
    with served(tree_pass()) as its:
        told = its.say(
            b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
        )
    assert statuses(told) == [status]


@pytest.mark.parametrize("where", ["path", "query", "header", "headers"])
def test_a_request_may_be_so_long(where: str) -> None:
    def asked(size: int) -> list[int]:
        target, fields = b"/healthz", b""
        if where == "path":
            target = b"/" + b"x" * size
        elif where == "query":
            target += b"?" + b"x" * size
        elif where == "header":
            fields = b"X: " + b"x" * size + b"\r\n"
        else:
            fields = b"X: y\r\n" * (size // 6)
        last = b"Host: localhost\r\nConnection: close\r\n\r\n"
        return statuses(its.say(b"GET " + target + b" HTTP/1.1\r\n" + fields + last))

    with served(tree_pass()) as its:
        assert asked(HEADERS_BYTES - 200) == [404 if where == "path" else 200]
        assert asked(HEADERS_BYTES) == [431]
