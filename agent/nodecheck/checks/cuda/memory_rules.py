"""Judges how fast a card's own memory copies, and whether data arrives as it was sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nodecheck.checks.cuda.facts import COPY, PEER, READ, WORDS
from nodecheck.checks.cuda.limits import addresses, alone, card_of, memory_rate, redirecting
from nodecheck.checks.gpu.facts import SLOWDOWNS, Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity, Transfer
from nodecheck.units import count, gb_per_second, listed, percent

USUAL_SHARE = 0.80
"""Of the memory's rate, what copies on a healthy card read and write: 0.77 to 0.91."""


def judge_vram(seen: Seen) -> Iterator[Finding]:
    """Cards whose memory copies far below its rate."""
    slow = sorted(_slow(seen), key=lambda each: each[1].median_bytes_per_second / each[2])
    if not slow:
        return
    gpu, worst, rate = slow[0]
    share = worst.median_bytes_per_second / rate
    yield Finding(
        id="gpu.vram_slow",
        severity=Severity.WARNING,
        subject=listed([each[0].label for each in slow]),
        summary=f"GPU memory copies at {gb_per_second(worst.median_bytes_per_second)}, "
        f"{percent(share)} of its rate",
        evidence=tuple(piece for each in slow for piece in _evidence(seen, *each)),
        impact=_vram_impact(seen, gpu, share, rate),
        remedy=Remedy(
            text="Look for a lock on the memory clock and for a lowered power limit, and take them "
            "back; then reset the card and measure again. If it stays, compare with a card of the "
            "same model and have this one inspected",
            action=Action.RESET_GPU,
            commands=(
                f"nvidia-smi -q -d CLOCK,PERFORMANCE,POWER -i {gpu.pci_address}",
                f"sudo nvidia-smi -rmc -i {gpu.pci_address}",
                f"sudo nvidia-smi --gpu-reset -i {gpu.pci_address}",
            ),
            cost="Work on the card ends; seconds",
        ),
        owner=Owner.OPERATOR,
    )


def _slow(seen: Seen) -> Iterator[tuple[Gpu, Transfer, float]]:
    least = seen.policy.thresholds.vram_rate_share
    for address in addresses(seen.transfers):
        gpu, copied = card_of(seen.facts, address), alone(seen.transfers, COPY, address)
        rate = memory_rate(gpu)
        if gpu is None or copied is None or rate is None or copied.flags:
            continue
        explained = set(SLOWDOWNS) & set(gpu.clocks_event_reasons or ())
        if copied.median_bytes_per_second < least * rate and not explained:
            yield gpu, copied, rate


def _vram_impact(seen: Seen, gpu: Gpu, share: float, rate: float) -> str:
    """Decode reads: where reads alone are well it is not what suffers."""
    read = alone(seen.transfers, READ, gpu.pci_address or "")
    if read is not None and not read.flags:
        reached = read.median_bytes_per_second
        if reached >= seen.policy.thresholds.vram_rate_share * rate:
            return (
                f"What writes to this memory takes {USUAL_SHARE / share:.1f} times as long. Reads "
                f"alone reach {gb_per_second(reached)}, {percent(reached / rate)}: decode, which "
                "reads, need not suffer"
            )
        share = reached / rate
    return (
        f"Decode is bound by this memory: expect {percent(share / USUAL_SHARE)} of the tokens a "
        "second that the card should give"
    )


def _evidence(seen: Seen, gpu: Gpu, copied: Transfer, rate: float) -> Iterator[Evidence]:
    least = seen.policy.thresholds.vram_rate_share
    yield Evidence(
        value=f"{gpu.label}: {gb_per_second(copied.median_bytes_per_second)} read and written",
        source=f"copies within the card's memory, median of {copied.passes}",
        expected=f"at least {gb_per_second(least * rate)}",
        basis=f"{percent(least)} of {gb_per_second(rate)} ({gpu.vram_rate_source or 'its rate'})",
    )
    limit, default = gpu.power_limit_watts, gpu.default_power_limit_watts
    if limit is not None and default is not None and limit < default:
        yield Evidence(
            value=f"{gpu.label}: power limit {limit:.0f} W",
            source="NVML",
            expected=f"{default:.0f} W",
            basis="its default",
        )


def judge_corrupt(seen: Seen) -> Iterator[Finding]:
    """Data that a copy changed; apart from it what got lost between cards that are well."""
    bad = [each for each in seen.transfers if each.intact is False]
    sick = {each.card for each in bad if each.name != PEER}
    lost = [each for each in bad if _may_be_lost(seen, each) and not sick & {each.card, each.peer}]
    if changed := [each for each in bad if each not in lost]:
        yield _changed(seen, changed)
    if lost:
        yield _lost(seen, lost)


def _may_be_lost(seen: Seen, each: Transfer) -> bool:
    """Whether it went from card to card over PCIe, where an IOMMU may swallow it."""
    gpu = card_of(seen.facts, each.card)
    by_nvlink = gpu is not None and any(link.active for link in gpu.nvlinks or ())
    return each.name == PEER and each.direct is not False and not by_nvlink


def _labels(seen: Seen, cards: Iterable[str]) -> list[str]:
    gpus = ((card, card_of(seen.facts, card)) for card in dict.fromkeys(cards))
    return [gpu.label if gpu else card for card, gpu in gpus]


def _changed(seen: Seen, bad: list[Transfer]) -> Finding:
    cards = dict.fromkeys(each.card for each in bad)
    return Finding(
        id="gpu.data_corrupt",
        severity=Severity.CRITICAL,
        subject=listed(_labels(seen, cards)),
        summary=f"Data was changed by copies on {count(len(cards), 'card')}",
        evidence=tuple(
            _not_intact(each, f"{each.card}: a copy {WORDS.get(each.name, 'that was read')}")
            for each in bad
        ),
        impact="Weights and results on this card are wrong without any error; none of what it "
        "computed can be trusted",
        remedy=Remedy(
            text="Take the card out of service and reset it, then measure again. If it comes back, "
            f"have the hardware inspected: {_suspect(bad)}",
            action=Action.RESET_GPU,
            commands=(
                f"sudo nvidia-smi --gpu-reset -i {next(iter(cards))}",
                "nodecheck bench gpu",
                "dcgmi diag -r 3",
            ),
            cost="Work on the card ends; the diagnosis takes half an hour",
        ),
        owner=Owner.HARDWARE,
    )


def _not_intact(each: Transfer, what: str) -> Evidence:
    return Evidence(
        value=f"{what} did not arrive as it was sent",
        source="nodecheck bench gpu, every byte compared",
        expected="the same bytes",
        basis=f"copies of {(each.buffer_bytes or 0) >> 20} MiB",
    )


def _suspect(bad: list[Transfer]) -> str:
    """Which part the copies had in common."""
    if all(each.name in (COPY, READ) for each in bad):
        return "the card's memory"
    if any(each.name in (COPY, READ) for each in bad):
        return "the card"
    if all(each.name == PEER and each.direct for each in bad):
        return "the NVLink between the cards, then the cards"
    return "the link (riser, cable, slot), the host's memory, then the card"


def _lost(seen: Seen, bad: list[Transfer]) -> Finding:
    cards = list(dict.fromkeys(card for each in bad for card in (each.card, each.peer) if card))
    pairs = {frozenset((each.card, each.peer)) for each in bad}
    ports = redirecting(seen.facts, cards)
    guest = bool(seen.facts.virt.guest)
    return Finding(
        id="gpu.data_corrupt",
        severity=Severity.CRITICAL,
        subject=listed(_labels(seen, cards)),
        summary=f"Copies from card to card do not arrive: {count(len(pairs), 'pair')}",
        evidence=(
            *(_not_intact(each, f"{each.card}: a copy to {each.peer or 'another card'}")
              for each in bad),
            *_in_the_way(seen, ports),
        ),
        impact=f"What {count(len(cards), 'card')} send one another is wrong without any error: "
        "models that are split over them give nonsense. Each card alone is well",
        remedy=Remedy(
            text=_LET_THROUGH_IN_GUEST if guest else _LET_THROUGH,
            action=Action.RECONFIGURE_VM if guest else Action.CHANGE_SETTING,
            commands=(
                "export NCCL_P2P_DISABLE=1",
                "cat /proc/cmdline",
                "sudo dmesg | grep -E 'DMAR|AMD-Vi|IO_PAGE_FAULT'",
                *(f"sudo lspci -vvv -s {port} | grep ACSCtl" for port in ports[:_PORTS_SHOWN]),
            ),
            cost="Without P2P copies go through the host's memory; a boot option takes a reboot",
        ),
        owner=Owner.HYPERVISOR if guest else Owner.OPERATOR,
    )  # fmt: skip


_PORTS_SHOWN = 2

_UNSUPPORTED = (
    "NVIDIA does not support copies from card to card over PCIe behind an IOMMU that translates"
)

_LET_THROUGH = (
    "Turn copies between cards off until it is mended (NCCL_P2P_DISABLE=1, or the engine's own "
    "switch). Let the IOMMU pass addresses through (boot with iommu=pt) or turn it off, turn ACS "
    "off at the ports between the cards, and measure again. If it stays, have the slots inspected"
)

_LET_THROUGH_IN_GUEST = (
    "Turn copies between cards off in this guest (NCCL_P2P_DISABLE=1, or the engine's own switch). "
    "Let the host be looked at: its IOMMU and ACS at the ports between the cards"
)


def _in_the_way(seen: Seen, ports: Sequence[str]) -> Iterator[Evidence]:
    """What of the platform stands between cards."""
    pcie = seen.facts.pcie
    if pcie.iommu is not None:
        yield Evidence(
            value=f"IOMMU {'on' if pcie.iommu else 'off'}",
            source=pcie.iommu_source or "sysfs",
            expected="off, or iommu=pt",
            basis=_UNSUPPORTED,
        )
    if ports:
        yield Evidence(
            value=f"ACS redirect at {listed(ports, 4)}",
            source=pcie.source or "sysfs",
            expected="no redirect",
            basis="it sends traffic between the cards up to the root, where the IOMMU is",
        )
