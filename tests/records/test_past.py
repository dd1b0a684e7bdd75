"""What a history says that bears on the next report: the cards there were, the fixes that held."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from nodecheck.checks.seen import Past
from nodecheck.model import Severity
from nodecheck.records.past import past
from nodecheck.records.series import HOUR, Spell
from nodecheck.records.snapshots import database
from nodecheck.records.state import State, Told, Trait
from tests.records.histories import DAY, NOON, report, stored

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"
CARDS = tuple(Trait("gpu", "gpus.name", "GPU", where, "NVIDIA L40") for where in (FIRST, SECOND))


def spells(*states: State) -> list[Spell]:
    return [
        Spell(first=n * DAY, last=n * DAY + 3 * HOUR, state=each) for n, each in enumerate(states)
    ]


def node(*findings: Told, unseen: tuple[str, ...] = ()) -> State:
    return State(traits=CARDS, findings=findings, unseen=unseen)


def xid(*addresses: str, severity: Severity = Severity.CRITICAL) -> Told:
    return Told("gpu", "gpu.xid", ", ".join(addresses), severity)


def tried(*states: State) -> list[tuple[str, str, str]]:
    told = past(spells(*states))
    assert told is not None
    return [(each.id, each.where, each.gone) for each in told.tried]


def test_no_history_says_nothing() -> None:
    assert past([]) is None


def test_cards_are_those_of_the_last_snapshot_that_could_look() -> None:
    blind = State(traits=(), unseen=("gpu.gpus",))
    told = past(spells(node(), blind))
    assert told == Past(time="1970-01-01T03:00:00+00:00", accelerators=(FIRST, SECOND))
    told = past(spells(blind))
    assert told is not None
    assert told.accelerators is None


def test_a_card_that_went_is_known_for_a_week() -> None:
    one = State(traits=CARDS[:1])
    for days, known in ((1, 2), (6, 2), (8, 1)):
        told = past(spells(node(), *[one] * days))
        assert told is not None
        assert len(told.accelerators or ()) == known
    told = past(spells(one, node(), one))
    assert told is not None
    assert told.time == "1970-01-02T03:00:00+00:00"


def test_a_fault_that_went_was_fixed_once() -> None:
    assert tried(node(xid(FIRST)), node()) == [("gpu.xid", FIRST, "1970-01-02T00:00:00+00:00")]
    assert tried(node(xid(FIRST, SECOND)), node(xid(SECOND))) == [
        ("gpu.xid", FIRST, "1970-01-02T00:00:00+00:00")
    ]


def test_a_fault_whose_card_went_was_not_fixed() -> None:
    without = State(traits=CARDS[1:])
    assert tried(node(xid(FIRST)), without, node(xid(FIRST))) == []


def test_it_counts_as_fixed_when_it_is_back() -> None:
    assert tried(node(xid(FIRST)), node(), node(xid(FIRST))) == [
        ("gpu.xid", FIRST, "1970-01-02T00:00:00+00:00")
    ]


def test_the_last_time_counts() -> None:
    four = (node(xid(FIRST)), node(), node(xid(FIRST)), node())
    assert tried(*four) == [("gpu.xid", FIRST, "1970-01-04T00:00:00+00:00")]


def test_what_nobody_could_see_is_not_gone() -> None:
    assert tried(node(xid(FIRST)), node(unseen=("kernel_log.source",))) == []
    assert tried(node(xid(FIRST)), node(unseen=("gpu.*",))) == []


def test_what_comes_and_goes_with_the_load_was_not_fixed() -> None:
    hot = Told("gpu", "gpu.hw_thermal_slowdown", FIRST, Severity.CRITICAL)
    assert tried(node(hot), node(), node(hot)) == []


def test_what_was_worth_knowing_was_no_fault() -> None:
    assert tried(node(xid(FIRST, severity=Severity.INFO)), node()) == []


def test_spells_are_read_from_a_history(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    base = report()
    stored(history, base, *(report(NOON + n * HOUR, avx2=n > 2) for n in range(1, 6)))
    read = database.read_spells(history, NOON)
    assert [(each.first, each.last) for each in read] == [
        (NOON, NOON + 2 * HOUR),
        (NOON + 3 * HOUR, NOON + 5 * HOUR),
    ]
    assert read[0].state != read[1].state
    assert [each.first for each in database.read_spells(history, NOON + HOUR)] == [
        NOON + HOUR,
        NOON + 3 * HOUR,
    ]


def test_subjects_of_findings_name_their_cards(tmp_path: Path) -> None:
    """The subjects are those that the rules write, not of this test."""
    gpus = tuple(replace(gpu, lost=gpu.index == 1) for gpu in report().facts.gpus)
    assert len(gpus) == 3
    from tests.records.windows import judged, three

    lost = judged(replace(three(gpus=gpus), time=report().time))
    assert any(finding.id == "gpu.lost" for finding in lost.findings)
    stored(tmp_path / "h.db", lost, report(NOON + HOUR))
    told = past(database.read_spells(tmp_path / "h.db", NOON - HOUR))
    assert told is not None
    assert [(each.id, each.where) for each in told.tried if each.id == "gpu.lost"] == [
        ("gpu.lost", gpus[1].pci_address)
    ]
