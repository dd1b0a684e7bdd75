"""What snapshots cannot tell is said, with what is missing."""

from __future__ import annotations

from msgspec.structs import replace

from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.model import Gap, Reason
from nodecheck.records.figures import Figure
from nodecheck.records.history.history import History
from nodecheck.records.series import DAY, HOUR
from nodecheck.records.state import State, Trait
from tests.nodes import l40
from tests.records.windows import (
    FIRST,
    asked_at_once,
    assembled,
    counter,
    rate,
    room,
    three,
    window,
)

READ, FREE = rate("dram_read@8", 60e9), room("disk_available@/", 1e9)
LOG = Gap(check="kernel_log", field="source", reason=Reason.DENIED, detail="root only")
COUNTED = (
    counter("pcie_replays@0", 0),
    counter("ram_corrected@mc0", 0),
    counter("disk_errors@/", 0),
)
BARE = State(unseen=("kernel_log.source",))


def told(*rows: tuple[Figure, ...], every: int = HOUR, state: State = BARE) -> History:
    """What snapshots of such figures and all counters of a node without cards tell."""
    return asked_at_once(assembled(*((state, (*row, *COUNTED)) for row in rows), every=every))


def test_too_few_undisturbed_measurements_are_told() -> None:
    disturbed = (rate("dram_read@8", 60e9, "contended"), FREE)
    made = told(*[disturbed] * 240, every=3 * HOUR)
    (note,) = made.notes
    assert note == (
        "Drift needs 13 undisturbed measurements an hour apart, on 8 days; there are 0 on 0 days, "
        "and 240 disturbed"
    )
    assert made.untold == ("drifts",)


def test_two_snapshots_an_hour_apart_tell_little() -> None:
    made = told((READ, FREE), (READ, FREE))
    assert made.untold == ("drifts", "forecasts")
    drift, room = made.notes
    assert drift == (
        "Drift needs 13 undisturbed measurements an hour apart, on 8 days; there are 2 on 1 day"
    )
    assert room == (
        "A forecast needs 8 snapshots an hour apart, over 24 hours; there are 2 over 1 hour"
    )


def test_snapshots_of_one_hour_are_one_point() -> None:
    drift, room = told((READ, FREE), (READ, FREE), every=60).notes
    assert drift.endswith("there is 1 on 1 day")
    assert room.endswith("there is 1 over 0 hours")


def test_enough_snapshots_that_lie_apart_are_not_called_too_few() -> None:
    """As of a node that was off for a month."""
    whole = assembled(*[(BARE, (READ, FREE, *COUNTED))] * 241)
    made = asked_at_once(replace(whole, times=(*whole.times[:-1], FIRST + 960 * HOUR)))
    assert made.untold == ("forecasts",)
    (note,) = made.notes
    assert note.endswith("there are 241 over 960 hours, but too unevenly spread")


def test_a_new_disk_among_others_is_one_of_them() -> None:
    new = room("disk_available@/mnt", 1e9)
    made = told(*[(READ, FREE)] * 300, *[(READ, FREE, new)] * 5)
    assert made.untold == ()
    (note,) = made.notes
    assert note == (
        "A forecast needs 8 snapshots an hour apart, over 24 hours; 1 of 2 figures of free space "
        "had at most 5 over 4 hours"
    )


def test_snapshots_without_measurements_are_counted() -> None:
    assert told(*[(FREE,)] * 30).notes == (
        "Drift needs measurements; no snapshot holds any (--quick leaves them out)",
    )
    notes = told(*[(READ, FREE), (FREE,), (FREE,)] * 24, every=8 * HOUR).notes
    assert notes == ("48 of 72 snapshots hold no measurements",)


def test_no_disk_is_no_forecast() -> None:
    made = told(*[(READ,)] * 240)
    assert made.notes == (
        "A forecast needs the free space of a file system; no snapshot holds any",
    )
    assert made.untold == ("forecasts",)


def test_errors_that_are_not_counted_are_named() -> None:
    rows = [(BARE, (READ, FREE, *COUNTED[:1]))] * 240
    made = asked_at_once(assembled(*rows))
    assert made.notes == (
        "Error counters need two readings; fewer were made of RAM and file system",
    )
    assert made.untold == ()
    once = asked_at_once(assembled((BARE, (READ, FREE, *COUNTED)), *[(BARE, (READ, FREE))] * 240))
    assert once.notes == (
        "Error counters need two readings; fewer were made of PCIe, RAM and file system",
    )
    assert once.untold == ("growths",)


def test_cards_have_counters_of_their_own() -> None:
    blind = [replace(three(), gaps=(LOG,))] * 2
    assert "made of GPU ECC, Xid, PCIe, RAM" in asked_at_once(window(*blind)).notes[-1]
    cards = tuple(replace(l40(n), ecc_volatile_correctable=0) for n in range(3))
    seen = three(gpus=cards, kernel_log=KernelLogFacts(source="dmesg"))
    assert "made of PCIe, RAM" in asked_at_once(window(seen, seen)).notes[-1]


def test_one_snapshot_needs_no_notes() -> None:
    assert asked_at_once(window(three())).notes == ()


def test_a_drift_that_began_with_another_nodecheck_says_so() -> None:
    old, new = (
        State(traits=(Trait("host", "version", "nodecheck", None, each),)) for each in ("1", "2")
    )
    rows = [
        (old if hour < 360 else new, (rate("dram_read@8", 60e9 if hour < 360 else 45e9), FREE))
        for hour in range(720)
    ]
    made = asked_at_once(assembled(*((state, (*row, *COUNTED)) for state, row in rows)))
    assert abs(made.drifts[0].since - (FIRST + 360 * HOUR)) < DAY
    assert made.notes == (
        "A drift began on the day that nodecheck was changed, which may measure otherwise now",
    )
