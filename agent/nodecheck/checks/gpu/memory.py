"""What of a card's memory is worn: told by the card, or by a current event of its driver. Pure."""

from __future__ import annotations

from nodecheck.checks.gpu import xid
from nodecheck.checks.gpu.facts import Gpu, RetiredPages
from nodecheck.checks.gpu.wording import AMD, card_key, foreign_keys, ours
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.checks.seen import Seen


def pages(gpu: Gpu) -> int:
    """The pages that a card before Ampere has retired; amdgpu lets a card retire hundreds."""
    if gpu.vendor == AMD:
        return 0
    retired = gpu.retired_pages or RetiredPages()
    return (retired.single_bit or 0) + (retired.double_bit or 0)


def is_beyond_repair(gpu: Gpu, seen: Seen) -> bool:
    """Whether the card itself says that no spare memory is left."""
    return bool(gpu.remap_failure) or pages(gpu) >= seen.policy.thresholds.retired_pages_max


def failed_events(seen: Seen) -> list[Xid]:
    """Current events of repairs that failed, but those of cards that are not ours."""
    foreign = foreign_keys(seen)
    return [
        event
        for event in seen.facts.kernel_log.xids
        if event.code == xid.REMAP_FAILED
        and card_key(event.pci_address) not in foreign
        and not event.recovered
        and not xid.is_harmless_remap(event)
    ]


def failed_keys(seen: Seen) -> set[str | None]:
    """The cards whose memory is beyond repair."""
    cards = {card_key(g.pci_address) for g in ours(seen) if is_beyond_repair(g, seen)}
    return cards | {card_key(event.pci_address) for event in failed_events(seen)}


def is_pending(gpu: Gpu) -> bool:
    """Whether a reset will repair faulty memory of the card."""
    pages_wait = gpu.retired_pages is not None and bool(gpu.retired_pages.pending)
    return bool(gpu.remap_pending) or pages_wait


def pending_keys(seen: Seen) -> set[str | None]:
    """The cards that wait for such a reset."""
    return {card_key(gpu.pci_address) for gpu in ours(seen) if is_pending(gpu)}


def worn_sram_keys(seen: Seen) -> set[str | None]:
    """The cards whose caches had more uncorrectable errors than the vendor lets pass."""
    return {card_key(gpu.pci_address) for gpu in ours(seen) if gpu.sram_threshold_exceeded}
