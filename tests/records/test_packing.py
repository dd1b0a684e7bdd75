"""A report takes few bytes beside one like it, comes back as it was, and is never guessed at."""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodecheck.records.snapshots.packing import (
    ENCODING,
    WINDOW_BYTES,
    PackingError,
    pack,
    pack_whole,
    unpack,
    unpack_whole,
    whole,
)
from tests.records.large_node import large_node

NUMBERS = st.integers(-5, 2**60) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=20,
)


def text(value: Any) -> bytes:
    """JSON in which 1, 1.0 and true are told apart."""
    return json.dumps(value, sort_keys=True).encode()


def changes(earlier: Any, later: Any) -> bytes:
    return pack(whole(text(later)), [whole(text(earlier))])[1]


@given(VALUES, VALUES)
@example(1, 1.0)
@example([True, 0], [1, False])
@example({"a": None}, {})
@example({}, {"a": None})
@example([1, 2, 3], [1, 9, 2, 3])
@example([1, 1], [1])
@example([{"b": 1}], [{"b": 2}, {"b": 1}])
def test_what_is_unpacked_is_what_was_packed(earlier: Any, later: Any) -> None:
    packed = changes(earlier, later)
    assert text(unpack(packed, whole(text(earlier)))) == text(later)
    assert text(unpack_whole(pack_whole(whole(text(later)))).content) == text(later)


def test_the_nearest_of_the_earlier_ones_is_taken() -> None:
    later = whole(text({"a": "x" * 50, "b": 2}))
    others = [{"a": "y"}, {"a": "x" * 50, "b": 1}, {}]
    place, packed = pack(later, [whole(text(each)) for each in others])
    assert place == 1
    assert unpack(packed, whole(text(others[1]))) == later.content


def test_a_report_of_a_large_server_takes_what_its_own_numbers_take() -> None:
    """Longer than zlib looks back: 64 x 5 measured figures and 40 disks, all new."""
    before, after = (whole(msgspec.json.encode(large_node(seed))) for seed in (1, 2))
    assert len(after.text) > 1.5 * WINDOW_BYTES
    numbers = 64 * 5 + 40 * 2 + 8 * 4
    assert len(pack(after, [before])[1]) < 13 * numbers
    assert len(pack(before, [before])[1]) < 30


def test_a_finding_more_costs_what_it_says_and_not_what_follows_it() -> None:
    rest = [{"id": f"disk.low{number}", "summary": f"text {number**5}"} for number in range(99)]
    new = {"id": "cpu.steal", "summary": "Others take 12 % of the CPU time"}
    assert len(changes(rest, [new, *rest])) < len(text(new)) + 20


@given(st.binary(max_size=60))
@example(b"\x01")
def test_any_bytes_are_a_report_or_one_line(packed: bytes) -> None:
    for broken in (
        lambda: unpack(packed, whole(b"{}")),
        lambda: unpack_whole(packed),
    ):
        with pytest.raises(PackingError) as caught:
            broken()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", range(0, 60, 3))
def test_a_broken_byte_is_noticed(place: int) -> None:
    earlier, later = {"a": list(range(20))}, {"a": [*range(19), "ninety"], "b": "new" * 9}
    for packed, read in (
        (changes(earlier, later), lambda broken: unpack(broken, whole(text(earlier)))),
        (pack_whole(whole(text(later))), unpack_whole),
    ):
        at = place % len(packed)
        broken = packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]
        with pytest.raises(PackingError):
            read(broken)


def test_changes_to_another_report_are_noticed() -> None:
    packed = changes({"a": [1, 2]}, {"a": [1, 3]})
    with pytest.raises(PackingError):
        unpack(packed, whole(text({"a": 1})))


@pytest.mark.parametrize("patch", [b"[2,5]", b"[1,[]]", b"[9,0]", b'[2,{"7":[0,1]}]', b"{}"])
def test_changes_that_fit_nothing_are_noticed(patch: bytes) -> None:
    earlier = text({"a": 1})
    deflater = zlib.compressobj(zdict=earlier)
    packed = ENCODING + deflater.compress(patch) + deflater.flush()
    with pytest.raises(PackingError):
        unpack(packed, whole(earlier))


def test_an_encoding_to_come_is_not_guessed_at() -> None:
    packed = pack_whole(whole(b"{}"))
    with pytest.raises(PackingError, match="another version"):
        unpack_whole(b"\x02" + packed[1:])
