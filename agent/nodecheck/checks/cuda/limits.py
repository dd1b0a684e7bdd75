"""What a card's link and memory allow, to hold rates of copies against. Pure: facts in."""

from __future__ import annotations

from collections.abc import Iterable

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import Path
from nodecheck.checks.seen import Facts
from nodecheck.links import GTS, encoded_bytes_per_second, generation
from nodecheck.model import Struct, Transfer

FASTEST_KNOWN_GTS = 32.0
"""No copies over faster links were seen yet: what of their rate is healthy is not known."""


class Limit(Struct, frozen=True):
    """What a link carries one way after encoding; `words` name it.

    `unjudged` says why a rate below it would prove nothing.
    """

    bytes_per_second: float
    words: str
    unjudged: str | None = None


def card_of(facts: Facts, address: str) -> Gpu | None:
    """The card at a PCI address."""
    return next((gpu for gpu in facts.gpus if gpu.pci_address == address), None)


def path_of(facts: Facts, address: str) -> Path | None:
    """The way of a card to its root."""
    return next((path for path in facts.pcie.paths if path.accelerator == address), None)


def link_of(facts: Facts, transfers: Iterable[Transfer], address: str) -> Limit | None:
    """What the link of a card carries, as it ran while it copied; None where that is not known.

    A link that slows down at idle is known by what was read meanwhile alone, or by a driver that
    tells it at its maximum.
    """
    seen = [
        (each.link_gts, each.link_width)
        for each in transfers
        if each.card == address and each.link_gts and each.link_width
    ]
    gpu = card_of(facts, address)
    gts, width = max(seen, default=(None, None), key=lambda pair: (pair[0] or 0, pair[1] or 0))
    when = "while copying"
    if gts is None or width is None:
        gts, width = _as_told(gpu)
        when = "as the driver tells it"
    carried = encoded_bytes_per_second(gts, width)
    if carried is None:
        return None
    words = f"{generation(gts)} x{width} {when}"
    narrow = _narrowest_above(path_of(facts, address))
    if narrow is not None and narrow[0] < carried:
        carried, words = narrow
    return Limit(carried, words, _unjudged(facts, gpu, address, gts or 0))


def _as_told(gpu: Gpu | None) -> tuple[float | None, int | None]:
    """The link of the card's facts where it is trained to its maximum."""
    if gpu is None or not gpu.link_generation or gpu.link_generation != gpu.link_generation_max:
        return None, None
    return GTS.get(gpu.link_generation), gpu.link_width


def _narrowest_above(path: Path | None) -> tuple[float, str] | None:
    """The tightest link above the card's own, by its lanes and by what both ends can train to."""
    found: list[tuple[float, str]] = []
    for first in range(2, len(path.hops) if path else 0, 2):
        ends = [h for h in path.hops[first : first + 2] if not h.emulated] if path else []
        gts = min((h.maximum_gts for h in ends if h.maximum_gts), default=None)
        width = min((h.current_width for h in ends if h.current_width), default=None)
        carried = encoded_bytes_per_second(gts, width)
        if carried is not None:
            found.append((carried, f"{generation(gts)} x{width} of {ends[0].address}, above it"))
    return min(found, default=None)


def _unjudged(facts: Facts, gpu: Gpu | None, address: str, gts: float) -> str | None:
    """Why a rate below what the link carries would prove nothing."""
    path = path_of(facts, address)
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
