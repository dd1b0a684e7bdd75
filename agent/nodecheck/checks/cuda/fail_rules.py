"""Judges copies that failed in a way that tells of the card or its driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from nodecheck.checks.cuda import remedies
from nodecheck.checks.cuda.facts import Failed, copies_of
from nodecheck.checks.cuda.limits import card_of
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.seen import Seen
from nodecheck.model import Evidence, Finding, Owner, Severity
from nodecheck.units import count, listed

OF_THE_CARD = (214, 220, 226, 700, 702, 714, 715, 716, 717, 718, 719, 999)
"""CUresult that a copy which is right gets of a card or driver that is not: ECC_UNCORRECTABLE,
NVLINK_UNCORRECTABLE, CONTAINED, ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, HARDWARE_STACK_ERROR to
LAUNCH_FAILED, UNKNOWN. Source: cuda.h. Others tell of memory, limits or the program itself."""


def judge_failing(seen: Seen) -> Iterator[Finding]:
    """Cards whose copies end in such an error, or in the death of the process."""
    failed = [each for each in seen.facts.cuda.failed if _is_blamed(seen, each)]
    # a card that is sick alone makes others fail that copy with it
    failed = [each for each in failed if each.cards == 1 and each.peer is None] or failed
    if failed:
        yield _failing(seen, failed)


def _is_blamed(seen: Seen, each: Failed) -> bool:
    gpu = card_of(seen.facts, each.card)
    told = gpu is not None and (gpu.lost or gpu.error is not None)
    return not (each.hung or told) and (each.error is None or each.error in OF_THE_CARD)


def _failing(seen: Seen, failed: Sequence[Failed]) -> Finding:
    ends = (end for each in failed for end in (each.card, each.peer) if end is not None)
    cards = list(dict.fromkeys(ends))
    first = {each.card: each for each in reversed(failed)}
    gpus = [gpu for card in cards if (gpu := card_of(seen.facts, card)) is not None]
    reset = f"sudo nvidia-smi --gpu-reset -i {','.join(cards)}"
    remedy = remedies.FAILS_COPIES
    return Finding(
        id="gpu.cuda_unavailable",
        severity=Severity.CRITICAL,
        subject=listed([gpu.label for gpu in gpus] or cards),
        summary=f"CUDA fails copies of {names_of(gpus) or count(len(cards), 'card')}: "
        f"{_words(failed[0]).partition(':')[0]}",
        evidence=tuple(_evidence(seen, each, failed) for each in reversed(first.values())),
        impact=_impact(failed, count(len(cards), "card")),
        remedy=replace(remedy, commands=(*remedy.commands, reset, "nodecheck bench gpu")),
        owner=Owner.HARDWARE,
    )


def _impact(failed: Sequence[Failed], cards: str) -> str:
    if any(each.cards > 1 or each.peer for each in failed):
        return f"Programs that use {cards} at once end in an error; each alone was well"
    return f"{cards} of no use: engines start, and end in an error as soon as they copy or compute"


def names_of(gpus: Sequence[Gpu]) -> str:
    """Write "GPU 0 and GPU 2"; empty where the driver numbers none."""
    return listed([f"GPU {gpu.index}" for gpu in gpus if gpu.index is not None], last="and")


def _words(each: Failed) -> str:
    """CUDA's name of the error, then its words; or how the process ended."""
    if each.error is None:
        return f"the process {each.message or 'died'}"
    return each.message or f"error {each.error}"


def _evidence(seen: Seen, each: Failed, failed: Sequence[Failed]) -> Evidence:
    gpu = card_of(seen.facts, each.card)
    more = sum(other.card == each.card for other in failed) - 1
    number = "" if each.error is None else f" (error {each.error})"
    to = f" ({each.peer})" if each.peer else ""
    others = f"; {more} more failed" if more else ""
    return Evidence(
        value=f"{gpu.label if gpu else each.card}: {copies_of([each.name])}{to}: "
        f"{each.call or 'CUDA'}: {_words(each)}{number}{others}",
        source="libcuda.so.1, nodecheck bench gpu",
        expected="success",
        basis="CUDA started, and listed the card",
    )


def hung_in(seen: Seen) -> tuple[list[Gpu], str]:
    """The cards in whose copies CUDA hangs, and "copies from the card"; none where not known."""
    hung = [each for each in seen.facts.cuda.failed if each.hung]
    gpus = [gpu for each in hung if (gpu := card_of(seen.facts, each.card)) is not None]
    return gpus, copies_of(each.name for each in hung)
