"""A fix is not advised again for a fault that came back after it: then its cause is looked for."""

from __future__ import annotations

import re

import msgspec

from nodecheck.checks.gpu.wording import NVIDIA, card_key
from nodecheck.checks.gpu.xid import FALLEN_OFF
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Evidence, Finding, Owner, Remedy, Severity

FIXES = {
    Action.RESET_GPU: "a reset",
    Action.REBOOT: "a reboot",
    Action.COLD_RESTART: "a cold restart",
    Action.RELOAD_DRIVER: "a reload of the driver",
    Action.RESTART_CONTAINER: "a restart of the container",
    Action.RESEAT: "work on slot and cables",
}
"""What is done once and should last."""

_BY_SOFTWARE = {
    "gpu.driver_mismatch": "find what updates the driver under running programs, and hold its "
    "packages back",
    "gpu.container_lost_devices": "give the devices by CDI or by name rather than through the "
    "runtime's hook, and look what reloads the host's service manager",
    "gpu.cuda_unavailable": "find what undoes it: packages, boot services, rules of udev",
}
"""Faults that no card causes -> what ends them for good."""

_INSPECT = (
    "have the hardware inspected (slot, riser, power, cooling, the card itself), with the vendor's "
    "field diagnostics for the claim"
)
_ADDRESS = re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
_LOOKS = re.compile(
    r"dmesg|lspci|ipmitool|journalctl|nvidia-smi (?:-i \S+ )?-q|amd-smi (?!set|reset)"
)


def lasting(finding: Finding, seen: Seen) -> Finding:
    """The finding, with another remedy where what it advises was done and did not last."""
    fix = FIXES.get(finding.remedy.action)
    subject = finding.id.partition(".")[0]
    if fix is None or finding.severity is Severity.INFO or subject not in ("gpu", "pcie"):
        return finding
    back = _by_history(finding, seen) or _by_log(finding, seen)
    if back is None:
        return finding
    said = f"It {back.value} and came back, so {fix} does not cure it"
    software = _BY_SOFTWARE.get(finding.id)
    if software is not None:
        text = f"{said}: {software}"
        remedy = msgspec.structs.replace(finding.remedy, text=text, action=Action.CHANGE_SETTING)
        return _with(finding, remedy, back)
    remedy = Remedy(
        text=f"{said}: {_INSPECT}",
        action=Action.INSPECT_HARDWARE,
        commands=_commands(finding, seen),
        cost="The card is out of service; the node is off while it is looked at",
    )
    return msgspec.structs.replace(_with(finding, remedy, back), owner=Owner.HARDWARE)


def _with(finding: Finding, remedy: Remedy, back: Evidence) -> Finding:
    return msgspec.structs.replace(finding, remedy=remedy, evidence=(*finding.evidence, back))


def _by_history(finding: Finding, seen: Seen) -> Evidence | None:
    """What the node's snapshots tell."""
    tried = seen.past.tried if seen.past else ()
    gone = [t.gone for t in tried if t.id == finding.id and t.where in finding.subject]
    if not gone:
        return None
    return Evidence(value=f"was gone on {max(gone)[:10]}", source="history of this node")


def _by_log(finding: Finding, seen: Seen) -> Evidence | None:
    """The same event of the same card before the last reset, driver load or boot, and after it."""
    number = re.match(r"Xid (\d{1,4}):", finding.summary) if finding.id == "gpu.xid" else None
    code = FALLEN_OFF if finding.id == "gpu.lost" else int(number[1]) if number else None
    cards = {card_key(address) for address in addresses(finding.subject)}
    log = seen.facts.kernel_log
    events = [e for e in log.xids if e.code == code and card_key(e.pci_address) in cards]
    over = {card_key(event.pci_address) for event in events if event.recovered}
    again = {card_key(event.pci_address) for event in events if not event.recovered}
    if not over & again:
        return None
    return Evidence(
        value=f"was over, with Xid {code}, at the last reset, driver load or boot",
        source=log.source or "kernel log",
    )


def _commands(finding: Finding, seen: Seen) -> tuple[str, ...]:
    """What looks at the fault, without what only tries the fix again."""
    looks = [command for command in finding.remedy.commands if _LOOKS.search(command)]
    named = addresses(finding.subject)
    looks += [f"sudo lspci -vv -s {address}" for address in named]
    cards = {card_key(address) for address in named}
    if any(g.vendor == NVIDIA and card_key(g.pci_address) in cards for g in seen.facts.gpus):
        looks.append("sudo nvidia-bug-report.sh")
    return tuple(dict.fromkeys(looks))


def addresses(subject: str) -> list[str]:
    """The PCI addresses in a finding's subject."""
    return _ADDRESS.findall(subject)
