"""Judges how fast a card's own memory copies, and whether data arrives as it was sent."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.cuda.facts import COPY, READ, WORDS
from nodecheck.checks.cuda.limits import addresses, alone, card_of, memory_rate
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity, Transfer
from nodecheck.units import count, gb_per_second, listed, percent

SLOWED = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
)
"""Clock event reasons that are findings of their own, and explain slow memory."""

HEALTHY_SHARE = 0.80
"""Bytes read and written over the memory's rate on healthy cards: 0.77 to 0.91."""


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
        impact=f"Decode is bound by this memory: expect {percent(share / HEALTHY_SHARE)} of the "
        "tokens a second that the card should give",
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
        explained = set(SLOWED) & set(gpu.clocks_event_reasons or ())
        if copied.median_bytes_per_second < least * rate and not explained:
            yield gpu, copied, rate


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
    """Data that a copy changed."""
    bad = [each for each in seen.transfers if each.intact is False]
    if not bad:
        return
    cards = dict.fromkeys(each.card for each in bad)
    names = [gpu.label if (gpu := card_of(seen.facts, card)) else card for card in cards]
    first = next(iter(cards))
    yield Finding(
        id="gpu.data_corrupt",
        severity=Severity.CRITICAL,
        subject=listed(names),
        summary=f"Data was changed by copies on {count(len(cards), 'card')}",
        evidence=tuple(
            Evidence(
                value=f"{each.card}: a copy {WORDS.get(each.name, each.name)} did not arrive as it "
                "was sent",
                source="nodecheck bench gpu, every byte compared",
                expected="the same bytes",
                basis=f"copies of {(each.buffer_bytes or 0) >> 20} MiB",
            )
            for each in bad
        ),
        impact="Weights and results on this card are wrong without any error; none of what it "
        "computed can be trusted",
        remedy=Remedy(
            text="Take the card out of service and reset it, then measure again. If it comes back, "
            f"have the hardware inspected: {_suspect(bad)}",
            action=Action.RESET_GPU,
            commands=(
                f"sudo nvidia-smi --gpu-reset -i {first}",
                "nodecheck bench gpu",
                "dcgmi diag -r 3",
            ),
            cost="Work on the card ends; the diagnosis takes half an hour",
        ),
        owner=Owner.HARDWARE,
    )


def _suspect(bad: list[Transfer]) -> str:
    """Which part the copies had in common."""
    if all(each.name in (COPY, READ) for each in bad):
        return "the card's memory"
    if any(each.name in (COPY, READ) for each in bad):
        return "the card"
    return "the link (riser, cable, slot), the host's memory, then the card"
