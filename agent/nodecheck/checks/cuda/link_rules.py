"""Judges how fast cards copy to and from the host, each alone and all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodecheck.checks.cuda.facts import FROM_CARD, TO_CARD
from nodecheck.checks.cuda.limits import (
    Limit,
    addresses,
    alone,
    card_of,
    limit_of,
    together,
)
from nodecheck.checks.pcie.facts import SharedLink, expected_replays
from nodecheck.checks.seen import Seen
from nodecheck.links import is_normal
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity, Struct, Transfer
from nodecheck.units import GB, count, gb_per_second, listed, percent

DIRECTIONS = {TO_CARD: "to", FROM_CARD: "from"}
MODEL_BYTES = 10 * GB
"""A round size to say what a rate costs."""


class _Slow(Struct, frozen=True):
    transfer: Transfer
    limit: Limit
    name: str

    @property
    def share(self) -> float:
        return self.transfer.median_bytes_per_second / self.limit.bytes_per_second


def judge_slow(seen: Seen) -> Iterator[Finding]:
    """Links that carry less than they should as they are trained."""
    slow = sorted(_slow(seen), key=lambda each: each.share)
    if not slow:
        return
    worst, least = slow[0], seen.policy.thresholds.link_rate_share
    rate, full = worst.transfer.median_bytes_per_second, worst.limit.bytes_per_second
    cards = list(dict.fromkeys(each.transfer.card for each in slow))
    yield Finding(
        id="pcie.link_slow",
        severity=Severity.WARNING,
        subject=", ".join(cards),
        summary=f"Copies {DIRECTIONS[worst.transfer.name]} {_short(seen, worst.transfer.card)} "
        f"reach {gb_per_second(rate)}, {percent(worst.share)} of what the link carries"
        + (f"; {len(cards) - 1} more slow too" if len(cards) > 1 else ""),
        evidence=tuple(_slow_evidence(each, least) for each in slow),
        impact=f"{MODEL_BYTES / rate:.1f} s for 10 GB of weights instead of "
        f"{MODEL_BYTES / (least * full):.1f}; offload and cache pools on the host are slower by as "
        "much",
        remedy=_slow_remedy(seen),
        owner=Owner.HYPERVISOR if seen.facts.virt.guest else Owner.OPERATOR,
    )


def _short(seen: Seen, address: str) -> str:
    """`GPU 1`, or the address where the driver does not number the cards."""
    gpu = card_of(seen.facts, address)
    return address if gpu is None or gpu.index is None else f"GPU {gpu.index}"


def _slow(seen: Seen) -> Iterator[_Slow]:
    least = seen.policy.thresholds.link_rate_share
    for address in addresses(seen.transfers):
        if _others_work(seen, address):
            continue
        gpu = card_of(seen.facts, address)
        for name in DIRECTIONS:
            found = alone(seen.transfers, name, address)
            if found is None or found.flags or _sends_again(seen, found):
                continue
            limit = limit_of(seen.facts, seen.transfers, found)
            if limit is None or limit.unjudged:
                continue
            if found.median_bytes_per_second < least * limit.bytes_per_second:
                yield _Slow(found, limit, gpu.label if gpu else address)


def _sends_again(seen: Seen, each: Transfer) -> bool:
    """Whether more packets were sent again than a healthy link loses: that is pcie.aer's to say."""
    limits = seen.policy.thresholds
    expected = expected_replays(each, limits)
    return expected is not None and not is_normal(
        each.replays or 0, expected, limits.link_errors_chance
    )


def _others_work(seen: Seen, address: str) -> bool:
    """Whether another card is busy, which may share the way."""
    busy = seen.policy.thresholds.busy_gpu_share
    return any(
        gpu.utilisation_share is not None
        and gpu.utilisation_share >= busy
        and gpu.pci_address != address
        for gpu in seen.facts.gpus
    )


def _slow_evidence(slow: _Slow, least: float) -> Evidence:
    each, full = slow.transfer, slow.limit.bytes_per_second
    replays = f", {count(each.replays, 'replay')} meanwhile" if each.replays else ""
    return Evidence(
        value=f"{slow.name}: {gb_per_second(each.median_bytes_per_second)} "
        f"{DIRECTIONS[each.name]} the card, through pinned memory{replays}",
        source=f"copies by the card's engine, median of {each.passes}",
        expected=f"at least {gb_per_second(least * full)}",
        basis=f"{percent(least)} of {gb_per_second(full)}, which {slow.limit.words} carries after "
        "encoding; healthy links reach 78 to 88 %",
    )


def _slow_remedy(seen: Seen) -> Remedy:
    if seen.facts.virt.guest:
        return Remedy(
            text="Let the host be looked at: whether the vCPUs and the memory of this guest lie on "
            "the card's NUMA node, its memory bandwidth, the IOMMU, and the card's error counters "
            "there",
            action=Action.RECONFIGURE_VM,
            cost="A cold stop where the guest is pinned or moved",
        )
    return Remedy(
        text="Run on CPUs and memory of the card's NUMA node; with an IOMMU boot with iommu=pt; "
        "look whether the node's memory is slow (nodecheck bench dram) and at the firmware's "
        "power profile, preferred I/O and relaxed ordering",
        action=Action.CHANGE_SETTING,
        commands=("nvidia-smi topo -m", "cat /proc/cmdline", "nodecheck bench dram"),
        cost="A reboot for boot options and firmware",
    )


class _Group(Struct, frozen=True):
    """Cards that hold one another back in one direction, and the link that they share."""

    name: str
    cards: tuple[str, ...]
    link: SharedLink | None
    alone: tuple[float, ...]
    together: tuple[float, ...]

    @property
    def share(self) -> float:
        return sum(self.together) / sum(self.alone)


def judge_shared(seen: Seen) -> Iterator[Finding]:
    """Cards that are fast alone and slow together, for they share a way."""
    groups = sorted((g for name in DIRECTIONS for g in _groups(seen, name)), key=lambda g: g.share)
    if not groups:
        return
    worst = groups[0]
    each = sum(worst.alone) / len(worst.alone)
    yield Finding(
        id="pcie.shared_uplink",
        severity=Severity.INFO,
        subject=", ".join(dict.fromkeys(card for group in groups for card in group.cards)),
        summary=_sharers(groups, worst),
        evidence=tuple(_shared_evidence(seen, group) for group in groups),
        impact=f"Loading all of them at once takes {1 / worst.share:.1f} times as long as loading "
        f"one, which gets {gb_per_second(each)} alone",
        remedy=Remedy(
            text="None for decode within the cards. Where they load, swap or offload at the same "
            "time, spread the cards over root ports, or count with the rate that they share",
            action=Action.NONE,
            commands=("nvidia-smi topo -m", "lspci -tv"),
        ),
        owner=Owner.HARDWARE,
    )


def _sharers(groups: Sequence[_Group], worst: _Group) -> str:
    alike = [group for group in groups if group.name == worst.name]
    cards = count(sum(len(group.cards) for group in alike), "card")
    rate, way = gb_per_second(sum(worst.together)), DIRECTIONS[worst.name]
    if len(alike) == 1:
        return f"{cards} share one way to the host: {rate} {way} all of them together"
    return (
        f"{cards} share {len(alike)} ways to the host: {rate} {way} the {len(worst.cards)} cards "
        "on the slowest together"
    )


def _groups(seen: Seen, name: str) -> Iterator[_Group]:
    least = seen.policy.thresholds.shared_uplink_share
    slowed: dict[str, tuple[float, float]] = {}
    for address in addresses(seen.transfers):
        before = alone(seen.transfers, name, address)
        later = together(seen.transfers, name, address)
        if before is None or later is None or before.flags or "busy" in later.flags:
            continue
        rates = before.median_bytes_per_second, later.median_bytes_per_second
        if rates[1] < least * rates[0]:
            slowed[address] = rates
    for cards, link in _sharing(seen, tuple(slowed)):
        yield _Group(
            name,
            cards,
            link,
            tuple(slowed[card][0] for card in cards),
            tuple(slowed[card][1] for card in cards),
        )


def _sharing(
    seen: Seen, cards: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], SharedLink | None]]:
    """Cards below one link, and those whose way cannot be seen, where they are two or more."""
    hidden = tuple(card for card in cards if _is_hidden(seen, card))
    left = [card for card in cards if card not in hidden]
    while left:
        first = left.pop(0)
        links = {other: _shared(seen, first, other) for other in left}
        met = [other for other, link in links.items() if link is not None]
        if met:
            left = [card for card in left if card not in met]
            ways = [link for other in met if (link := links[other]) is not None]
            yield (first, *met), min(ways, key=lambda w: w.bytes_per_second or float("inf"))
    if len(hidden) > 1:
        yield hidden, None


def _is_hidden(seen: Seen, card: str) -> bool:
    """Whether the way ends at the card, or at a port that a hypervisor made up."""
    path = seen.facts.pcie.path_of(card)
    return path is None or len(path.hops) < 2 or any(hop.emulated for hop in path.hops)


def _shared(seen: Seen, first: str, second: str) -> SharedLink | None:
    one, other = seen.facts.pcie.path_of(first), seen.facts.pcie.path_of(second)
    return one.shared_link(other) if one is not None and other is not None else None


def _shared_evidence(seen: Seen, group: _Group) -> Evidence:
    names = [_short(seen, address) for address in group.cards]
    rate, link = sum(group.together), group.link
    basis = "no link that they share is visible here; they slow one another"
    if link is not None:
        carries = link.bytes_per_second
        told = f", which carries {gb_per_second(carries)}" if carries else ""
        basis = f"all lie behind {link.place}{told}"
    rates = " + ".join(f"{each / GB:.1f}" for each in group.together)
    return Evidence(
        value=f"{listed(names)}: {rates} = {gb_per_second(rate)} "
        f"{DIRECTIONS[group.name]} the cards at once",
        source="copies by the cards' engines, all at once and each alone",
        expected=f"{gb_per_second(sum(group.alone))}, the sum of what each gets alone",
        basis=basis,
    )
