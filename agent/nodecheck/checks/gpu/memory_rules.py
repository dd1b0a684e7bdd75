"""Judges the cards' memory: what a reset repairs, what nothing does. One fault is told once."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu import memory, xid
from nodecheck.checks.gpu.commands import collect_log, show_memory
from nodecheck.checks.gpu.facts import Gpu, RetiredPages
from nodecheck.checks.gpu.presence_rules import lost_cards
from nodecheck.checks.gpu.wording import card_key, evidence, labels, ours, reset
from nodecheck.checks.gpu.xid_rules import event_evidence, told_events
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count

_AMD_MEMORY = "umc"


def judge_remap_failure(seen: Seen) -> Iterator[Finding]:
    """Memory that could not be repaired."""
    cards = [gpu for gpu in ours(seen) if memory.is_beyond_repair(gpu, seen)]
    events = memory.failed_events(seen)
    if not cards and not events:
        return
    known = {card_key(gpu.pci_address): gpu for gpu in seen.facts.gpus}
    names = [gpu.label for gpu in cards]
    names += [
        known[key].label
        if (key := card_key(event.pci_address)) in known
        else event.pci_address or "?"
        for event in events
    ]
    yield Finding(
        id="gpu.remap_failure",
        severity=Severity.CRITICAL,
        subject=", ".join(dict.fromkeys(names)),
        summary="Faulty GPU memory could not be remapped"
        if events or any(gpu.remap_failure for gpu in cards)
        else "So much faulty GPU memory was taken out of use that hardly any more can be",
        evidence=(
            *(_failure(gpu, seen) for gpu in cards),
            *(event_evidence(seen, event) for event in events),
        ),
        impact="Wrong results or stopped programs whenever the faulty memory is used; a reset "
        "does not repair it",
        remedy=Remedy(
            text="Take the card out of service and have it replaced; run the vendor's field "
            "diagnostics for the claim",
            action=Action.REPLACE,
            commands=show_memory(cards or [Gpu()]),
            cost="The card; the node is off while it is changed",
        ),
        owner=Owner.HARDWARE,
    )


def _failure(gpu: Gpu, seen: Seen) -> Evidence:
    if gpu.remap_failure:
        return evidence(gpu, f"Remapping Failure Occurred: Yes{_banks(gpu)}", "No")
    return evidence(
        gpu,
        _pages_words(gpu),
        f"fewer than {seen.policy.thresholds.retired_pages_max}",
        "retired_pages_max: DCGM fails at 63, and the card can retire 64",
    )


def _banks(gpu: Gpu) -> str:
    """Banks without spare rows: no fault yet, but the next one in them cannot be repaired."""
    spent = (gpu.remap_banks or {}).get("none")
    return f", {count(spent, 'memory bank')} without a spare row" if spent else ""


def _pages_words(gpu: Gpu) -> str:
    retired = gpu.retired_pages or RetiredPages()
    causes = ((retired.double_bit, "double-bit"), (retired.single_bit, "single-bit"))
    told = ", ".join(f"{number} after {name} errors" for number, name in causes if number)
    return f"{count(memory.pages(gpu), 'memory page')} retired{f' ({told})' if told else ''}"


def judge_remap_pending(seen: Seen) -> Iterator[Finding]:
    """Memory that the next reset repairs."""
    failed = memory.failed_keys(seen)
    cards = [
        gpu
        for gpu in ours(seen)
        if memory.is_pending(gpu)
        and card_key(gpu.pci_address) not in failed
        and not memory.is_beyond_repair(gpu, seen)
    ]
    if not cards:
        return
    yield Finding(
        id="gpu.remap_pending",
        severity=Severity.CRITICAL,
        subject=labels(cards),
        summary="Faulty GPU memory waits for a reset to be remapped"
        if any(gpu.remap_pending for gpu in cards)
        else "Faulty GPU memory waits for a reset to be taken out of use",
        evidence=tuple(evidence(gpu, _pending_words(gpu), "Pending: No") for gpu in cards),
        impact="Until the reset a program that meets the faulty memory is stopped",
        remedy=reset(
            cards,
            seen,
            "Drain the card and reset it: that completes the repair. The card is not broken and "
            "need not be replaced",
        ),
        owner=Owner.OPERATOR,
    )


def _pending_words(gpu: Gpu) -> str:
    counted = gpu.ecc_volatile_uncorrectable
    errors = f", {count(counted, 'uncorrectable error')} since the driver loaded" if counted else ""
    if not gpu.remap_pending:
        return f"page retirement pending, {_pages_words(gpu)}{errors}"
    rows = gpu.remapped_rows_uncorrectable
    known = "" if rows is None else f", {count(rows, 'row')} remapped after uncorrectable errors"
    return f"remap pending{known}{_banks(gpu)}{errors}"


def judge_ecc(seen: Seen) -> Iterator[Finding]:
    """Uncorrectable errors that neither a repair nor an event of the driver explains."""
    lost = set(lost_cards(seen))
    worn = [
        gpu
        for gpu in ours(seen)
        if gpu.sram_threshold_exceeded
        and card_key(gpu.pci_address) not in lost
        and not memory.is_beyond_repair(gpu, seen)
    ]
    counted = [gpu for gpu in _counted(seen, lost) if gpu not in worn]
    if worn:
        yield _worn(worn, counted)
    elif counted:
        yield Finding(
            id="gpu.ecc_uncorrectable",
            severity=Severity.WARNING,
            subject=labels(counted),
            summary=f"{_where(counted)} had uncorrectable errors since the driver was loaded",
            evidence=tuple(map(_count, counted)),
            impact="The programs that met the errors were stopped; more may follow",
            remedy=reset(
                counted,
                seen,
                "Reset the card when its work is done, then watch whether the count grows",
            ),
            owner=Owner.HARDWARE,
        )


def _counted(seen: Seen, lost: set[str]) -> list[Gpu]:
    explained = lost | memory.failed_keys(seen)
    explained |= {
        card_key(each.address)
        for each in told_events(seen)
        if (each.event is None or each.event.code in xid.MEMORY_CODES)
        and each.meaning.severity is not Severity.INFO
    }
    return [
        gpu
        for gpu in ours(seen)
        if (gpu.ecc_volatile_uncorrectable or 0) > 0
        and not memory.is_pending(gpu)
        and not memory.is_beyond_repair(gpu, seen)
        and (gpu.pci_address is None or card_key(gpu.pci_address) not in explained)
    ]


def _where(gpus: list[Gpu]) -> str:
    """What had the errors: amdgpu counts those of each part of the card, its memory is umc."""
    parts = [set(gpu.uncorrectable_by_block or {_AMD_MEMORY: 1}) for gpu in gpus]
    return "GPU memory" if all(each == {_AMD_MEMORY} for each in parts) else "The GPU"


def _count(gpu: Gpu) -> Evidence:
    lifetime = gpu.ecc_aggregate_uncorrectable
    ever = f", {lifetime} in the card's life" if lifetime is not None else ""
    by_block = gpu.uncorrectable_by_block or {}
    blocks = ", ".join(f"{block} {errors}" for block, errors in by_block.items())
    return evidence(
        gpu,
        f"{gpu.ecc_volatile_uncorrectable} uncorrectable{f' ({blocks})' if blocks else ''}{ever}",
        "0",
        "errors by part of the card; umc is its memory"
        if blocks
        else "volatile count; no remap is pending or failed",
    )


def _worn(worn: list[Gpu], counted: list[Gpu]) -> Finding:
    """The vendor's criterion for a claim, as a failed remap is for the card's DRAM."""
    return Finding(
        id="gpu.ecc_uncorrectable",
        severity=Severity.CRITICAL,
        subject=labels([*worn, *counted]),
        summary="The GPU's caches had more uncorrectable errors than the vendor lets pass",
        evidence=(
            *(
                evidence(
                    gpu,
                    "SRAM Threshold Exceeded: Yes",
                    "No",
                    "more than 4 uncorrectable errors in one bank, 2 where it corrects single bits",
                )
                for gpu in worn
            ),
            *map(_count, counted),
        ),
        impact="Programs are stopped or give wrong results again and again; caches have no spare "
        "rows",
        remedy=Remedy(
            text="Take the card out of service and run the vendor's field diagnostics: it is "
            "replaced where they confirm it",
            action=Action.INSPECT_HARDWARE,
            commands=(*show_memory(worn), *collect_log(worn)),
            cost="The card is out of service; its diagnostics take hours",
        ),
        owner=Owner.HARDWARE,
    )
