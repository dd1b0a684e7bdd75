"""Sizes, rates, spans of time and links, as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.quantities import (
    QuantityError,
    parse_link,
    parse_rate,
    parse_size,
    parse_span,
    write_rate,
    write_size,
    write_span,
)
from nodecheck.units import GIB

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "size"),
    [("10GiB", 10 * GIB), ("500 MB", 500_000_000), ("1.5TiB", 3 * 2**39), ("7", 7), ("2KiB", 2048)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "rate"),
    [("40GB/s", 40e9), ("900 MiB/s", 900 * 2**20), ("0.5 GB/s", 5e8), (" 7B/s ", 7)],
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("1.5 h", 5400), ("400d", 400 * DAY), ("8w", 56 * DAY)],
)
def test_spans(text: str, seconds: int) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize(
    ("text", "link"), [("gen4x16", (4, 16)), ("gen1x1", (1, 1)), ("gen6x2", (6, 2))]
)
def test_links(text: str, link: tuple[int, int]) -> None:
    assert parse_link(text) == link


@pytest.mark.parametrize(
    ("parse", "noun", "texts"),
    [
        (parse_size, "is no size", "|GiB|-1GiB|1e9|10 gallons|3T|0x10|1GB/s|iB|nan|1٣GB"),
        (parse_rate, "is no rate", "|40|40GB|40GB/h|40 GB / s|/s|-1GB/s|40G/s|infGB/s|40GBps"),
        (parse_span, "is no span", "|30|30D|-1d|1y|P30D|2d12h|1e3s|30 days"),
        (parse_link, "is no PCIe link", "|gen4|x16|gen0x16|gen4x3|gen8x16|Gen4x16|gen4x16 |4x16"),
    ],
)
def test_what_is_none_is_named_in_one_line(
    parse: Callable[[str], object], noun: str, texts: str
) -> None:
    for text in texts.split("|"):
        with pytest.raises(QuantityError, match=f"^{text[:40]!r} {noun}.*; write it as [^\n]*$"):
            parse(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_size, "9999999TB"), (parse_rate, "9999999TB/s"), (parse_span, f"{10**400}s")],
)
def test_more_than_can_be_meant_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(QuantityError, match="more than can be meant"):
        parse(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(10 * GIB, "10GiB"), (200 * 10**9, "200GB"), (round(16.3 * GIB), "16.3GiB"), (0, "0B"),
     (1_234_567, "1234567B")],
)  # fmt: skip
def test_a_size_is_written_as_short_as_it_can_be(size: int, text: str) -> None:
    assert write_size(size) == text


@given(st.integers(0, 2**50))
def test_a_size_that_is_written_reads_back(size: int) -> None:
    assert parse_size(write_size(size)) == size


@given(st.integers(0, 2**50))
def test_a_rate_that_is_written_reads_back(rate: int) -> None:
    assert parse_rate(write_rate(rate)) == rate


@given(st.integers(0, 100 * 365 * DAY))
def test_a_span_that_is_written_reads_back(seconds: int) -> None:
    assert parse_span(write_span(seconds)) == seconds
