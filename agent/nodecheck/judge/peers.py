"""How fast the cards of a node reach one another, as far as that was measured or read."""

from __future__ import annotations

from collections.abc import Sequence

from nodecheck.checks.gpu import products
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.judge import node
from nodecheck.model import Struct
from nodecheck.units import GB, gb_per_second

TO_MEASURE = "nodecheck bench gpu measures it"


class Between(Struct, frozen=True):
    """Bytes a second from one card to another, None where nothing is known, and in words."""

    bytes_per_second: float | None
    words: str
    measured: bool = False


def between(seen: Seen, cards: node.Cards) -> Between:
    """Measured copies, else NVLinks that are up, else the host's links where there is no NVLink."""
    rate = _copied(seen, cards.gpus)
    if rate is not None:
        return Between(rate, f"the slowest pair of cards copies at {rate / GB:.1f} GB/s", True)
    links = [_nvlink_rate(gpu) for gpu in cards.gpus]
    up = [each for each in links if each]
    if len(up) == len(links) and up:
        return Between(min(up), f"NVLink: {gb_per_second(min(up))} one way a card; {TO_MEASURE}")
    unknown = any(gpu.nvlinks is None and _may_have_nvlinks(gpu) for gpu in cards.gpus)
    rate = None if unknown else node.host_link(seen, cards)
    if any(gpu.nvlinks is None for gpu in cards.gpus):
        where = " in this VM" if seen.facts.virt.guest else ""
        return Between(rate, f"peer copies{where} not known; {TO_MEASURE}")
    return Between(rate, f"no NVLink; {TO_MEASURE}")


def _copied(seen: Seen, gpus: Sequence[Gpu]) -> float | None:
    """The slowest pair that was measured; the pairs of a node are many, and not all are."""
    ours = {gpu.pci_address for gpu in gpus}
    return min(
        (
            each.median_bytes_per_second
            for each in seen.transfers
            if each.name == "peer_to_peer" and {each.card, each.peer} <= ours and not each.flags
        ),
        default=None,
    )


def _nvlink_rate(gpu: Gpu) -> float | None:
    rates = [link.bytes_per_second for link in gpu.nvlinks or () if link.active]
    return sum(rate for rate in rates if rate) or None


def _may_have_nvlinks(gpu: Gpu) -> bool:
    product = products.find(gpu.pci_device_id, gpu.name, gpu.subsystem_id)
    return product is None or product.nvlinks is not None
