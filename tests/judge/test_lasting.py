"""A fix that did not last is not advised again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import GpuFacts
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.checks.seen import Past, Seen, Tried
from nodecheck.judge.lasting import lasting
from nodecheck.model import Action, Finding, Owner
from tests.checks.gpu.judging import ADDRESS, CARD, CONTAINER, GUEST, judge, numbered, seen

INSPECT = Action.INSPECT_HARDWARE


def event(code: int, *, over: bool = False, address: str = ADDRESS) -> Xid:
    return Xid(code=code, pci_address=address, text="text", recovered=over)


def after(
    node: Seen, id_: str, where: str = ADDRESS, gone: str = "2026-11-20T10:00:00+00:00"
) -> Seen:
    """The node, which had that fault before."""
    tried = (Tried(id=id_, where=where, gone=gone),)
    return replace(node, past=Past(time="2026-11-29T10:00:00+00:00", tried=tried))


def judged(node: Seen, id_: str) -> Finding:
    return lasting(judge(node)[id_], node)


LOST = seen(replace(CARD, lost=True))
FAULTY = seen(CARD, xids=[event(48)])
BARE = seen(replace(CARD, error="Interrupt Request Issue"))

CAPPED = seen(replace(CARD, power_limit_watts=200.0, clocks_event_reasons=("sw_power_cap",)))


@pytest.mark.parametrize(
    ("node", "id_", "fix"),
    [
        (LOST, "gpu.lost", "a reboot"),
        (seen(replace(CARD, lost=True), virt=GUEST), "gpu.lost", "a cold restart"),
        (FAULTY, "gpu.xid", "a reset"),
        (seen(replace(CARD, ecc_volatile_uncorrectable=2)), "gpu.ecc_uncorrectable", "a reset"),
        (BARE, "gpu.nvml_failed", "a reload of the driver"),
        (
            seen(replace(CARD, clocks_event_reasons=("hw_power_brake_slowdown",))),
            "gpu.hw_power_brake_slowdown",
            "work on slot and cables",
        ),
    ],
)
def test_a_fault_that_came_back_is_inspected(node: Seen, id_: str, fix: str) -> None:
    first = judged(node, id_)
    assert first == judge(node)[id_]
    again = judged(after(node, id_), id_)
    assert again.remedy.action is INSPECT
    assert again.remedy.text.startswith(
        f"It was gone on 2026-11-20 and came back, so {fix} does not cure it: have the hardware"
    )
    assert "field diagnostics" in again.remedy.text
    assert again.remedy.cost
    assert again.owner is Owner.HARDWARE
    assert (again.severity, again.summary) == (first.severity, first.summary)
    assert again.evidence[-1].source == "history of this node"


def test_commands_that_look_stay_and_those_that_try_again_go() -> None:
    commands = judged(after(FAULTY, "gpu.xid"), "gpu.xid").remedy.commands
    assert commands == (
        "sudo dmesg | grep -E 'NVRM|Xid'",
        f"sudo lspci -vv -s {ADDRESS}",
        "sudo nvidia-bug-report.sh",
    )
    guest = seen(replace(CARD, lost=True), virt=GUEST)
    assert not any("qm " in c for c in judged(after(guest, "gpu.lost"), "gpu.lost").remedy.commands)


@pytest.mark.parametrize(
    ("node", "id_"),
    [
        (after(FAULTY, "gpu.lost"), "gpu.xid"),  # another fault
        (after(FAULTY, "gpu.xid", "0000:09:00.0"), "gpu.xid"),  # another card
        (after(seen(CARD, xids=[event(13)]), "gpu.xid"), "gpu.xid"),  # info
        (after(seen(replace(CARD, remap_failure=True)), "gpu.remap_failure"), "gpu.remap_failure"),
        (after(CAPPED, "gpu.power_limit_lowered"), "gpu.power_limit_lowered"),  # a setting
    ],
)  # fmt: skip
def test_what_is_left_as_it_is(node: Seen, id_: str) -> None:
    assert judged(node, id_) == judge(node)[id_]


def test_one_of_several_cards_is_enough() -> None:
    two = seen(CARD, numbered(CARD, 1), xids=[event(48), event(48, address="0000:02:00.0")])
    assert judged(after(two, "gpu.xid", "0000:02:00.0"), "gpu.xid").remedy.action is INSPECT


def test_faults_of_software_are_not_the_hardwares() -> None:
    mismatch = seen(CARD, gpu=GpuFacts(state="mismatch"))
    again = judged(after(mismatch, "gpu.driver_mismatch", "NVIDIA driver"), "gpu.driver_mismatch")
    assert again.remedy.action is Action.CHANGE_SETTING
    assert "hold its packages back" in again.remedy.text
    dead = seen(gpu=GpuFacts(state="lost_devices"), virt=CONTAINER)
    where = judge(dead)["gpu.container_lost_devices"].subject
    lost = judged(after(dead, "gpu.container_lost_devices", where), "gpu.container_lost_devices")
    assert "CDI" in lost.remedy.text
    assert "a restart of the container does not cure it" in lost.remedy.text


# Without any history the log has evidence of its own


@pytest.mark.parametrize(
    ("events", "action"),
    [
        ([event(48, over=True), event(48)], INSPECT),
        ([event(48)], Action.RESET_GPU),
        ([event(119, over=True), event(48)], Action.RESET_GPU),
        ([event(48, over=True, address="0000:09:00.0"), event(48)], Action.RESET_GPU),
        ([event(48, over=True), event(48, address="0000:09:00.0")], Action.RESET_GPU),
        ([event(13, over=True), event(13)], Action.RESTART_ENGINE),
        ([event(48, over=True), event(13)], Action.RESTART_ENGINE),
    ],
)
def test_the_same_event_before_and_after_a_reset(events: list[Xid], action: Action) -> None:
    finding = judged(seen(CARD, xids=events), "gpu.xid")
    assert finding.remedy.action is action
    if action is INSPECT:
        assert finding.evidence[-1].source == "dmesg"
        assert "with Xid 48, at the last reset, driver load or boot" in finding.remedy.text


def test_a_card_that_fell_off_again() -> None:
    again = judged(seen(CARD, xids=[event(79, over=True), event(79)]), "gpu.lost")
    assert again.remedy.action is INSPECT
    assert judged(seen(CARD, xids=[event(79)]), "gpu.lost").remedy.action is Action.REBOOT
