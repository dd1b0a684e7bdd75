"""What a node's history says that bears on its next report: its cards, and fixes that held or not.

Pure: spells in, Past out.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from nodecheck.checks.seen import Past, Tried
from nodecheck.judge.lasting import addresses
from nodecheck.model import Severity
from nodecheck.records.differences import could_tell
from nodecheck.records.series import DAY, Spell
from nodecheck.records.state import State, Told

LOOKS_BACK_SECONDS = 30 * DAY
"""A fault that comes back later than that is a new one. Source: nodecheck's own judgement."""

CARDS_SECONDS = 7 * DAY
"""A missing card is told for so long after it was seen last; then the node is one with fewer.
Source: nodecheck's own judgement, the week in which an alarm is answered."""

LASTING = frozenset(
    {
        "gpu.container_lost_devices",
        "gpu.cuda_unavailable",
        "gpu.data_corrupt",
        "gpu.ecc_uncorrectable",
        "gpu.fabric_not_ready",
        "gpu.lost",
        "gpu.nvlink_down",
        "gpu.nvml_failed",
        "gpu.unresponsive",
        "gpu.xid",
        "pcie.width_below_max",
    }
)
"""Faults that stay until somebody acts. Others come and go with the load, and a second row to be
remapped is another row."""


def past(spells: Sequence[Spell]) -> Past | None:
    """What spells, oldest first, say; None where there are none."""
    if not spells:
        return None
    recent = [s for s in spells if s.last > spells[-1].last - CARDS_SECONDS and _saw_cards(s.state)]
    most = max(recent, key=lambda s: (len(_cards(s.state)), s.last), default=None)
    return Past(
        time=_iso((most or spells[-1]).last),
        accelerators=None if most is None else _cards(most.state),
        tried=tuple(_tried(spells)),
    )


def where(subject: str) -> tuple[str, ...]:
    """The PCI addresses in a finding's subject, or all of it where it has none."""
    return tuple(addresses(subject)) or (subject,)


def _saw_cards(state: State) -> bool:
    return state.looked_at("gpu", "gpus.name") and state.looked_at("gpu", "on_pci")


def _cards(state: State) -> tuple[str, ...]:
    names = {trait.where for trait in state.traits if trait.field in ("gpus.name", "on_pci")}
    return tuple(sorted(name for name in names if name and addresses(name)))


def _tried(spells: Sequence[Spell]) -> Iterator[Tried]:
    """Each fault once, by the last time that it was seen to be gone.

    With the card it has not gone: that one is missing.
    """
    had: dict[tuple[str, str], tuple[Told, State]] = {}
    gone: dict[tuple[str, str], int] = {}
    for spell in spells:
        now = {
            (told.id, place): (told, spell.state)
            for told in spell.state.findings
            if told.id in LASTING and told.severity is not Severity.INFO
            for place in where(told.subject)
        }
        for key, (told, state) in tuple(had.items()):
            there = not addresses(key[1]) or key[1] in _cards(spell.state)
            if (
                key not in now
                and there
                and could_tell(spell.state.unseen, state.unseen, told.check)
            ):
                gone[key] = spell.first
                del had[key]
        had |= now
    for (id_, place), time in gone.items():
        yield Tried(id=id_, where=place, gone=_iso(time))


def _iso(seconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="seconds")
