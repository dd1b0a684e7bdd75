"""Asks amdgpu, i915 and xe of their cards: each in a child, so that a sick one hides no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from nodecheck.checks.gpu import amd, intel
from nodecheck.checks.gpu.card_files import CardFiles, Refusals, RefusalsByCard, Told
from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.gpu.wording import AMD, INTEL
from nodecheck.machine import child, stuck
from nodecheck.machine.child import Outcome
from nodecheck.machine.pci import Bus, PciDevice
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason

DEADLINE_SECONDS = 3.0
"""A card that sleeps wakes within one, and a second sample follows a second later."""

_READERS = {AMD: ((amd.DRIVER,), amd.read), INTEL: (intel.DRIVERS, intel.read)}


def read(reader: Reader, bus: Bus, cards: Sequence[Gpu]) -> tuple[list[Gpu], RefusalsByCard]:
    """The cards of AMD and Intel among `cards` as their drivers tell them, and what they do not.

    A card whose driver does not answer has its `error`.
    """
    tasks: dict[str, Callable[[], Told]] = {}
    asked: dict[str, Gpu] = {}
    for card in cards:
        drivers, ask = _READERS.get(card.vendor or "", ((), None))
        if ask is None or card.pci_address is None or card.driver not in (None, *drivers):
            continue
        way = bus.way_to_root(card.pci_address)
        asked[card.pci_address] = card
        tasks[card.pci_address] = partial(_one, reader, ask, card, way)
    told: list[Gpu] = []
    refusals: RefusalsByCard = {}
    for address, outcome in _outcomes(tasks, live=reader.host.live).items():
        gpu, refusals[address] = _taken(reader, asked[address], outcome)
        told.append(gpu)
    return told, refusals


def _one(
    reader: Reader,
    ask: Callable[[CardFiles, Gpu, Sequence[PciDevice]], Told],
    card: Gpu,
    way: Sequence[PciDevice],
) -> Told:
    return ask(CardFiles(reader, card.pci_address or ""), _bare(card), way)


def _bare(card: Gpu) -> Gpu:
    """What names the card; where it lies PCI tells."""
    return Gpu(
        pci_address=card.pci_address,
        vendor=card.vendor,
        pci_device_id=card.pci_device_id,
        driver=card.driver,
    )


def _outcomes(tasks: dict[str, Callable[[], Told]], *, live: bool) -> dict[str, Outcome[Told]]:
    """A captured tree does not hang; of the live machine all cards are asked at once."""
    if not live:
        return {address: Outcome(value=task()) for address, task in tasks.items()}
    found: dict[str, Outcome[Told]] = {}
    for address in tasks:
        if pid := stuck.stuck_pid(_marker(address)):
            error = f"not tried, process {pid} still hangs on it"
            found[address] = Outcome(error=error, hung=True)
    left = {address: task for address, task in tasks.items() if address not in found}
    for address, outcome in child.gather(left, Told, DEADLINE_SECONDS).items():
        if outcome.stuck_pid is not None:
            stuck.remember(_marker(address), outcome.stuck_pid)
        found[address] = outcome
    return found


def _marker(address: str) -> str:
    return f"sysfs {address}"


def _taken(reader: Reader, card: Gpu, outcome: Outcome[Told]) -> tuple[Gpu, Refusals]:
    if outcome.value is not None:
        return outcome.value.gpu, outcome.value.refusals
    silent = _bare(card)
    if outcome.hung:
        return msgspec.structs.replace(silent, error=f"sysfs: {outcome.error}"), {}
    reader.gap("gpus", Reason.FAILED, f"sysfs of {card.pci_address}: {outcome.error}")
    return silent, {}
