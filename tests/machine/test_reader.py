from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import CPU_LIMIT, Reader, parse_list
from nodecheck.model import Reason
from nodecheck.units import ranges
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", ()),
        ("\n", ()),
        ("0", (0,)),
        ("0-3,8\n", (0, 1, 2, 3, 8)),
        (" 4 , 1-2 \0", (1, 2, 4)),
        ("3,3,3", (3,)),
    ],
)
def test_the_kernels_lists(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_list(text) == numbers


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "3-1", "1-2-3", "0-4294967295", "0x1", "1;2", "9" * 5000, "0-3:1/2"]
)
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is int()'s or ours
        parse_list(text)


@given(st.sets(st.integers(0, CPU_LIMIT), max_size=50))
def test_lists_round_trip(numbers: set[int]) -> None:
    assert parse_list(ranges(numbers)) == tuple(sorted(numbers))


@given(st.text(max_size=40))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    try:
        numbers = parse_list(text)
    except ValueError:
        return
    assert all(0 <= number <= CPU_LIMIT for number in numbers)


def test_values(node: Node) -> None:
    reader = Reader(node({"a": " 12\n\0", "b": "text\n", "c": "0-1"}), "cpu")
    assert reader.integer("/a", "a") == 12
    assert reader.text("/b", "b") == "text"
    assert reader.numbers("/c", "c") == (0, 1)
    assert reader.names("/") == ("a", "b", "c")
    assert reader.gaps == []


def test_what_is_missing_is_a_gap_only_where_it_is_wanted(node: Node) -> None:
    reader = Reader(node({"a": "1"}), "cpu")
    assert reader.integer("/none", None) is None
    assert reader.names("/none") == ()
    assert reader.command(("none",), None) is None
    assert reader.gaps == []
    assert reader.integer("/none", "n") is None
    assert reader.text("/none", "t") is None
    assert reader.numbers("/none", "l") is None
    assert reader.names("/none", "d") == ()
    assert reader.command(("none",), "c") is None
    assert [gap.field for gap in reader.gaps] == ["n", "t", "l", "d", "c"]
    assert {gap.reason for gap in reader.gaps} == {Reason.ABSENT}
    assert {gap.check for gap in reader.gaps} == {"cpu"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        "Unknown",
        "1.5",
        "0x10",
        "1 2",
        "9" * 5000,
        str(1 << 63),
        "-" + str(1 << 64),
        b"\xff\x00",
    ],
)
def test_what_is_no_number_is_a_gap(content: str | bytes, node: Node) -> None:
    reader = Reader(node({"a": content}), "cpu")
    assert reader.integer("/a", "a") is None
    assert [(gap.reason, gap.detail[:3]) for gap in reader.gaps] == [(Reason.FAILED, "/a:")]


def test_a_list_that_is_none_is_a_gap(node: Node) -> None:
    reader = Reader(node({"a": "x-y"}), "cpu")
    assert reader.numbers("/a", "a") is None
    assert reader.gaps[0].detail == "/a: 'x-y' is no list of numbers"


def test_a_command_keeps_its_status(node: Node) -> None:
    reader = Reader(node({"cmd/tool_-x.txt": "out", "cmd/tool_-x.rc": "3\n"}), "cpu")
    output = reader.command(("tool", "-x"), "c")
    assert output is not None
    assert (output.status, output.text) == (3, "out")
