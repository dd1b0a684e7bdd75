"""What copies to, from, between and on the cards come to: rows, a sentence, notes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nodecheck.checks.cuda.facts import COPY, FROM_CARD, PAGEABLE, PEER, READ, TO_CARD
from nodecheck.checks.cuda.limits import (
    COPYING,
    Limit,
    addresses,
    alone,
    card_of,
    limit_of,
    memory_rate,
    redirecting,
    together,
)
from nodecheck.checks.gpu.facts import MAKERS, Gpu
from nodecheck.model import Finding, Severity, Struct, Transfer
from nodecheck.render.bench.figures import rate
from nodecheck.report import Report
from nodecheck.thresholds import Thresholds
from nodecheck.units import count, gb_per_second, listed, percent

PART = "gpu"

CONVENTION = (
    "GB/s of each card alone, through pinned memory, and its share of what the link carries one "
    "way; on the card bytes read + written, and their share of the memory's rate"
)
AT_ONCE = "GB/s that each card gets, pinned, while all copy"
PEERS = "GB/s from a card (row) to another (column)"

FAULTS = ("gpu.cuda_unavailable", "gpu.data_corrupt", "pcie.link_slow", "gpu.vram_slow",
          "pcie.aer", "pcie.speed_below_max", "pcie.width_below_max")  # fmt: skip
FOLLOWING = (*FAULTS, "pcie.shared_uplink")
"""Findings that the copies lead to, or that explain them; the first are what they come to."""

ALIKE = 0.9
"""Of its rate alone, from which a card is not held back by others."""


class Figure(Struct, frozen=True):
    """A rate of one card, and the share of what its link (`limit`) or its memory allows."""

    transfer: Transfer
    share: float | None = None
    limit: Limit | None = None


class Row(Struct, frozen=True, kw_only=True):
    """One card. `figures` are by the transfer's name; `beside` those while all copied."""

    number: str
    name: str
    address: str
    memory: float | None
    figures: dict[str, Figure]
    beside: dict[str, Figure]

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The links as they ran, each once, the narrowest first: more than one where it changed."""
        known = {figure.limit for figure in self.figures.values() if figure.limit is not None}
        return tuple(sorted(known, key=lambda limit: limit.bytes_per_second))

    @property
    def limit(self) -> Limit | None:
        """The narrowest."""
        return self.limits[0] if self.limits else None

    @property
    def link(self) -> str:
        """The narrowest, short: Gen4 x16."""
        return self.limit.name if self.limit else "-"


def rows(report: Report) -> list[Row]:
    """The cards that were measured, in order."""
    found = [_row(report, address) for address in addresses(report.transfers)]
    names = [name for row in found for name in row.beside]
    # at once is two or more: one that is left of those that copied together shows nothing
    return [
        replace(row, beside={n: each for n, each in row.beside.items() if names.count(n) > 1})
        for row in found
    ]


def _row(report: Report, address: str) -> Row:
    gpu, found = card_of(report.facts, address), report.transfers
    memory = memory_rate(gpu)
    figures: dict[str, Figure] = {}
    beside: dict[str, Figure] = {}
    for name in (TO_CARD, FROM_CARD, TO_CARD + PAGEABLE, FROM_CARD + PAGEABLE, COPY, READ):
        if each := alone(found, name, address):
            figures[name] = _figure(report, each, memory)
            if (other := together(found, name, address)) is not None:
                share = other.median_bytes_per_second / each.median_bytes_per_second
                beside[name] = Figure(other, share)
    return Row(
        number=str(gpu.index) if gpu and gpu.index is not None else "-",
        name=_short(gpu.name if gpu and gpu.name else ""),
        address=address,
        memory=memory,
        figures=figures,
        beside=beside,
    )


def _figure(report: Report, each: Transfer, memory: float | None) -> Figure:
    if each.name in (COPY, READ):
        return Figure(each, each.median_bytes_per_second / memory if memory else None)
    limit = limit_of(report.facts, report.transfers, each)
    return Figure(each, each.median_bytes_per_second / limit.bytes_per_second if limit else None,
                  limit)  # fmt: skip


def _short(name: str) -> str:
    for maker in ("NVIDIA ", "GeForce ", "Tesla "):
        name = name.removeprefix(maker)
    return name


def sentence(report: Report, thresholds: Thresholds) -> str:
    """What it comes to: a fault, or that links and memory give what `thresholds` ask for."""
    if (worst := fault(report)) is not None:
        return f"{worst.summary}."
    found = rows(report)
    links = _links(report, found, thresholds.link_rate_share)
    return sentence_of([*links, *_memories(found), *_beside(found), *_left_alone(report)])


def fault(report: Report) -> Finding | None:
    """The gravest finding that the copies lead to, or that explains them; none that is an info."""
    found = [f for f in report.findings if f.id in FAULTS and f.severity is not Severity.INFO]
    return max(found, key=lambda f: f.severity.rank, default=None)


def granted(report: Report) -> tuple[Gpu, ...]:
    """NVIDIA's cards that this process was given."""
    facts = report.facts
    return tuple(card for card in facts.gpus if card.vendor == "nvidia" and facts.grants(card))


def why_none(report: Report) -> str:
    """Why no card could be measured, where none is given to this process."""
    cards = report.facts.gpus
    if any(card.vendor == "nvidia" for card in cards):
        return "no NVIDIA card is given to this process: nothing to measure"
    others = [card for card in cards if card.vendor in MAKERS]
    if not others:
        return "this machine has no NVIDIA GPU: nothing to measure"
    names = listed([card.label for card in others], 4)
    return f"this machine has no NVIDIA GPU; copies to others are not measured yet: {names}"


def unmeasured(report: Report) -> tuple[str, ...]:
    """The cards that were to be measured, and whose link was not in both directions."""
    known = {
        row.address for row in rows(report) if TO_CARD in row.figures and FROM_CARD in row.figures
    }
    return tuple(card for card in report.facts.cuda.wanted if card not in known)


def _left_alone(report: Report) -> Iterator[str]:
    """Cards that were not to be measured: what they do is told below."""
    wanted = report.facts.cuda.wanted
    left = [card for card in granted(report) if card.pci_address not in wanted]
    if wanted and left:
        yield f"{count(len(left), 'card')} left alone"


def _links(report: Report, found: list[Row], least_share: float) -> Iterator[str]:
    sent = [row.figures[TO_CARD].transfer for row in found if TO_CARD in row.figures]
    if not sent:
        return
    missing, number = unmeasured(report), len(report.facts.cuda.wanted)
    least = " or more" if any("busy" in each.flags for each in sent) else ""
    rates = span([each.median_bytes_per_second for each in sent])
    limits = [row.limit for row in found if TO_CARD in row.figures]
    known = [limit for limit in limits if limit is not None and not limit.unjudged]
    clean = not any(each.flags for each in sent)
    whole = len(missing) < number or not missing
    if whole and len(known) == len(limits) and clean and min(_shares(found)) >= least_share:
        allowed = span([limit.bytes_per_second for limit in known], unit=False)
        yield f"{_whose_link(len(sent), number, missing)} should: {rates} of {allowed}"
        return
    whose = f"copies to {count(len(sent), 'card')}" if len(sent) > 1 else "copies to the card"
    if missing and number > 1:
        whose = f"copies to {len(sent)} of {number} cards"
    why = next((limit.unjudged for limit in limits if limit and limit.unjudged), None)
    unknown = why or ("what its link carries is not known" if clean and not known else "")
    yield f"{whose} reach {rates}{least}" + (f" ({unknown})" if unknown else "")


def _whose_link(sent: int, number: int, missing: Sequence[str]) -> str:
    """Write "every card's link carries what it", or "2 of 3 cards' links carry what they"."""
    both = number - len(missing)
    if missing:
        verb = "carries what it" if both == 1 else "carry what they"
        return f"{both} of {number} cards' links {verb}"
    return f"{'every' if sent > 1 else 'the'} card's link carries what it"


def _shares(found: list[Row]) -> list[float]:
    """What pinned copies reach of what the links carry, in both directions."""
    figures = (row.figures.get(name) for row in found for name in (TO_CARD, FROM_CARD))
    return [figure.share for figure in figures if figure and figure.share is not None]


def _memories(found: list[Row]) -> Iterator[str]:
    copied = [row.figures[COPY] for row in found if COPY in row.figures]
    if not copied:
        return
    rates = span([each.transfer.median_bytes_per_second for each in copied])
    of = ""
    if known := [row.memory for row in found if COPY in row.figures and row.memory]:
        of = f" of {span(known, unit=False)}" if len(known) == len(copied) else ""
    least = " or more" if any("busy" in each.transfer.flags for each in copied) else ""
    yield f"GPU memory copies at {rates}{least}{of}"


def _beside(found: list[Row]) -> Iterator[str]:
    """What cards lose to one another, where it is much."""
    shares = [f.share for row in found for f in row.beside.values() if f.share is not None]
    if shares and min(shares) < ALIKE:
        yield f"all at once the slowest gets {percent(min(shares))} of its rate alone"


def span(rates: Sequence[float], *, unit: bool = True) -> str:
    """Write "25.1 GB/s" or "25.1 to 26.3 GB/s"."""
    low, high = rate(min(rates)), rate(max(rates))
    text = low if low == high else f"{low} to {high}"
    return f"{text} GB/s" if unit else text


def beside_sentence(found: list[Row]) -> str:
    """What all cards get at once, against each alone."""
    parts, shares = [], []
    for name, words in ((TO_CARD, "to the cards"), (FROM_CARD, "from them")):
        each = [row.beside[name] for row in found if name in row.beside]
        if each:
            whole = sum(figure.transfer.median_bytes_per_second for figure in each)
            parts.append(f"{gb_per_second(whole)} {words}")
            shares += [figure.share for figure in each if figure.share is not None]
    if not parts:
        return ""
    said = f"Together {listed(parts)}"
    if min(shares) >= ALIKE:
        return f"{said}: each as fast as alone."
    return f"{said}: the slowest gets {percent(min(shares))} of what it gets alone."


def peers(report: Report) -> dict[tuple[int, int], Transfer]:
    """Place of a card among those measured, of another -> how fast one copies to the other."""
    places = {address: place for place, address in enumerate(addresses(report.transfers))}
    return {
        (places[each.card], places[each.peer]): each
        for each in report.transfers
        if each.name == PEER and each.peer in places and each.card in places
    }


def peer_sentence(report: Report) -> str:
    """How the copies between cards go, and what may send them round."""
    found = list(peers(report).values())
    if not found:
        return ""
    staged = [each for each in found if each.direct is False]
    direct = [each for each in found if each.direct]
    number = len(addresses(report.transfers))
    said = []
    if len(found) < number * (number - 1):
        said.append(f"{len(found)} of {number * (number - 1)} pairs were measured")
    if direct and not staged:
        said.append("copies go from card to card without the host's memory")
    elif staged:
        pairs = f"{len(staged)} of {count(len(found), 'pair')}" if direct else "all pairs"
        said.append(f"copies of {pairs} go through the host's memory")
    if why := _redirected(report):
        said.append(why)
    return sentence_of(said)


def sentence_of(parts: Sequence[str]) -> str:
    """The parts as one sentence."""
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def _redirected(report: Report) -> str:
    ports = redirecting(report.facts, addresses(report.transfers))
    if not ports:
        return ""
    names = listed(ports, 2)
    iommu = ", and the IOMMU is on" if report.facts.pcie.iommu else ""
    return f"ports with ACS redirect ({names}) send traffic between cards up to the root{iommu}"


def notes(report: Report) -> list[str]:
    """Why rates are not held against a link, and links that are known by less than a look."""
    found: dict[str, list[str]] = {}
    for row in rows(report):
        if row.limit is None and TO_CARD in row.figures:
            found.setdefault("not known what its link carries", []).append(row.number)
        elif row.limit is not None and row.limit.unjudged:
            found.setdefault(f"not judged: {row.limit.unjudged}", []).append(row.number)
        elif len(row.limits) > 1:
            names = listed([limit.name for limit in row.limits])
            found.setdefault(f"its link changed between copies: {names}", []).append(row.number)
        elif row.limit is not None and row.limit.known != COPYING:
            found.setdefault(f"link {row.limit.words}", []).append(row.number)
    return [f"GPU {listed(numbers, 4)}: {why}" for why, numbers in found.items()]


def replays(report: Report) -> str:
    """Cards whose link had to send packets again."""
    counted = {
        row.number: max((f.transfer.replays or 0 for f in row.figures.values()), default=0)
        for row in rows(report)
    }
    told = [f"GPU {number} {times:,}" for number, times in counted.items() if times]
    return f"packets sent again meanwhile (replays): {listed(told)}" if told else ""


def slots(found: list[Row]) -> list[tuple[str, tuple[str, ...]]]:
    """The columns that any card has a figure for: heading, names of the transfers in it."""
    every = (
        ("to card", (TO_CARD,)),
        ("from card", (FROM_CARD,)),
        ("copied on it", (COPY,)),
        ("pageable", (TO_CARD + PAGEABLE, FROM_CARD + PAGEABLE)),
        ("read on it", (READ,)),
    )
    return [slot for slot in every if any(name in row.figures for row in found for name in slot[1])]


def cell(row: Row, names: tuple[str, ...]) -> tuple[str, str]:
    """Write "25.1" and "80 %", or "9.1/8.0" alone where a column holds both directions."""
    held = [row.figures.get(name) for name in names]
    if len(held) == 2 and any(held):
        return "/".join(rate(f.transfer.median_bytes_per_second) if f else "-" for f in held), ""
    figure = held[0]
    if figure is None:
        return "-", ""
    share = "" if figure.share is None else percent(figure.share)
    return rate(figure.transfer.median_bytes_per_second), share


def flags_of(row: Row, names: tuple[str, ...]) -> tuple[str, ...]:
    """The flags of what stands in a cell."""
    held = [row.figures[name].transfer.flags for name in names if name in row.figures]
    return tuple(dict.fromkeys(flag for flags in held for flag in flags))
