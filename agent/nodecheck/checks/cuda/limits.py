"""What a card's link and memory allow, to hold rates of copies against. Pure: facts in."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import while_copying
from nodecheck.checks.seen import Facts
from nodecheck.links import GTS, encoded_bytes_per_second, generation
from nodecheck.model import Struct, Transfer

FASTEST_KNOWN_GTS = 32.0
"""No copies over faster links were seen yet: what of their rate is healthy is not known."""

COPYING, DRIVER, ABOVE = "while copying", "as the driver tells it", "above it"
"""How a link is known: read while it carried the copy, told, or what is on the way."""


class Limit(Struct, frozen=True, kw_only=True):
    """The narrowest link between a card and the host, as it ran for a copy: GT/s and lanes.

    `known` is COPYING, DRIVER or ABOVE, `place` the lower end of one above the card's own.
    `unjudged` says why a rate below what it carries would prove nothing.
    """

    gts: float
    width: int
    known: str
    place: str | None = None
    unjudged: str | None = None

    @property
    def bytes_per_second(self) -> float:
        """What it carries one way after encoding."""
        return encoded_bytes_per_second(self.gts, self.width) or 0.0

    @property
    def name(self) -> str:
        """`Gen4 x16`."""
        return f"{generation(self.gts)} x{self.width}"

    @property
    def words(self) -> str:
        """The same, and how it is known."""
        where = "" if self.place is None else f" at {self.place},"
        return f"{self.name}{where} {self.known}"


def card_of(facts: Facts, address: str) -> Gpu | None:
    """The card at a PCI address."""
    return next((gpu for gpu in facts.gpus if gpu.pci_address == address), None)


def limit_of(facts: Facts, transfers: Iterable[Transfer], each: Transfer) -> Limit | None:
    """What held this copy back at most; None where it is not known.

    A link that slows down at idle is known by what was read meanwhile alone, be it in the card's
    other copies, or by a driver that tells it at its maximum. One that changed may have done so in
    this copy too.
    """
    gpu = card_of(facts, each.card)
    seen = while_copying([each], each.card) or while_copying(transfers, each.card)
    if len(seen) > 1:
        return None
    gts, width = seen[0] if seen else _as_told(gpu)
    known = COPYING if seen else DRIVER
    if gts is None or width is None or encoded_bytes_per_second(gts, width) is None:
        return None
    own = Limit(gts=gts, width=width, known=known, unjudged=_unjudged(facts, gpu, each.card, gts))
    path = facts.pcie.path_of(each.card)
    above = path.narrowest_above() if path is not None else None
    if above is None or (above.bytes_per_second or 0) >= own.bytes_per_second:
        return own
    return replace(own, gts=above.gts, width=above.width, known=ABOVE, place=above.place)


def _as_told(gpu: Gpu | None) -> tuple[float | None, int | None]:
    """The link of the card's facts where it is trained to its maximum."""
    if gpu is None or not gpu.link_generation or gpu.link_generation != gpu.link_generation_max:
        return None, None
    return GTS.get(gpu.link_generation), gpu.link_width


def _unjudged(facts: Facts, gpu: Gpu | None, address: str, gts: float) -> str | None:
    """Why a rate below what the link carries would prove nothing."""
    path = facts.pcie.path_of(address)
    if facts.gpu.confidential_compute:
        return "confidential computing copies through a bounce buffer"
    if gpu is not None and _is_share(gpu):
        return "the card is a share of one (vGPU)"
    if gpu is not None and (gpu.chip_to_chip or gpu.unified_memory):
        return "the card is attached to the CPU chip to chip"
    if path is not None and any(hop.emulated for hop in path.hops):
        return "an emulated port hides the way to the host"
    if gts > FASTEST_KNOWN_GTS:
        return f"what is healthy on {generation(gts)} is not known yet"
    return None


def redirecting(facts: Facts, cards: Iterable[str]) -> tuple[str, ...]:
    """The ports above these cards that send traffic between cards up to the root (ACS)."""
    paths = filter(None, (facts.pcie.path_of(card) for card in cards))
    return tuple(sorted({hop.address for path in paths for hop in path.hops if hop.acs_redirect}))


def memory_rate(gpu: Gpu | None) -> float | None:
    """What the card's own memory can deliver; None for a share of a card, or the host's memory."""
    if gpu is None or gpu.unified_memory or gpu.mig or _is_share(gpu):
        return None
    return gpu.vram_bytes_per_second


def _is_share(gpu: Gpu) -> bool:
    return (gpu.virtualisation or "").casefold() == "vgpu"


def alone(transfers: Iterable[Transfer], name: str, address: str) -> Transfer | None:
    """The best rate of that name at which a card copied while no other did."""
    found = [t for t in transfers if t.name == name and t.card == address and t.cards == 1]
    return max(found, key=lambda each: each.median_bytes_per_second, default=None)


def together(transfers: Iterable[Transfer], name: str, address: str) -> Transfer | None:
    """The same while most others did too."""
    found = [t for t in transfers if t.name == name and t.card == address and t.cards > 1]
    return max(found, key=lambda each: each.cards, default=None)


def addresses(transfers: Iterable[Transfer]) -> tuple[str, ...]:
    """The cards that were measured, in that order."""
    return tuple(dict.fromkeys(each.card for each in transfers))
