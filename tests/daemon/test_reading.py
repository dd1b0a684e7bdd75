"""What the daemon is told: configuration, policy, token, and the address of a name."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import click
import pytest

from nodecheck.daemon import reading
from nodecheck.daemon.loaded import Loaded, Request
from nodecheck.daemon.reading import load

TOKEN = "0123456789abcdef0123456789abcdef"


def config(place: Path, text: str) -> Request:
    file = place / "daemon.toml"
    file.write_text(text)
    return Request(config=str(file))


def refused(request: Request) -> str:
    with pytest.raises(click.ClickException) as error:
        load(request)
    return error.value.format_message()


@pytest.fixture(autouse=True)
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text("name = 'mine'\n")
    monkeypatch.setenv("NODECHECK_POLICY", str(file))
    return file


@pytest.mark.parametrize("bound", ["0.0.0.0", "10.1.2.3", "::"])
def test_without_a_token_nothing_is_taken_while_others_can_ask(tmp_path: Path, bound: str) -> None:
    asked = config(tmp_path, 'listen = "127.0.0.1:1"\n')
    again = Request(config=asked.config, bound=("127.0.0.1", bound))
    assert refused(again) == (
        f"{bound} is listened on until the next start, which needs a token: name its file, "
        "token_file, in the configuration, or restart to listen on 127.0.0.1:1"
    )
    assert load(Request(config=asked.config, bound=("127.0.0.1", "::1"))).token is None
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with_token = config(tmp_path, f'listen = "127.0.0.1:1"\ntoken_file = "{tmp_path}/token"\n')
    assert load(Request(config=with_token.config, bound=(bound,))).token == TOKEN


def of(listen: str) -> Loaded:
    return load(Request(listen=listen))


def test_the_addresses_of_a_name() -> None:
    assert of("127.0.0.1:1").addresses == ("127.0.0.1",)
    assert of("[::1]:1").addresses == ("::1",)
    assert set(of("localhost:1").addresses) <= {"127.0.0.1", "::1"}


def test_a_name_that_is_none_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", none)
    told = refused(Request(listen="localhost:9742"))
    assert told == "cannot listen on localhost:9742: Name or service not known"


def test_a_name_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(60))
    monkeypatch.setattr(reading, "RESOLVE_SECONDS", 0.3)
    told = refused(Request(listen="localhost:9742"))
    assert told == "cannot listen on localhost:9742: no answer within 0.3 s"


def test_what_is_listened_on_already_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(60))
    assert load(Request(listen="localhost:1", bound=("::1",))).addresses == ("::1",)


def test_too_long_a_policy_or_configuration_is_told_by_its_name(
    tmp_path: Path, policy: Path
) -> None:
    policy.write_text("# long\n" * 200_000)
    for asked in (Request(), Request(policy=str(policy))):
        assert refused(asked) == f"{policy}: longer than {reading.POLICY_BYTES} bytes"
    long = config(tmp_path, "a." * 200_000 + "a = 1")
    assert refused(long) == f"{long.config}: longer than {reading.CONFIG_BYTES} bytes"


def test_the_slowest_configuration_is_read_in_time(tmp_path: Path) -> None:
    slow = config(tmp_path, "a." * (reading.CONFIG_BYTES // 2 - 10) + "a = 1")
    started = time.monotonic()
    assert "there is no setting 'a'" in refused(slow)
    assert time.monotonic() - started < 20
