"""Counters of errors: what they rose by, whatever set them back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.model import Gap, Reason
from nodecheck.records.figures import Kind
from nodecheck.records.history.growth import Growth, growths
from nodecheck.records.series import HOUR, Window
from nodecheck.records.state import State
from nodecheck.report import Report
from tests.nodes import l40
from tests.records.windows import FIRST, assembled, counter, rate, three, window

NOTHING = State()
ADDRESS = "0000:01:00.0"


def counted(*values: float | None) -> tuple[Growth, ...]:
    """Of one counter beside another that stands; None where it could not be read."""
    still = counter("ram_corrected@mc0", 7)
    rows = [(still,) if each is None else (still, counter("ecc", each)) for each in values]
    return growths(assembled(*((NOTHING, row) for row in rows)))


def test_a_counter_that_rose_tells_by_how_much_and_when_last() -> None:
    (found,) = counted(3, 3, 5, 5, 6, 6)
    assert (found.metric.name, found.by) == ("ecc", 3)
    assert found.newest == FIRST + 4 * HOUR
    assert found.over_seconds == 5 * HOUR


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ecc_corrected@0000:01:00.0", False),
        ("ecc_uncorrected@0000:01:00.0", True),
        ("ram_corrected@mc0", False),
        ("ram_uncorrected@mc0", True),
        ("rows_remapped@0000:01:00.0", True),
        ("pcie_replays@0000:01:00.0", False),
        ("aer_correctable@0000:01:00.0", False),
        ("aer_nonfatal@0000:01:00.0", True),
        ("aer_fatal@0000:01:00.0", True),
        ("disk_errors@/", True),
        ("xid_79@0000:01:00.0", True),
    ],
)
def test_what_was_put_right_is_no_fault(name: str, fault: bool) -> None:
    (found,) = growths(assembled(*((NOTHING, (counter(name, n),)) for n in range(2))))
    assert found.fault is fault


def test_the_time_that_it_rose_in_is_that_in_which_it_was_read() -> None:
    (found,) = counted(*[None] * 700, *range(20), *[None] * 10)
    assert (found.by, found.over_seconds) == (19, 19 * HOUR)


def test_a_counter_that_was_read_among_others_and_alone_has_one_span() -> None:
    ecc, other = counter("ecc", 1), counter("ram_corrected@mc0", 7)
    rows = [(ecc,), (other,), (ecc, other), (counter("ecc", 5),), (other,)]
    (found,) = growths(assembled(*((NOTHING, row) for row in rows)))
    assert (found.by, found.over_seconds) == (4, 3 * HOUR)


def test_a_counter_that_stands_has_not_grown() -> None:
    assert counted(3, 3, 3) == ()
    assert counted() == ()
    assert growths(Window()) == ()


def test_after_a_restart_it_counts_from_nothing() -> None:
    (found,) = counted(5, 8, 2, 2, 0, 1)
    assert found.by == 3 + 2 + 1


def test_a_restart_alone_is_no_rise() -> None:
    assert counted(5, 0, 0) == ()


def test_what_could_not_be_read_meanwhile_counts_when_it_can() -> None:
    (found,) = counted(5, None, 7, None, 7)
    assert found.by == 2


def test_a_counter_that_is_first_read_later_has_not_risen() -> None:
    assert counted(None, 500, 500) == ()


def test_what_is_no_counter_is_left_out() -> None:
    rows = [(rate("dram_read@8", float(n)),) for n in range(5)]
    assert growths(assembled(*((NOTHING, row) for row in rows))) == ()


def test_those_that_grew_last_come_first() -> None:
    rows = [(counter("a", min(n, 2)), counter("b", n), counter("c", min(n, 2))) for n in range(5)]
    found = growths(assembled(*((NOTHING, row) for row in rows)))
    assert [each.metric.name for each in found] == ["b", "a", "c"]


def test_a_reset_within_one_of_many_snapshots_is_not_missed() -> None:
    values = [1000.0] * 5000 + [1.0] + [1000.0] * 5000
    (found,) = counted(*values)
    assert found.by == 1 + 999
    assert found.newest == FIRST + 5001 * HOUR


def test_each_card_has_its_own_counters() -> None:
    cards = [replace(l40(n), ecc_volatile_correctable=0) for n in range(3)]
    worse = [cards[0], replace(cards[1], ecc_volatile_correctable=12), cards[2]]
    (found,) = growths(window(three(gpus=tuple(cards)), three(gpus=tuple(worse))))
    assert found.metric.name == "ecc_corrected@0000:02:00.0"
    assert found.metric.kind is Kind.COUNTER


def logged(*counts: int | None) -> tuple[Growth, ...]:
    """Of snapshots whose kernel log holds so many Xid 79; None where it could not be read."""
    return growths(window(*(_with_log(each) for each in counts)))


def _with_log(count: int | None) -> Report:
    if count is None:
        denied = Gap(check="kernel_log", field="source", reason=Reason.DENIED, detail="root only")
        return replace(three(), gaps=(denied,))
    xid = Xid(code=79, pci_address=ADDRESS, text="GPU has fallen off the bus.", count=count)
    return three(kernel_log=KernelLogFacts(source="dmesg", xids=(xid,) if count else ()))


def test_an_xid_that_appears_in_a_log_that_was_read_has_risen() -> None:
    (found,) = logged(0, 0, 1)
    assert (found.metric.name, found.by) == (f"xid_79@{ADDRESS}", 1)
    assert found.newest == FIRST + 2 * HOUR
    assert found.over_seconds == 2 * HOUR
    (late,) = logged(None, None, 0, 1, 1, None)
    assert late.over_seconds == 2 * HOUR


def test_an_xid_in_the_first_log_that_could_be_read_may_be_old() -> None:
    assert logged(None, 3, 3) == ()
    assert logged(3, 3) == ()


def test_a_log_that_cannot_be_read_for_a_while_is_no_empty_one() -> None:
    assert logged(3, None, 3) == ()
    (found,) = logged(3, None, 4)
    assert found.by == 1


def test_a_log_that_forgets_its_oldest_lines_brings_no_new_ones() -> None:
    assert logged(3, 2, 1, 0) == ()


def test_an_xid_after_a_boot_is_new() -> None:
    (found,) = logged(3, 0, 1)
    assert found.by == 1
