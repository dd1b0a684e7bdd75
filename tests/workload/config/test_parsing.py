from __future__ import annotations

import math

import pytest

from nodecheck.workload.config.parsing import parse
from nodecheck.workload.errors import WorkloadError


def test_a_byte_order_mark_is_taken() -> None:
    assert parse(b"\xef\xbb\xbf" + b'{"hidden_size": 1}', "config.json") == {"hidden_size": 1}


def test_bare_infinity_and_nan_are_taken() -> None:
    """Nemotron-H's own file has the former."""
    read = parse(b'{"time_step_limit": [0.0, Infinity], "x": NaN}', "config.json")
    assert read["time_step_limit"] == [0.0, math.inf]


def test_the_last_of_two_keys_wins() -> None:
    assert parse(b'{"a": 1, "a": 2}', "config.json") == {"a": 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "config.json is no JSON: Expecting value at line 1 column 1"),
        (b'{"a": 1', "config.json is no JSON: Expecting ',' delimiter at line 1 column 8"),
        (b"<!DOCTYPE html>", "config.json is no JSON: Expecting value at line 1 column 1"),
        (b'{"a": "\xff"}', "config.json is no UTF-8 text: byte 7"),
        (b"[1]", "config.json holds a list [1], not an object"),
        (b'"text"', "config.json holds a string text, not an object"),
        (b"null", "config.json holds the value None, not an object"),
        (b'{"a": ' * 101 + b"1" + b"}" * 101, "config.json nests deeper than 100"),
        (b"[" * 10_000 + b"]" * 10_000, "config.json nests deeper than 100"),
        (b'{"a":' * 100_000, "config.json nests deeper than 100"),
        (b"[" + b"1," * 300_000 + b"1]", "config.json holds over 300,000 values"),
    ],
)
def test_what_is_no_configuration_is_refused_in_one_line(text: bytes, said: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        parse(text, "config.json")
    assert str(refused.value) == said


def test_a_hundred_levels_are_taken() -> None:
    assert parse(b'{"a": ' * 99 + b"{}" + b"}" * 99, "config.json")


def test_a_number_of_a_million_digits_costs_nothing() -> None:
    assert parse(b'{"a": ' + b"9" * 1_000_000 + b"}", "config.json") == {"a": math.inf}
