"""How many cards there are, whether they are alike, and whether the driver runs all of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.kernel_log.facts import KernelLogFacts
from nodecheck.checks.pcie.facts import Path, PcieFacts
from nodecheck.checks.seen import Past, Seen
from nodecheck.model import Action, Severity
from nodecheck.policy import Policy, Requirements
from tests.checks.gpu.judging import (
    CARD,
    CONTAINER,
    GUEST,
    H100,
    judge,
    numbered,
    seen,
    severities,
    with_facts,
)

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
CARDS = tuple(numbered(CARD, number) for number in range(8))
ADDRESSES = tuple(card.pci_address or "" for card in CARDS)


def node(
    *cards: Gpu,
    required: int | None = None,
    before: tuple[str, ...] | None = None,
    gpu: GpuFacts | None = None,
    source: str | None = "sysfs",
    on_pci: tuple[str, ...] = (),
) -> Seen:
    """A node whose policy asks for that many cards, and whose last snapshot had those."""
    paths = tuple(Path(accelerator=address, hops=()) for address in on_pci)
    base = with_facts(seen(*cards, gpu=gpu), pcie=PcieFacts(source=source, paths=paths))
    past = Past(time="2026-11-29T10:00:00+00:00", accelerators=before)
    return replace(
        base, policy=Policy(requirements=Requirements(gpus=required)), past=past if before else None
    )


def count_low(checked: Seen) -> Severity | None:
    return severities(checked).get("gpu.count_low")


@pytest.mark.parametrize(
    ("checked", "severity"),
    [
        (node(*CARDS), None),
        (node(*CARDS, required=8, before=ADDRESSES), None),
        (node(*CARDS[:7], required=8), CRITICAL),
        (node(*CARDS[:7], before=ADDRESSES), WARNING),
        (node(*CARDS[:7], required=8, before=ADDRESSES), CRITICAL),
        (node(*CARDS[:7], required=6, before=ADDRESSES), WARNING),
        (node(required=1), CRITICAL),
        (node(required=1, gpu=GpuFacts()), CRITICAL),
        # nobody could look
        (node(required=8, gpu=GpuFacts(), source=None), None),
        (node(required=8, gpu=GpuFacts(state="unresponsive"), source=None), None),
        # the gpu probe failed, PCI shows the cards
        (node(required=8, gpu=GpuFacts(), on_pci=ADDRESSES), None),
        # renumbered, or moved to other slots
        (node(*CARDS, before=tuple(f"0000:a{n}:00.0" for n in range(8))), None),
        # a container that sees no PCI compares with nothing
        (node(*CARDS[:2], before=ADDRESSES, source=None), None),
        (node(*CARDS[:2], required=8, source=None), CRITICAL),
    ],
)
def test_fewer_cards_than_there_should_be(checked: Seen, severity: Severity | None) -> None:
    assert count_low(checked) is severity


def test_the_missing_card_is_named() -> None:
    finding = judge(node(*CARDS[:7], required=8, before=ADDRESSES))["gpu.count_low"]
    assert finding.subject == "0000:08:00.0"
    assert finding.summary == "7 accelerators where 8 are required"
    assert finding.impact.startswith("1 card fewer")
    assert finding.remedy.action is Action.COLD_RESTART
    assert [piece.basis for piece in finding.evidence] == [
        "policy default: requirements.gpus",
        "snapshot of 2026-11-29T10:00:00+00:00",
    ]
    guest = with_facts(node(*CARDS[:7], required=8), virt=GUEST)
    assert judge(guest)["gpu.count_low"].remedy.action is Action.RECONFIGURE_VM
    assert judge(guest)["gpu.count_low"].subject == "accelerators"


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ({"lost": True}, {"gpu.lost": CRITICAL}),
        ({"granted": False, "driver": "vfio-pci"}, {"gpu.not_granted": INFO}),
        ({"granted": False, "device_file": True}, {"gpu.not_granted": INFO}),
        ({"granted": False, "device_file": False}, {"gpu.not_granted": INFO}),
    ],
)
def test_a_card_that_is_there_tells_of_itself(
    last: dict[str, object], found: dict[str, Severity]
) -> None:
    checked = node(*CARDS[:7], replace(CARDS[7], **last), required=8, before=ADDRESSES)
    assert severities(checked) == found


def test_cards_without_a_driver_are_there() -> None:
    cards = [Gpu(pci_address=a, vendor="nvidia", seen_by=("pci",)) for a in ADDRESSES]
    missing = GpuFacts(state="missing", message="not found")
    assert severities(node(*cards, required=8, gpu=missing)) == {"gpu.driver_missing": CRITICAL}


def test_a_card_that_left_the_bus_is_lost_and_not_missing_too() -> None:
    facts = GpuFacts(state="ok", lost=("0000:08:00.0",))
    assert severities(node(*CARDS[:7], required=8, before=ADDRESSES, gpu=facts)) == {
        "gpu.lost": CRITICAL
    }


def test_a_lost_card_and_a_missing_one_are_two_faults() -> None:
    checked = node(*CARDS[:6], replace(CARDS[6], lost=True), required=8)
    assert severities(checked) == {"gpu.lost": CRITICAL, "gpu.count_low": CRITICAL}


# Cards of one node against one another


def differ(*cards: Gpu) -> dict[str, str]:
    found = judge(seen(*cards)).get("gpu.cards_differ")
    return {piece.value.partition("): ")[2]: piece.expected or "" for piece in
            (found.evidence if found else ())}  # fmt: skip


FOUR = tuple(
    numbered(H100, n, vbios_version="96.00.89.00.01", ecc_enabled=True, compute_mode="default",
             maximum_sm_clock_mhz=1980, subsystem_id="10de:16c1")
    for n in range(4)
)  # fmt: skip


def test_cards_that_are_alike() -> None:
    assert differ(*FOUR) == {}


@pytest.mark.parametrize(
    ("odd", "value", "usual"),
    [
        ({"vbios_version": "96.00.61.00.01"}, "VBIOS 96.00.61.00.01", "96.00.89.00.01"),
        ({"power_limit_watts": 280.0}, "power limit 280 W", "300 W"),
        ({"ecc_enabled": False}, "ECC off", "on"),
        ({"memory_bytes": 40 << 30}, "memory 40 GiB", "45 GiB"),
        ({"maximum_sm_clock_mhz": 1755}, "maximum SM clock 1755 MHz", "1980 MHz"),
        ({"compute_mode": "prohibited"}, "compute mode prohibited", "default"),
    ],
)
def test_the_odd_card_is_named(odd: dict[str, object], value: str, usual: str) -> None:
    assert differ(*FOUR[:3], replace(FOUR[3], **odd)) == {value: usual}
    found = judge(seen(*FOUR[:3], replace(FOUR[3], **odd)))["gpu.cards_differ"]
    assert found.severity is INFO
    assert found.subject.startswith("GPU 3 ")


def test_the_summary_has_the_odd_card_and_both_values() -> None:
    odd = replace(FOUR[3], maximum_sm_clock_mhz=1755, vbios_version="96.00.61.00.01")
    assert judge(seen(*FOUR[:3], odd))["gpu.cards_differ"].summary == (
        "GPU 3 differs from cards of the same model: maximum SM clock 1755 MHz (not 1980 MHz) "
        "and VBIOS 96.00.61.00.01 (not 96.00.89.00.01)"
    )
    colder = replace(FOUR[2], maximum_sm_clock_mhz=1800, compute_mode="prohibited")
    assert judge(seen(*FOUR[:2], *FOUR[:2], colder, odd))["gpu.cards_differ"].summary == (
        "GPU 2 and GPU 3 differ from cards of the same model: maximum SM clock 1800 MHz and "
        "1755 MHz (not 1980 MHz), VBIOS 96.00.61.00.01 (not 96.00.89.00.01) and 1 more"
    )


def test_what_it_costs_is_a_share() -> None:
    found = judge(seen(*FOUR[:3], replace(FOUR[3], maximum_sm_clock_mhz=1782)))
    assert "maximum SM clock at 90 %" in found["gpu.cards_differ"].impact


@pytest.mark.parametrize(
    "odd",
    [
        {"vbios_version": None, "ecc_enabled": None},  # not told
        {"vbios_version": "x", "subsystem_id": "10de:1234"},  # another maker's board
        {"vbios_version": "x", "mig": True},
        {"vbios_version": "x", "name": "NVIDIA H100 NVL"},
        {"memory_bytes": H100.memory_bytes and H100.memory_bytes - (64 << 20)},
        {"vbios_version": "x", "granted": False, "driver": "vfio-pci"},
    ],
)
def test_cards_that_may_differ(odd: dict[str, object]) -> None:
    assert differ(*FOUR[:3], replace(FOUR[3], **odd)) == {}


def test_what_other_findings_tell_is_not_told_again() -> None:
    lowered = judge(seen(*FOUR[:3], replace(FOUR[3], power_limit_watts=200.0)))
    assert set(lowered) == {"gpu.power_limit_lowered"}
    asleep = judge(seen(*FOUR[:3], replace(FOUR[3], persistence=False)))
    assert set(asleep) == {"gpu.persistence_off"}
    assert differ(*FOUR[:3], replace(FOUR[3], ecc_enabled=False, memory_bytes=48 << 30)) == {
        "ECC off": "on"
    }


def test_of_two_cards_the_one_that_has_less_is_odd() -> None:
    assert differ(FOUR[0], replace(FOUR[1], power_limit_watts=280.0)) == {
        "power limit 280 W": "300 W"
    }
    other = replace(FOUR[1], power_limit_watts=290.0, default_power_limit_watts=290.0)
    assert differ(FOUR[0], other) == {"power limit 290 W": "300 W"}


# Cards on PCI against cards of the driver


def unlisted(**changes: object) -> Gpu:
    base = Gpu(
        pci_address="0000:02:00.0",
        vendor="nvidia",
        driver="nvidia",
        seen_by=("pci",),
        granted=True,
        device_file=True,
    )
    return replace(base, **changes)


def test_a_card_that_the_driver_leaves_out() -> None:
    base = seen(CARD, unlisted())
    log = KernelLogFacts(
        source="dmesg", driver_errors=("NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x26)",)
    )
    found = judge(with_facts(base, kernel_log=log))
    assert {id_: finding.severity for id_, finding in found.items()} == {
        "gpu.nvml_failed": CRITICAL
    }
    finding = found["gpu.nvml_failed"]
    assert finding.subject == "GPU (NVIDIA, 0000:02:00.0)"
    assert finding.summary == "The NVIDIA driver does not run 1 card"
    assert any("RmInitAdapter" in piece.value for piece in finding.evidence)


@pytest.mark.parametrize(
    ("card", "more"),
    [
        (unlisted(granted=False, device_file=False), {"virt": CONTAINER}),
        (unlisted(granted=False), {}),
        (unlisted(granted=None, device_file=None), {}),  # a capture does not tell
        (unlisted(driver="vfio-pci", granted=False), {}),
        (unlisted(driver=None, granted=None), {}),
        (unlisted(driver="nouveau", granted=None), {}),
        (unlisted(vendor="amd", driver="amdgpu"), {}),
    ],
)
def test_a_card_that_the_driver_need_not_list(card: Gpu, more: dict[str, object]) -> None:
    assert "gpu.nvml_failed" not in judge(with_facts(seen(CARD, card), **more))


def test_a_card_that_no_driver_could_take_is_in_its_log() -> None:
    base = seen(CARD, unlisted(driver=None, granted=None, device_file=None))
    line = "NVRM: GPU 0000:02:00.0: GPU does not have the necessary power cables connected."
    log = KernelLogFacts(source="dmesg", driver_errors=(line,))
    assert severities(with_facts(base, kernel_log=log)) == {"gpu.nvml_failed": CRITICAL}
    other = KernelLogFacts(source="dmesg", driver_errors=(line.replace("02", "09"),))
    assert judge(with_facts(base, kernel_log=other)) == {}


def test_a_lost_card_is_lost_and_not_left_out() -> None:
    assert severities(seen(CARD, unlisted(lost=True))) == {"gpu.lost": CRITICAL}


@pytest.mark.parametrize(
    ("error", "action"),
    [
        ("Insufficient External Power", Action.RESEAT),
        ("Corrupted infoROM", Action.INSPECT_HARDWARE),
        ("GPU requires reset", Action.RESET_GPU),
        ("Interrupt Request Issue", Action.RELOAD_DRIVER),
    ],
)
def test_a_refusal_has_its_own_remedy(error: str, action: Action) -> None:
    finding = judge(seen(replace(CARD, error=error)))["gpu.nvml_failed"]
    assert finding.remedy.action is action
    assert finding.remedy.cost


def test_another_version_of_the_module_is_no_fault_while_nvml_works() -> None:
    facts = GpuFacts(
        state="ok", driver_version="580.65.06", module_version="575.51.03", source="nvml"
    )
    assert judge(seen(CARD, gpu=facts)) == {}
    broken = replace(facts, state="mismatch", library_version="580.65.06", message="mismatch")
    finding = judge(seen(CARD, gpu=broken))["gpu.driver_mismatch"]
    assert finding.evidence[0].value.startswith("kernel module 575.51.03, library 580.65.06")
