"""Memory: what a reset repairs, what nothing does, what is past and proves nothing now."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu, GpuProcess, MigInstance, RetiredPages
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.model import Action, Severity
from nodecheck.serving import Workload
from nodecheck.workload.numbers import from_numbers
from tests.checks.gpu.judging import ADDRESS, CARD, judge, numbered, seen, severities

WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL
V100 = replace(
    CARD,
    name="Tesla V100-PCIE-32GB",
    pci_device_id="10de:1db6",
    remap_pending=None,
    remap_failure=None,
    retired_pages=RetiredPages(single_bit=0, double_bit=0, pending=False),
)


def pages(single: int | None, double: int | None, *, pending: bool | None = False) -> Gpu:
    retired = RetiredPages(single_bit=single, double_bit=double, pending=pending)
    return replace(V100, retired_pages=retired)


def event(code: int, text: str = "text") -> Xid:
    return Xid(code=code, pci_address=ADDRESS, text=text)


@pytest.mark.parametrize(
    ("card", "found"),
    [
        (pages(0, 0), {}),
        (pages(3, 14), {}),
        (pages(None, None, pending=None), {}),
        (pages(0, 1, pending=True), {"gpu.remap_pending": CRITICAL}),
        (pages(40, 22), {}),
        (pages(40, 23), {"gpu.remap_failure": CRITICAL}),
        (pages(40, 23, pending=True), {"gpu.remap_failure": CRITICAL}),
    ],
)
def test_retired_pages(card: Gpu, found: dict[str, Severity]) -> None:
    assert severities(seen(card)) == found


def test_a_pending_retirement_is_told_in_its_own_words() -> None:
    finding = judge(seen(pages(2, 1, pending=True), xids=[event(63, "Dynamic Page Retirement")]))
    assert set(finding) == {"gpu.remap_pending"}
    pending = finding["gpu.remap_pending"]
    assert "taken out of use" in pending.summary
    assert "3 memory pages retired (1 after double-bit errors, 2 after" in pending.evidence[0].value
    assert pending.remedy.action is Action.RESET_GPU


def test_many_retired_pages_ask_for_a_replacement() -> None:
    failure = judge(seen(pages(40, 24)))["gpu.remap_failure"]
    assert failure.remedy.action is Action.REPLACE
    assert failure.evidence[0].expected == "fewer than 63"
    assert "64 memory pages retired" in failure.evidence[0].value


@pytest.mark.parametrize("spent", [None, {"max": 2560, "none": 0}, {"max": 2558, "none": 2}])
def test_banks_without_spare_rows_are_no_fault_by_themselves(spent: dict[str, int] | None) -> None:
    assert judge(seen(replace(CARD, remap_banks=spent))) == {}
    pending = judge(seen(replace(CARD, remap_banks=spent, remap_pending=True)))
    told = "2 memory banks without a spare row" in pending["gpu.remap_pending"].evidence[0].value
    assert told == bool(spent and spent["none"])


@pytest.mark.parametrize(
    "past",
    [
        {"ecc_aggregate_uncorrectable": 12, "ecc_aggregate_correctable": 4000},
        {"ecc_volatile_correctable": 900},
        {"remapped_rows_correctable": 3, "remapped_rows_uncorrectable": 2},
        {"sram_threshold_exceeded": False},
        {"sram_threshold_exceeded": None},
    ],
)
def test_what_is_past_or_corrected_proves_nothing(past: dict[str, object]) -> None:
    assert judge(seen(replace(CARD, **past))) == {}


def test_the_life_of_the_card_is_told_beside_what_happened_now() -> None:
    card = replace(CARD, ecc_volatile_uncorrectable=2, ecc_aggregate_uncorrectable=12)
    finding = judge(seen(card))["gpu.ecc_uncorrectable"]
    assert "2 uncorrectable, 12 in the card's life" in finding.evidence[0].value


WORN = replace(CARD, sram_threshold_exceeded=True)


def test_caches_with_too_many_errors_ask_for_field_diagnostics() -> None:
    finding = judge(seen(WORN))["gpu.ecc_uncorrectable"]
    assert finding.severity is CRITICAL
    assert finding.remedy.action is Action.INSPECT_HARDWARE
    assert "sudo nvidia-bug-report.sh" in finding.remedy.commands


@pytest.mark.parametrize("code", [48, 172, 140, 95])
def test_events_of_worn_caches_are_the_same_fault(code: int) -> None:
    card = replace(WORN, ecc_volatile_uncorrectable=3)
    assert severities(seen(card, xids=[event(code)])) == {"gpu.ecc_uncorrectable": CRITICAL}


def test_worn_caches_and_a_pending_remap_are_two_faults() -> None:
    assert severities(seen(replace(WORN, remap_pending=True))) == {
        "gpu.ecc_uncorrectable": CRITICAL,
        "gpu.remap_pending": CRITICAL,
    }
    assert severities(seen(replace(WORN, remap_failure=True))) == {"gpu.remap_failure": CRITICAL}
    assert severities(seen(replace(WORN, lost=True))) == {"gpu.lost": CRITICAL}


# Memory that others hold


def workload(gibibytes: int) -> Workload:
    return from_numbers("m", gibibytes << 30, layers=1, weight_type="q4_k", kv_bytes_per_token=1)


def held(used: int, *programs: GpuProcess) -> Gpu:
    return replace(CARD, memory_used_bytes=used << 30, processes=programs)


def test_the_programs_that_hold_memory_are_named() -> None:
    programs = (
        GpuProcess(pid=7, kind="graphics", name="/usr/lib/xorg/Xorg", memory_bytes=1 << 28),
        GpuProcess(pid=412, kind="compute", name="/opt/venv/bin/python3", memory_bytes=19 << 30),
        GpuProcess(pid=99, kind="compute", memory_bytes=1 << 30),
        GpuProcess(pid=5, kind="graphics", name="gnome-shell"),
    )
    finding = judge(seen(held(20, *programs), workload=workload(20)))["gpu.memory_in_use"]
    values = [piece.value for piece in finding.evidence]
    assert values[1:] == [
        "python3 (process 412): 19 GiB",
        "a program of another container (process 99): 1 GiB",
        "Xorg (process 7): 256 MiB",
    ]


def test_a_program_whose_memory_is_not_told_is_named_all_the_same() -> None:
    program = GpuProcess(pid=412, kind="compute", name="python3")
    finding = judge(seen(held(20, program), workload=workload(20)))["gpu.memory_in_use"]
    assert finding.evidence[1].value == "python3 (process 412)"


def instance(total: int, used: int | None) -> MigInstance:
    return MigInstance(
        profile=f"{total}gb",
        memory_bytes=total << 30,
        memory_used_bytes=None if used is None else used << 30,
    )


@pytest.mark.parametrize(
    ("instances", "model", "severity"),
    [
        ((instance(20, 0), instance(20, 0)), 15, None),
        ((instance(20, 18), instance(20, 0)), 15, WARNING),
        ((instance(20, 18), instance(20, 17)), 15, CRITICAL),
        ((instance(20, 18), instance(20, 17)), 30, WARNING),  # it never fitted into one
        ((instance(20, None), instance(20, None)), 15, None),
        ((), 15, None),
    ],
)
def test_memory_in_use_on_a_card_in_mig_mode(
    instances: tuple[MigInstance, ...], model: int, severity: Severity | None
) -> None:
    card = replace(CARD, mig=True, memory_used_bytes=35 << 30, mig_instances=instances)
    found = severities(seen(card, workload=workload(model)))
    assert found.get("gpu.memory_in_use") is severity


def test_whole_cards_count_together() -> None:
    cards = [numbered(held(20), 0), numbered(CARD, 1)]
    assert severities(seen(*cards, workload=workload(60)))["gpu.memory_in_use"] is WARNING
    assert severities(seen(*cards, workload=workload(80)))["gpu.memory_in_use"] is CRITICAL
