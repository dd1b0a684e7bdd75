"""From samples to rates, and what the card told when all was done."""

from __future__ import annotations

import pytest

from nodecheck.checks.cuda.figures import transfer, with_later
from nodecheck.checks.cuda.subjects import Subject
from nodecheck.checks.gpu.facts import GpuProcess
from nodecheck.machine.cuda import Copied, Copy
from nodecheck.model import Transfer
from tests.checks.cuda.nodes import address, card, copied, whole

SUBJECTS = {n: Subject(gpu=card(n), address=address(n), position=n, busy=n == 2) for n in range(3)}


def made(name: str, *rates: float, cards: tuple[int, ...] = (0,), **more: object) -> Transfer:
    peers = (1,) if name == "peer_to_peer" else ()
    step = Copy(name=name, cards=cards, peers=peers, buffer_bytes=64, seconds=0.1)
    known = {"step": 0, "card": cards[0], "rates": rates, "seen": (16.0, 16), **more}
    return transfer(step, Copied(**known), SUBJECTS)  # type: ignore[arg-type]


def test_the_rate_is_the_median() -> None:
    each = made("host_to_device", 25e9, 26e9, 24e9, 25.5e9, buffer_bytes=4096, intact=True)
    assert each.median_bytes_per_second == 25.25e9
    assert each.p10_bytes_per_second == pytest.approx(24.3e9)
    assert each.p90_bytes_per_second == pytest.approx(25.85e9)
    assert (each.passes, each.buffer_bytes, each.intact) == (4, 4096, True)
    assert (each.card, each.cards, each.flags) == (address(0), 1, ())
    assert (each.link_gts, each.link_width) == (16.0, 16)


def test_rates_that_lie_far_apart_are_unsteady() -> None:
    assert made("host_to_device", 25e9, 12e9, 26e9, 11e9).flags == ("unsteady",)


def test_a_card_that_others_use_is_busy() -> None:
    assert made("host_to_device", 25e9, 25e9, cards=(2, 0)).flags == ("busy",)
    assert made("host_to_device", 25e9, 25e9, cards=(2, 0)).cards == 2


def test_a_link_is_told_of_copies_that_used_it() -> None:
    assert made("device_copy", 700e9).link_gts is None
    peer = made("peer_to_peer", 20e9, direct=False)
    assert (peer.peer, peer.direct, peer.link_gts) == (address(1), False, None)
    assert made("host_to_device", 25e9, direct=True).direct is None


def test_replays_are_those_between() -> None:
    before, after = card(0, pcie_replays=3), card(0, pcie_replays=15)
    link, on_card = with_later(
        (whole(0)[0], copied(0, "device_copy", 700)), (before,), (after,), 6.25
    )
    assert (link.replays, link.replay_seconds) == (12, 6.25)
    assert (on_card.replays, on_card.replay_seconds) == (None, None)


@pytest.mark.parametrize(("before", "after"), [(None, 5), (5, None), (5, 2)])
def test_a_counter_that_is_not_told_or_began_anew_tells_nothing(
    before: int | None, after: int | None
) -> None:
    (each,) = with_later(
        whole(0)[:1], (card(0, pcie_replays=before),), (card(0, pcie_replays=after),), 6.0
    )
    assert (each.replays, each.replay_seconds) == (None, None)


def test_a_program_that_came_meanwhile_makes_the_card_busy() -> None:
    there, new = (GpuProcess(pid=pid, kind="compute") for pid in (1, 2))
    before = (card(0, processes=(there,)),)
    (same,) = with_later(whole(0)[:1], before, (card(0, processes=(there,)),), 6.0)
    (other,) = with_later(whole(0)[:1], before, (card(0, processes=(there, new)),), 6.0)
    assert (same.flags, other.flags) == ((), ("busy",))


def test_a_card_that_is_no_longer_told_keeps_its_rates() -> None:
    assert with_later(whole(0), (card(0),), (), 6.0) == whole(0)
