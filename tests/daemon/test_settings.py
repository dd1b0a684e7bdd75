"""What a configuration may say, and what is said of one that cannot be used."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.daemon import settings
from nodecheck.daemon.settings import (
    Settings,
    SettingsError,
    changed,
    check,
    is_loopback,
    parse_listen,
    parse_settings,
)

ALL = """
listen = "[::1]:9000"
interval = "2m"
kernels = "1d"
token_file = "/etc/nodecheck/token"
hosts = ["node7.example.org", "node7"]
policy = "serving"
"""


def test_every_setting_is_read() -> None:
    assert parse_settings(ALL, "f") == Settings(
        listen="[::1]:9000",
        interval_seconds=120,
        kernels_interval_seconds=86_400,
        token_file="/etc/nodecheck/token",
        hosts=("node7.example.org", "node7"),
        policy="serving",
    )
    assert parse_settings(ALL, "f").address == ("::1", 9000)


def test_what_is_not_said_stays_as_it_is() -> None:
    assert parse_settings("", "f") == Settings()
    assert parse_settings('kernels = "never"', "f").kernels_interval_seconds is None


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('intervall = "60s"', "f: there is no setting 'intervall'; there are listen, interval,"),
        ('interval = "soon"', "f: interval: 'soon' is no span of time; write it as 60s or 6h"),
        ("interval = 60", "f: interval: must be a text in quotes"),
        ('interval = "9s"', "f: interval: '9s' is not between 10s and 604800s"),
        ('kernels = "5m"', "f: kernels: '5m' is not between 600s and 604800s"),
        ('kernels = "99999w"', "f: kernels: '99999w' is no span"),
        ('listen = "127.0.0.1"', "f: listen: '127.0.0.1' is no address and port"),
        ('listen = "::1:80"', "f: listen: '::1:80' is no address and port"),
        ('listen = "127.0.0.1:65536"', "f: listen: '127.0.0.1:65536' is no address and port"),
        ('hosts = "one"', "f: hosts: must be a list of texts"),
        ("hosts = [1]", "f: hosts: must be a list of texts"),
        ('hosts = [""]', "f: hosts: is empty"),
        ('policy = ["a"]', "f: policy: must be a text in quotes"),
        ('token_file = " "', "f: token_file: is empty"),
        ("[listen]", "f: listen: must be a text in quotes"),
        ("listen =", "f: not TOML: "),
        ("a = " + "[" * 5000, "f: not TOML: "),
    ],
)
def test_one_line_says_what_is_wrong(toml: str, says: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_settings(toml, "f")
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)


@given(st.text())
def test_any_text_is_settings_or_one_error(toml: str) -> None:
    with contextlib.suppress(SettingsError):
        check(parse_settings(toml, "f"))


def test_the_command_line_comes_first() -> None:
    file = parse_settings(ALL, "f")
    assert changed(file, listen=None, interval=None, policy=None) == file
    mine = changed(file, listen="127.0.0.1:1", interval="30s", policy="p.toml")
    assert (mine.listen, mine.interval_seconds, mine.policy) == ("127.0.0.1:1", 30, "p.toml")
    assert mine.hosts == file.hosts
    with pytest.raises(SettingsError, match=r"^--interval: '1s' is not between"):
        changed(file, listen=None, interval="1s", policy=None)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    at = f"[{host}]:1" if ":" in host else f"{host}:1"
    assert check(Settings(listen=at)).address == (host, 1)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "node7", "localhost.example.org"])
def test_elsewhere_a_token_is_needed(host: str) -> None:
    at = f"[{host}]:1" if ":" in host else f"{host}:1"
    with pytest.raises(SettingsError, match=f"listening on {host} needs a token"):
        check(Settings(listen=at))
    check(Settings(listen=at, token_file="t"))


def test_a_port_of_0_is_a_free_one() -> None:
    assert parse_listen("127.0.0.1:0") == ("127.0.0.1", 0)


def test_the_document_shows_what_holds_unless_it_is_set() -> None:
    text = (Path(__file__).parents[2] / "docs" / "daemon.md").read_text()
    block = text.partition("```toml\n")[2].partition("```")[0]
    assert parse_settings(block, "f") == Settings()
    named = re.findall(r"^(?:# )?(\w+) = ", block, re.MULTILINE)
    assert sorted(named) == sorted(settings._KEYS)
    all_set = parse_settings(block.replace("\n# ", "\n"), "f")
    assert (all_set.token_file, all_set.policy) == (
        "/etc/nodecheck/token", "/etc/nodecheck/policy.toml",
    )  # fmt: skip
