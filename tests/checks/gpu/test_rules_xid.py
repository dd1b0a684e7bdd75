"""The catalogue of events, number by number, and what the driver asks for without an event.

The table is after NVIDIA's Xid catalogue (172 numbers), and the driver's own header for the rest.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu import xid
from nodecheck.checks.gpu.facts import Fabric, Gpu, GpuFacts
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.model import Action, Severity
from tests.checks.gpu.judging import ADDRESS, CARD, GUEST, H100, board, judge, seen, severities

INFO, WARN, CRIT = Severity.INFO, Severity.WARNING, Severity.CRITICAL
RESTART, RESET, NOTHING = Action.RESTART_ENGINE, Action.RESET_GPU, Action.NONE
SUPPORT = Action.INSPECT_HARDWARE

CATALOGUE = (
    # restart the application
    ((8, 11, 25, 13, 31, 60, 69, 80), INFO, RESTART),
    ((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), INFO, RESTART),
    ((68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139), INFO, RESTART),
    # ignore
    ((37, 38, 44, 66, 67, 92, 93, 106, 107, 121, 141, 152, 153, 160, 161), INFO, NOTHING),
    ((43, 45, 137), INFO, NOTHING),
    # memory that was set aside: reset when convenient
    ((63, 94, 156), INFO, RESET),
    # no action is published
    ((162, 163, 164, 165, 166, 168, 170), INFO, NOTHING),
    # reset the GPU
    ((46, 48, 62, 95, 110, 119, 120, 136, 140, 143, 158), CRIT, RESET),
    ((109, 155), WARN, RESET),  # a program's crash, or a link that was taken down on purpose
    ((171, 172), WARN, RESET),  # details of a 48
    # the NVLink flow: without a word on how grave it is
    ((74,), CRIT, RESET),
    (tuple(range(144, 151)), WARN, RESET),
    # cabling, and the PCIe path
    ((54,), CRIT, Action.RESEAT),
    ((32, 167), WARN, Action.RESEAT),
    # support
    ((142, 157, 159, 169), WARN, SUPPORT),
    ((78,), WARN, Action.RELOAD_DRIVER),  # update software
    ((151,), WARN, Action.COLD_RESTART),  # restart the virtual machine
    # named by the driver's header alone
    ((173, 174, 175, 176), INFO, NOTHING),
    # not in use, and numbers that are no Xid
    ((1, 7, 9, 10, 12, 14, 24, 26, 30, 33, 36, 42, 47, 49, 53, 55, 59), INFO, NOTHING),
    ((61, 65, 73, 81, 87, 90, 91, 108, 111, 116, 117, 118, 122, 125, 138, 177, 999), INFO, NOTHING),
)
ROWS = [(code, severity, action) for codes, severity, action in CATALOGUE for code in codes]


def event(code: int, text: str = "text", *, over: bool = False, address: str = ADDRESS) -> Xid:
    return Xid(code=code, pci_address=address, text=text, recovered=over)


def test_every_number_is_in_the_table_once() -> None:
    codes = [code for code, _, _ in ROWS]
    assert len(codes) == len(set(codes))
    elsewhere = {xid.FALLEN_OFF, xid.REMAP_FAILED, xid.RECOVERY_ACTION}
    assert set(xid.CATALOGUE) <= set(codes) | elsewhere


@pytest.mark.parametrize(("code", "severity", "action"), ROWS)
def test_what_a_number_asks_for(code: int, severity: Severity, action: Action) -> None:
    meaning = xid.meaning(event(code))
    assert meaning is not None
    assert (meaning.severity, meaning.action) == (severity, action)
    assert meaning.text
    assert meaning.step


@pytest.mark.parametrize("code", [code for code, _, _ in ROWS])
def test_before_the_last_reset_it_is_history(code: int) -> None:
    found = judge(seen(CARD, xids=[event(code, over=True)]))["gpu.xid"]
    assert found.severity is INFO
    assert found.remedy.action is NOTHING


@pytest.mark.parametrize(
    ("code", "text", "severity"),
    [
        (145, "RLW_REMAP Nonfatal XC0 i0 Link 3", INFO),
        (145, "RLW_REMAP Fatal XC0 i0 Link 3", CRIT),
        (149, "NETIR_LINK_EVT LINK_DOWN", CRIT),
        (149, "NETIR_BER_EVENT Fatal", INFO),
        (74, "NVLink: fatal error detected on link 14", CRIT),
        (74, "NVLink: non-fatal error", INFO),
    ],
)
def test_nvlink_events_say_how_grave_they_are(code: int, text: str, severity: Severity) -> None:
    assert severities(seen(CARD, xids=[event(code, text)])) == {"gpu.xid": severity}


@pytest.mark.parametrize(
    ("value", "text", "action"),
    [
        (1, "GPU Reset Required", RESET),
        (2, "Node Reboot Required", Action.REBOOT),
        (3, "Drain P2P", RESTART),
        (4, "Drain and Reset", RESET),
        (5, "Recover IMEX Domain", RESTART),
        (6, "Bus Reset Required", Action.REBOOT),
        (7, "System Reboot Required", Action.REBOOT),
    ],
)
def test_the_step_of_a_154(value: int, text: str, action: Action) -> None:
    said = f"GPU recovery action changed from 0x0 (None) to 0x{value:x} ({text})"
    found = judge(seen(CARD, xids=[event(154, said)]))["gpu.xid"]
    assert found.severity is CRIT
    assert found.remedy.action is action


def test_a_clean_up_names_what_it_cleans_up_after() -> None:
    meaning = xid.meaning(event(45, "Ch 00000008, errorString, caused by previous Xid 149"))
    assert meaning is not None
    assert (meaning.text, meaning.step) == ("clean-up after Xid 149", "see Xid 149")


# What the driver asks for


def asked(action: str | None, **more: object) -> Gpu:
    return replace(CARD, recovery_action=action, **more)


@pytest.mark.parametrize(
    ("asks", "action"),
    [
        ("reset_gpu", RESET),
        ("drain_and_reset", RESET),
        ("reboot", Action.REBOOT),
        ("reset_bus", Action.REBOOT),
        ("drain_p2p", RESTART),
        ("recover_imex", RESTART),
        ("something new", NOTHING),
    ],
)
def test_a_driver_that_asks_without_an_event(asks: str, action: Action) -> None:
    found = judge(seen(asked(asks)))
    assert set(found) == {"gpu.xid"}
    finding = found["gpu.xid"]
    assert finding.severity is CRIT
    assert finding.summary.startswith("The driver asks to ")
    assert finding.evidence[0].value.endswith(f"recovery action {asks}")
    assert finding.evidence[0].expected == "none"
    assert finding.remedy.action is action


@pytest.mark.parametrize("asks", ["none", None])
def test_a_driver_that_asks_for_nothing(asks: str | None) -> None:
    assert judge(seen(asked(asks))) == {}


def test_what_the_driver_asks_for_is_told_once() -> None:
    said = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    for code, text in ((48, "DBE"), (154, said)):
        found = judge(seen(asked("reset_gpu"), xids=[event(code, text)]))["gpu.xid"]
        assert len(found.evidence) == 1
        assert found.summary.startswith(f"Xid {code}")


def test_an_event_of_a_program_does_not_explain_it() -> None:
    found = judge(seen(asked("reset_gpu"), xids=[event(13)]))["gpu.xid"]
    assert found.severity is CRIT
    assert found.summary == "The driver asks to reset the GPU"
    assert len(found.evidence) == 2


def test_memory_that_was_set_aside_does_not_explain_it_either() -> None:
    found = judge(seen(asked("reset_gpu"), xids=[event(94)]))["gpu.xid"]
    assert found.severity is CRIT
    assert len(found.evidence) == 2


def test_a_reboot_that_is_asked_for_goes_beyond_an_events_reset() -> None:
    found = judge(seen(asked("reboot"), xids=[event(48)]))["gpu.xid"]
    assert found.remedy.action is Action.REBOOT
    assert len(found.evidence) == 2
    guest = judge(seen(asked("reboot"), virt=GUEST))["gpu.xid"]
    assert guest.remedy.action is Action.COLD_RESTART


@pytest.mark.parametrize(
    ("card", "other"),
    [
        (asked("reset_gpu", remap_pending=True), "gpu.remap_pending"),
        (asked("drain_and_reset", remap_failure=True), "gpu.remap_failure"),
        (asked("reset_gpu", lost=True), "gpu.lost"),
    ],
)
def test_another_finding_tells_why_the_driver_asks(card: Gpu, other: str) -> None:
    assert severities(seen(card)) == {other: CRIT}


def test_a_fabric_that_is_not_ready_tells_why_the_driver_asks() -> None:
    card = replace(H100, recovery_action="drain_p2p", fabric=Fabric(state="in_progress"))
    assert severities(board(card)) == {"gpu.fabric_not_ready": CRIT}


def test_a_reboot_is_asked_for_beside_a_remap() -> None:
    assert severities(seen(asked("reboot", remap_pending=True))) == {
        "gpu.remap_pending": CRIT,
        "gpu.xid": CRIT,
    }


def test_errors_that_the_driver_wants_a_reset_for_are_not_counted_again() -> None:
    found = judge(seen(asked("drain_and_reset", ecc_volatile_uncorrectable=2)))
    assert set(found) == {"gpu.xid"}
    assert "2 uncorrectable memory errors" in found["gpu.xid"].evidence[0].value


def test_another_ones_card_is_left_alone() -> None:
    assert "gpu.xid" not in judge(seen(asked("reset_gpu", granted=False, driver="vfio-pci")))


def test_a_card_that_refuses_until_its_reset_is_told_once() -> None:
    refuses = replace(CARD, error="GPU requires reset")
    assert severities(seen(refuses)) == {"gpu.nvml_failed": CRIT}
    assert judge(seen(refuses))["gpu.nvml_failed"].remedy.action is RESET
    assert severities(seen(refuses, xids=[event(48)])) == {"gpu.xid": CRIT}
    assert severities(seen(replace(refuses, remap_pending=True))) == {"gpu.remap_pending": CRIT}


def test_many_events_are_judged_at_once() -> None:
    events = [event(code, f"text {n}") for code in (13, 31, 48, 145) for n in range(250)]
    node = seen(*(replace(CARD, index=n) for n in range(8)), xids=events)
    assert judge(node)["gpu.xid"].severity is CRIT
    assert len(judge(node)["gpu.xid"].evidence) == 4


def test_a_log_that_may_not_be_read_leaves_what_the_driver_asks() -> None:
    node = seen(asked("reset_gpu"), gpu=GpuFacts(state="ok", source="nvml"))
    assert judge(node)["gpu.xid"].remedy.commands[0].startswith("sudo nvidia-smi --gpu-reset")
