"""What is copied in which order, and that it ends in time."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.cuda.plan import (
    LEAST_SHARE,
    PEERS_MOST,
    Leg,
    legs,
    pairs,
    shortened,
    whole_seconds,
)
from nodecheck.checks.cuda.subjects import Subject
from tests.checks.cuda.nodes import address, card


def subjects(number: int, device_bytes: int | None = 1 << 28) -> list[Subject]:
    return [
        Subject(
            gpu=card(n),
            address=address(n),
            position=n,
            cpus=(n,) if n % 2 else (),
            device_bytes=device_bytes,
        )
        for n in range(number)
    ]


def seconds(found: list[Leg]) -> float:
    return sum(leg.seconds for leg in found)


def test_one_card_takes_about_six_seconds() -> None:
    (leg,) = legs(subjects(1))
    assert [step.name for step in leg.steps] == [
        "host_to_device",
        "device_to_host",
        "device_copy",
        "host_to_device_pageable",
        "device_to_host_pageable",
        "device_read",
    ]
    assert 4 < leg.seconds < 8


def test_eight_cards_take_less_than_a_minute() -> None:
    assert seconds(legs(subjects(8))) < 60


@pytest.mark.parametrize("number", [0, 1, 2, 3, 8, 12])
def test_how_long_it_takes_is_known_by_the_number_of_cards(number: int) -> None:
    assert whole_seconds(number) == pytest.approx(seconds(legs(subjects(number))))


def test_a_card_without_room_is_measured_over_its_link_alone() -> None:
    (leg,) = legs(subjects(1, device_bytes=None))
    assert not [step for step in leg.steps if step.name.startswith("device_copy")]
    assert len(leg.steps) == 4


def test_all_cards_copy_at_once_then_in_pairs() -> None:
    *alone, last = legs(subjects(3))
    assert [leg.about for leg in alone] == [card(n).label for n in range(3)]
    assert [step.cards for step in last.steps[:2]] == [(0, 1, 2), (0, 1, 2)]
    assert last.steps[0].cpus == ((), (1,), ())
    assert {(step.cards[0], step.peers[0]) for step in last.steps[2:]} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }


@given(number=st.integers(2, 40))
def test_pairs_are_bounded_and_touch_every_card_they_can(number: int) -> None:
    found = pairs(number)
    assert len(found) == len(set(found)) <= PEERS_MOST
    assert all(a != b and 0 <= a < number and 0 <= b < number for a, b in found)
    if number <= PEERS_MOST:
        assert {a for a, _ in found} == {b for _, b in found} == set(range(number))
    if number <= 4:
        assert len(found) == number * (number - 1)


@given(number=st.integers(1, 8), most=st.floats(0.1, 80))
def test_samples_are_shortened_to_the_time_there_is_but_not_below_their_half(
    number: int, most: float
) -> None:
    whole = legs(subjects(number))
    short = shortened(whole, most)
    key = operator.attrgetter("name", "cards", "peers")
    before = {key(step): step.seconds for leg in whole for step in leg.steps}
    after = {key(step): step.seconds for leg in short for step in leg.steps}
    assert set(before) == set(after)
    assert all(LEAST_SHARE * before[k] <= after[k] <= before[k] for k in before)
    assert sum(leg.contexts for leg in short) == number
    assert (short == whole) == (most >= seconds(whole))


def test_where_time_is_short_every_cards_link_comes_first() -> None:
    order = [(s.name, s.cards) for leg in shortened(legs(subjects(3)), 8) for s in leg.steps]
    ways = ("host_to_device", "device_to_host")
    assert order[:6] == [(name, (n,)) for n in range(3) for name in ways]
    assert order[6] == ("device_copy", (0,))
