"""Judges how many cards there are: one that never came up leaves no other trace."""

from __future__ import annotations

from collections.abc import Iterator

from nodecheck.checks.gpu.presence_rules import lost_cards
from nodecheck.checks.gpu.wording import card_key
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity
from nodecheck.units import count


def _present(seen: Seen) -> int | None:
    """Accelerators that any source knows, lost and foreign ones too; None where none could look.

    Those tell of themselves: here only what no source names any more is missing.
    """
    facts = seen.facts
    if facts.pcie.source is None and facts.gpu.state != "ok":
        return None
    return len(_named(seen)) + sum(gpu.pci_address is None for gpu in facts.gpus)


def _named(seen: Seen) -> set[str | None]:
    """The keys of all cards whose address a source tells."""
    named = {card_key(gpu.pci_address) for gpu in seen.facts.gpus if gpu.pci_address}
    named |= {card_key(path.accelerator) for path in seen.facts.pcie.paths}
    return named | set(lost_cards(seen))


def _gone(seen: Seen) -> tuple[str, ...]:
    """Addresses in the history that nothing names now, where there are fewer cards than then.

    As many cards at other addresses are the same ones on a bus that was numbered anew.
    """
    then = seen.past.accelerators if seen.past else None
    now = _present(seen)
    if then is None or now is None or seen.facts.pcie.source is None or now >= len(then):
        return ()
    named = _named(seen)
    return tuple(address for address in then if card_key(address) not in named)


def too_few(seen: Seen) -> bool:
    """Whether cards are missing that nothing else tells of."""
    return _below_policy(seen) or bool(_gone(seen))


def _below_policy(seen: Seen) -> bool:
    asked, now = seen.policy.requirements.gpus, _present(seen)
    return asked is not None and now is not None and now < asked


def judge_count(seen: Seen) -> Iterator[Finding]:
    """Fewer cards than the policy asks for, or than a snapshot of the last week had."""
    if not too_few(seen):
        return
    now, gone = _present(seen) or 0, _gone(seen)
    asked = seen.policy.requirements.gpus if _below_policy(seen) else None
    then = len(seen.past.accelerators or ()) if seen.past and gone else 0
    wanted = max(asked or 0, then)
    yield Finding(
        id="gpu.count_low",
        severity=Severity.CRITICAL if asked is not None else Severity.WARNING,
        subject=", ".join(gone) if len(gone) == wanted - now else "accelerators",
        summary=f"{count(now, 'accelerator')} where {wanted} "
        + ("are required" if asked == wanted else "were"),
        evidence=tuple(_evidence(seen, now, asked, gone)),
        impact=f"{count(wanted - now, 'card')} fewer: a model that is split over {wanted} does "
        "not start",
        remedy=_remedy(seen),
        owner=Owner.HYPERVISOR if seen.facts.virt.guest else Owner.HARDWARE,
    )


def _evidence(seen: Seen, now: int, asked: int | None, gone: tuple[str, ...]) -> Iterator[Evidence]:
    looked = "PCI" if seen.facts.pcie.source is not None else ""
    driver = "the driver" if seen.facts.gpu.state == "ok" else ""
    source = " and ".join(filter(None, (looked, driver)))
    if asked is not None:
        yield Evidence(
            value=f"{now} found",
            source=source,
            expected=f"{asked} or more",
            basis=f"policy {seen.policy.name}: requirements.gpus",
        )
    if gone and seen.past is not None:
        yield Evidence(
            value=f"{', '.join(gone)}: not there any more",
            source=source,
            expected=f"{len(seen.past.accelerators or ())} accelerators",
            basis=f"snapshot of {seen.past.time}",
        )


def _remedy(seen: Seen) -> Remedy:
    if seen.facts.virt.guest:
        return Remedy(
            text="Ask whoever runs the host whether the card is given to this guest still and "
            "whether the host itself sees it. A new instance may get a complete set",
            action=Action.RECONFIGURE_VM,
            commands=("lspci -nn",),
            cost="A cold stop and start of the guest",
        )
    return Remedy(
        text="Unless it was taken out on purpose: switch the node off and on again, as a card "
        "that did not train at power-on may do so the next time. If it stays away check slot, "
        "riser, power cables and the firmware's settings for that slot",
        action=Action.COLD_RESTART,
        commands=("lspci -nn", "sudo dmesg | grep -iE 'pcieport|AER|BAR'"),
        cost="All work on the node ends",
    )
