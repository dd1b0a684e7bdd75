"""How fast cards reach one another and the host: measured first, then read, then by the links."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.gpu.facts import NvLink
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.judge.peers import between
from nodecheck.judge.strategies import strategies
from nodecheck.model import Transfer
from tests.nodes import three_l40

CARDS = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
PCIE = 31.506e9
UP = tuple(NvLink(link=n, active=True, bytes_per_second=26.562e9) for n in range(18))


def seen(*transfers: Transfer, guest: bool = False, **members: object) -> Seen:
    made = three_l40()
    cards = tuple(
        replace(gpu, pci_address=address, **members)
        for gpu, address in zip(made.facts.gpus, CARDS, strict=True)
    )
    virt = replace(made.facts.virt, guest=guest)
    return replace(
        made, facts=replace(made.facts, gpus=cards, virt=virt), transfers=tuple(transfers)
    )


def copy(name: str, card: str, rate: float, **members: object) -> Transfer:
    return replace(Transfer(name=name, card=card, median_bytes_per_second=rate), **members)


def told(made: Seen) -> tuple[float | None, str]:
    found = between(made, node.cards(made))
    return found.bytes_per_second, found.words


def test_the_slowest_measured_pair_counts() -> None:
    pairs = [
        copy("peer_to_peer", CARDS[a], 22e9 + a * 1e9, peer=CARDS[b])
        for a in range(3)
        for b in range(3)
        if a != b
    ]
    rate, words = told(seen(*pairs, nvlinks=UP))
    assert rate == 22e9
    assert words == "the slowest pair of cards copies at 22.0 GB/s"
    busy = [replace(each, flags=("busy",)) for each in pairs]
    assert told(seen(*busy, nvlinks=UP))[0] != 22e9


def test_nvlinks_that_are_up_are_added() -> None:
    rate, words = told(seen(nvlinks=UP))
    assert round((rate or 0) / 1e9) == 478
    assert "NVLink: 478 GB/s one way a card" in words


def test_without_nvlink_it_is_the_host_link() -> None:
    rate, words = told(seen(nvlinks=()))
    assert round((rate or 0) / 1e9, 1) == round(PCIE / 1e9, 1)
    assert words.startswith("no NVLink")
    down = tuple(replace(link, active=False) for link in UP)
    assert told(seen(nvlinks=down))[0] == rate


def test_what_was_not_read_is_not_denied() -> None:
    rate, words = told(seen(guest=True))
    assert rate is not None
    assert words.startswith("peer copies in this VM not known")


def test_a_ceiling_of_cards_that_may_have_nvlink_leaves_the_host_link_out() -> None:
    assert told(seen(name="NVIDIA H200", pci_device_id="10de:2335"))[0] is None


def test_a_pool_is_judged_by_measured_copies() -> None:
    slow = [copy("host_to_device", card, 5e9) for card in CARDS]
    found = {each.strategy: each for each in strategies(seen(*slow))}
    assert found["host-kv-pool"].limit == "copies to the card, 5 GB/s"
    partly = {each.strategy: each for each in strategies(seen(slow[0]))}
    assert "copies" not in partly["host-kv-pool"].limit
