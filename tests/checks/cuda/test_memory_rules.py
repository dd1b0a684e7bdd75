"""A card's own memory that copies slowly, and data that a copy changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.cuda.memory_rules import judge_corrupt, judge_vram
from nodecheck.checks.seen import Seen
from nodecheck.model import Action, Severity
from tests.checks.cuda.nodes import card, copied, node, pinned, whole

SLOW = (copied(0, "device_copy", 310),)


@given(share=st.floats(0.05, 1.1))
def test_fifty_five_percent_of_the_memorys_rate_is_the_border(share: float) -> None:
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


def test_a_power_cap_or_an_idle_clock_explains_nothing() -> None:
    idle = card(0, clocks_event_reasons=("gpu_idle", "sw_power_cap"))
    assert len(list(judge_vram(node((idle,), SLOW)))) == 1


@pytest.mark.parametrize(
    ("name", "suspect"),
    [
        ("host_to_device", "riser"),
        ("device_to_host_pageable", "riser"),
        ("peer_to_peer", "riser"),
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
