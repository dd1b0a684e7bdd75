"""From the samples of copies to rates that say how far they can be trusted."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from nodecheck.checks.cuda.facts import COPY, PEER, READ
from nodecheck.checks.cuda.subjects import Subject
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.machine.cuda import Copied, Copy
from nodecheck.model import Transfer
from nodecheck.spread import quantile

SPREAD_MAX = 0.20
"""(p90 - p10) / median above which a rate is unsteady: copies by engines vary by a few percent."""


def transfer(step: Copy, copied: Copied, subjects: Mapping[int, Subject]) -> Transfer:
    """The rate of one card in a step; it has samples."""
    subject = subjects[copied.card]
    peer = subjects[step.peers[step.cards.index(copied.card)]] if step.peers else None
    median = statistics.median(copied.rates)
    p10, p90 = quantile(copied.rates, 0.1), quantile(copied.rates, 0.9)
    on_link = step.name not in (COPY, READ, PEER)
    flags = ["busy"] if subject.busy or (peer is not None and peer.busy) else []
    flags += ["unsteady"] if p90 - p10 > SPREAD_MAX * median else []
    return Transfer(
        name=step.name,
        card=subject.address,
        peer=peer.address if peer else None,
        cards=len(step.cards),
        median_bytes_per_second=median,
        p10_bytes_per_second=p10,
        p90_bytes_per_second=p90,
        passes=len(copied.rates),
        buffer_bytes=copied.buffer_bytes or step.buffer_bytes,
        link_gts=copied.seen[0] if on_link else None,
        link_width=copied.seen[1] if on_link else None,
        intact=copied.intact,
        direct=copied.direct if peer else None,
        flags=tuple(flags),
    )


def with_later(
    transfers: Iterable[Transfer], before: Sequence[Gpu], after: Sequence[Gpu], seconds: float
) -> tuple[Transfer, ...]:
    """The rates with what the cards told when all was done: replays, programs that came.

    `seconds` is how long copies ran.
    """
    earlier = {gpu.pci_address: gpu for gpu in before}
    later = {gpu.pci_address: gpu for gpu in after}
    return tuple(
        _told(each, earlier.get(each.card), later.get(each.card), seconds) for each in transfers
    )


def _told(each: Transfer, before: Gpu | None, after: Gpu | None, seconds: float) -> Transfer:
    if before is None or after is None:
        return each
    flags = each.flags
    if _came(before, after) and "busy" not in flags:
        flags = ("busy", *flags)
    counted = None if each.name in (COPY, READ) else _replays(before, after)
    within = None if counted is None else round(seconds, 2)
    return replace(each, replays=counted, replay_seconds=within, flags=flags)


def _came(before: Gpu, after: Gpu) -> bool:
    """Whether a program is on the card that was not there before."""
    known = {process.pid for process in before.processes or ()}
    return any(process.pid not in known for process in after.processes or ())


def _replays(before: Gpu, after: Gpu) -> int | None:
    """What was counted between; None where the counter was not told or began anew."""
    if before.pcie_replays is None or after.pcie_replays is None:
        return None
    rise = after.pcie_replays - before.pcie_replays
    return rise if rise >= 0 else None
