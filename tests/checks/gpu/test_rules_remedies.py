"""What is advised can be done here, says what it costs, and speaks the vendor's language."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu, GpuFacts, NvLink
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Finding, Severity
from tests.checks.gpu.examples import RAISES
from tests.checks.gpu.judging import (
    CARD,
    CONTAINER,
    GUEST,
    H100,
    board,
    judge,
    numbered,
    seen,
    with_facts,
)

PENDING = {"remap_pending": True}
LINKED = tuple(NvLink(link=n, active=True) for n in range(6))
V100 = replace(CARD, name="Tesla V100-SXM2-32GB", compute_capability="7.0", nvlinks=LINKED)
A100 = replace(H100, name="NVIDIA A100-SXM4-80GB", pci_device_id="10de:20b2",
               compute_capability="8.0", nvlinks=LINKED)  # fmt: skip


def pending(node: Seen) -> Finding:
    return judge(node)["gpu.remap_pending"]


def test_a_plain_reset() -> None:
    remedy = pending(seen(replace(CARD, **PENDING))).remedy
    assert remedy.action is Action.RESET_GPU
    assert remedy.commands == ("sudo nvidia-smi --gpu-reset -i 0000:01:00.0",)
    assert "nvidia-persistenced" in remedy.text
    assert remedy.cost


def test_cards_before_ampere_are_reset_together() -> None:
    cards = (replace(numbered(V100, 0), **PENDING), numbered(V100, 1))
    remedy = pending(seen(*cards)).remedy
    assert "in one command" in remedy.text
    assert remedy.commands[0].endswith("-i 0000:01:00.0,0000:02:00.0")
    ampere = pending(seen(replace(numbered(A100, 0), **PENDING), numbered(A100, 1))).remedy
    assert "in one command" not in ampere.text
    alone = pending(seen(replace(V100, nvlinks=(), **PENDING))).remedy
    assert "in one command" not in alone.text


def test_an_ampere_card_behind_switches_needs_the_manager() -> None:
    card = replace(A100, nvlinks=None, **PENDING)
    assert "fabric manager has to run" in pending(board(card, numbered(A100, 1))).remedy.text
    assert "fabric manager" not in pending(board(replace(H100, **PENDING))).remedy.text
    assert "fabric manager" not in pending(seen(replace(CARD, **PENDING))).remedy.text


def test_without_a_manager_all_are_reset_together() -> None:
    cards = (replace(numbered(H100, 0), **PENDING), numbered(H100, 1))
    node = board(*cards, manager=False)
    assert pending(node).remedy.commands[0].endswith("-i 0000:01:00.0,0000:02:00.0")


def test_where_a_reset_is_done() -> None:
    card = replace(CARD, **PENDING)
    inside = pending(seen(card, virt=CONTAINER)).remedy
    assert "on the host, not in the container" in inside.text
    guest = pending(seen(card, virt=GUEST)).remedy
    assert "stop and start the whole virtual machine" in guest.text
    assert any(command.startswith("qm ") for command in guest.commands)
    mig = pending(seen(replace(card, mig=True))).remedy
    assert "all MIG instances" in mig.text


OTHERS = {
    "ecc_volatile_uncorrectable": 2,
    "clocks_event_reasons": ("hw_thermal_slowdown",),
    "power_limit_watts": 200.0,
}


@pytest.mark.parametrize("vendor", ["amd", "intel"])
@pytest.mark.parametrize(("member", "value"), OTHERS.items())
def test_other_vendors_cards_have_other_tools(vendor: str, member: str, value: object) -> None:
    theirs = replace(CARD, vendor=vendor, name=f"{vendor} card", seen_by=("sysfs", "pci"))
    for card in (replace(theirs, **{member: value}), replace(theirs, sm_clock_mhz=600)):
        found = judge(seen(card, gpu=GpuFacts()))
        assert found
        for finding in found.values():
            told = " ".join((*finding.remedy.commands, finding.remedy.text))
            assert "nvidia-smi" not in told, finding.id


def test_cards_of_two_vendors_get_the_tools_of_both() -> None:
    hot = replace(CARD, clocks_event_reasons=("hw_thermal_slowdown",))
    both = seen(hot, replace(numbered(hot, 1), vendor="amd"))
    commands = judge(both)["gpu.hw_thermal_slowdown"].remedy.commands
    assert any(command.startswith("nvidia-smi -i 0000:01:00.0 -q") for command in commands)
    assert any(command.startswith("amd-smi ") for command in commands)


ASKED = [example for example in RAISES.values() if isinstance(example, Seen)]


@pytest.mark.parametrize("node", ASKED)
def test_whatever_is_to_be_done_has_a_price(node: Seen) -> None:
    for finding in judge(node).values():
        if finding.severity is not Severity.INFO:
            assert finding.remedy.action is not Action.NONE, finding.id
            assert finding.remedy.cost, finding.id


# Clocks that are held down without a reason that says why


def busy(**changes: object) -> Gpu:
    clocks = {"memory_clock_mhz": 9001, "maximum_memory_clock_mhz": 9001}
    return replace(CARD, **{**clocks, **changes})


@pytest.mark.parametrize(
    ("card", "slow"),
    [
        (busy(), False),
        (busy(sm_clock_mhz=900), True),
        (busy(sm_clock_mhz=900, clocks_event_reasons=("hw_slowdown",)), False),  # told by itself
        (busy(sm_clock_mhz=900, clocks_event_reasons=("hw_slowdown", "sw_thermal_slowdown")),
         False),
        (busy(memory_clock_mhz=5001), True),
        (busy(memory_clock_mhz=8751), False),  # P2 takes 250 MHz
        (busy(memory_clock_mhz=4513, maximum_memory_clock_mhz=5005), False),
        (busy(memory_clock_mhz=5001, utilisation_share=0.5), False),
        (busy(memory_clock_mhz=5001, clocks_event_reasons=("sw_power_cap",)), False),
        (busy(memory_clock_mhz=5001, power_watts=298.0), False),
        (busy(memory_clock_mhz=405, performance_state=8), False),  # gpu.pstate_stuck
        (busy(memory_clock_mhz=None), False),
        (busy(maximum_memory_clock_mhz=None), False),
    ],
)  # fmt: skip
def test_a_clock_that_nothing_explains(card: Gpu, slow: bool) -> None:
    assert ("gpu.clocks_low_under_load" in judge(seen(card))) is slow


def test_one_sample_of_a_slowdown_explains_no_low_clock() -> None:
    """It may only flash; on a live node it was seen twice."""
    card = busy(sm_clock_mhz=900, clocks_event_reasons=("hw_slowdown",))
    assert "gpu.clocks_low_under_load" in judge(replace(seen(card), live=False))


def test_a_low_memory_clock_is_what_decode_pays_for() -> None:
    finding = judge(seen(busy(memory_clock_mhz=5001)))["gpu.clocks_low_under_load"]
    assert finding.impact == "Memory clock at 56 % of its maximum; decode slows down with it"
    assert "memory clock 5001 of 9001 MHz" in finding.evidence[0].value
    assert finding.evidence[0].expected == "75 % of the maximum memory clock or more"
    both = judge(seen(busy(memory_clock_mhz=5001, sm_clock_mhz=900)))["gpu.clocks_low_under_load"]
    assert "SM clock at 36 % of its maximum" in both.impact


def test_findings_of_a_node_with_nothing_but_facts_unread() -> None:
    bare = Gpu(pci_address="0000:01:00.0", vendor="nvidia", seen_by=("nvml",), granted=True)
    assert judge(with_facts(seen(bare))) == {}
