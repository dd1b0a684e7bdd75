"""A card's own memory that copies slowly, and data that a copy changed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.cuda.memory_rules import judge_corrupt, judge_vram
from nodecheck.checks.gpu.facts import NvLink
from nodecheck.checks.seen import Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Action, Owner, Severity, Transfer
from tests.checks.cuda.nodes import address, card, copied, node, pinned, whole

SLOW = (copied(0, "device_copy", 310),)


@given(share=st.floats(0.05, 1.1))
def test_fifty_five_percent_of_the_memorys_rate_is_the_border(share: float) -> None:
    assume(abs(share - 0.55) > 1e-9)  # rounding
    found = list(judge_vram(node(transfers=(copied(0, "device_copy", share * 864.1),))))
    assert bool(found) == (share < 0.55)


def test_an_h200_at_its_usual_rate_is_well() -> None:
    h200 = card(0, "NVIDIA H200", 4800)
    assert list(judge_vram(node((h200,), (copied(0, "device_copy", 4310),)))) == []


def test_it_says_what_was_reached_of_what() -> None:
    limited = card(0, power_limit_watts=150.0, default_power_limit_watts=300.0)
    (finding,) = judge_vram(node((limited,), SLOW))
    assert finding.severity is Severity.WARNING
    assert finding.summary == "GPU memory copies at 310 GB/s, 36 % of its rate"
    assert "2 x 9001 MHz x 384 bit / 8" in (finding.evidence[0].basis or "")
    assert "power limit 150 W" in finding.evidence[1].value
    assert "45 %" in finding.impact
    assert finding.remedy.action is Action.RESET_GPU


@pytest.mark.parametrize(
    "seen",
    [
        node((card(0, clocks_event_reasons=("hw_thermal_slowdown",)),), SLOW),
        node((card(0, clocks_event_reasons=("hw_power_brake_slowdown", "gpu_idle")),), SLOW),
        node((card(0, unified_memory=True),), SLOW),
        node((card(0, mig=True),), SLOW),
        node((card(0, virtualisation="VGPU"),), SLOW),
        node((replace(card(0), vram_bytes_per_second=None),), SLOW),
        node(transfers=tuple(replace(t, flags=("busy",)) for t in SLOW)),
        node(transfers=tuple(replace(t, flags=("unsteady",)) for t in SLOW)),
        node(transfers=(copied(0, "device_read", 300),)),
        node((), SLOW),
    ],
    ids=[
        "too hot", "power brake", "unified", "MIG", "vGPU", "rate not known", "busy", "unsteady",
        "only read", "card not known",
    ],
)  # fmt: skip
def test_what_has_another_cause_or_no_measure_is_not_judged(seen: Seen) -> None:
    assert list(judge_vram(seen)) == []


def test_decode_is_not_said_to_suffer_where_reads_are_well() -> None:
    (finding,) = judge_vram(node(transfers=(*SLOW, copied(0, "device_read", 780))))
    assert "tokens a second" not in finding.impact
    assert "Reads alone reach 780 GB/s, 90 %" in finding.impact
    (finding,) = judge_vram(node(transfers=(*SLOW, copied(0, "device_read", 400))))
    assert "expect 58 % of the tokens a second" in finding.impact


def test_a_power_cap_or_an_idle_clock_explains_nothing() -> None:
    idle = card(0, clocks_event_reasons=("gpu_idle", "sw_power_cap"))
    assert len(list(judge_vram(node((idle,), SLOW)))) == 1


@pytest.mark.parametrize(
    ("name", "suspect"),
    [
        ("host_to_device", "riser"),
        ("device_to_host_pageable", "riser"),
        ("device_copy", "the card's memory"),
    ],
)
def test_a_changed_byte_is_critical(name: str, suspect: str) -> None:
    (finding,) = judge_corrupt(node(transfers=(*whole(0), copied(0, name, 20, intact=False))))
    assert finding.severity is Severity.CRITICAL
    assert suspect in finding.remedy.text
    assert finding.subject == "GPU 0 (NVIDIA L40, 0000:17:00.0)"
    assert "sudo nvidia-smi --gpu-reset -i 0000:17:00.0" in finding.remedy.commands
    assert len(finding.evidence) == 1


def test_wrong_on_the_link_and_on_the_card_is_the_cards() -> None:
    bad = tuple(replace(each, intact=False) for each in whole(0))
    (finding,) = judge_corrupt(node(transfers=bad))
    assert finding.remedy.text.endswith("inspected: the card")


def test_what_was_not_compared_is_not_wrong() -> None:
    assert list(judge_corrupt(node(transfers=pinned(0, intact=None)))) == []


def test_a_busy_cards_wrong_byte_is_wrong_too() -> None:
    bad = tuple(replace(each, intact=False, flags=("busy",)) for each in pinned(0))
    assert len(list(judge_corrupt(node(transfers=bad)))) == 1


# --- between cards ---

TWO = (card(0), card(1))


def to_each_other(
    *, intact: bool | None = False, direct: bool | None = True
) -> tuple[Transfer, ...]:
    """What two cards copied to one another."""
    pairs = ((0, 1), (1, 0))
    return tuple(
        copied(a, "peer_to_peer", 12, peer=address(b), direct=direct, intact=intact)
        for a, b in pairs
    )


def with_acs(seen: Seen) -> Seen:
    """The same behind an IOMMU, with ports that redirect."""
    paths = tuple(
        replace(way, hops=(way.hops[0], replace(way.hops[1], acs_redirect=True)))
        for way in seen.facts.pcie.paths
    )
    pcie = replace(
        seen.facts.pcie, paths=paths, iommu=True, iommu_source="/sys/kernel/iommu_groups"
    )
    return replace(seen, facts=replace(seen.facts, pcie=pcie))


def test_copies_between_well_cards_that_get_lost_are_the_platforms() -> None:
    seen = with_acs(node(TWO, (*whole(0), *whole(1), *to_each_other())))
    (finding,) = judge_corrupt(seen)
    assert finding.severity is Severity.CRITICAL
    assert finding.summary == "Copies from card to card do not arrive: 1 pair"
    assert finding.subject == (
        "GPU 0 (NVIDIA L40, 0000:17:00.0) and GPU 1 (NVIDIA L40, 0000:27:00.0)"
    )
    values = [each.value for each in finding.evidence]
    assert "0000:17:00.0: a copy to 0000:27:00.0 did not arrive as it was sent" in values
    assert "IOMMU on" in values
    assert "ACS redirect at 0000:10:01.0 and 0000:20:01.0" in values
    assert "2 cards" in finding.impact
    assert "iommu=pt" in finding.remedy.text
    assert "NCCL_P2P_DISABLE=1" in finding.remedy.text
    assert finding.remedy.action is Action.CHANGE_SETTING
    assert finding.owner is Owner.OPERATOR
    assert not any("gpu-reset" in command for command in finding.remedy.commands)
    assert "sudo lspci -vvv -s 0000:10:01.0 | grep ACSCtl" in finding.remedy.commands


def test_in_a_guest_the_platform_is_the_hosts() -> None:
    (finding,) = judge_corrupt(node(TWO, to_each_other(), virt=VirtFacts(guest=True)))
    assert finding.owner is Owner.HYPERVISOR
    assert finding.remedy.action is Action.RECONFIGURE_VM
    assert not any("IOMMU" in each.value for each in finding.evidence)


def test_a_sick_card_explains_what_is_lost_to_and_from_it() -> None:
    bad = copied(0, "device_copy", 700, intact=False)
    (finding,) = judge_corrupt(node(TWO, (bad, *to_each_other())))
    assert finding.remedy.action is Action.RESET_GPU


def test_a_sick_card_beside_others_is_a_fault_of_its_own() -> None:
    cards = (*TWO, card(2))
    bad = copied(2, "device_copy", 700, intact=False)
    first, second = judge_corrupt(node(cards, (bad, *to_each_other())))
    assert first.subject == "GPU 2 (NVIDIA L40, 0000:37:00.0)"
    assert second.summary == "Copies from card to card do not arrive: 1 pair"


def test_over_nvlink_or_through_the_host_no_iommu_is_between() -> None:
    linked = tuple(replace(each, nvlinks=(NvLink(link=0, active=True),)) for each in TWO)
    (finding,) = judge_corrupt(node(linked, to_each_other()))
    assert "NVLink between the cards" in finding.remedy.text
    (finding,) = judge_corrupt(node(TWO, to_each_other(direct=False)))
    assert "riser" in finding.remedy.text


def test_copies_between_cards_that_arrive_or_were_not_compared_are_well() -> None:
    for intact in (True, None):
        assert list(judge_corrupt(node(TWO, to_each_other(intact=intact)))) == []
