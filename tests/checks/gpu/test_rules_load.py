"""What counts as load and as a slowdown: a desktop, an idle card, a reason without a cause."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu, GpuProcess
from nodecheck.model import Action, Severity
from tests.checks.gpu.judging import CARD, judge, numbered, seen, severities

WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL
STUCK = replace(CARD, performance_state=8, sm_clock_mhz=585)
SLOW = replace(CARD, sm_clock_mhz=900)
XORG = GpuProcess(pid=812, kind="graphics", name="/usr/lib/xorg/Xorg")
ENGINE = GpuProcess(pid=4711, kind="compute", name="python3")
SLOWED = replace(CARD, utilisation_share=0.6, clocks_event_reasons=("hw_slowdown",))


@pytest.mark.parametrize("card", [STUCK, SLOW])
def test_a_card_on_which_nothing_runs_is_not_loaded(card: Gpu) -> None:
    assert judge(seen(card))
    assert judge(seen(replace(card, clocks_event_reasons=("gpu_idle",)))) == {}


@pytest.mark.parametrize("card", [STUCK, SLOW])
@pytest.mark.parametrize(
    ("processes", "silent"), [((XORG,), True), ((XORG, ENGINE), False), ((), False), (None, False)]
)
def test_a_desktop_draws_in_whatever_state_is_enough(
    card: Gpu, processes: tuple[GpuProcess, ...] | None, silent: bool
) -> None:
    assert (judge(seen(replace(card, processes=processes))) == {}) is silent


@pytest.mark.parametrize(
    "card", [SLOWED, replace(SLOWED, utilisation_share=None), replace(SLOWED, sm_clock_mhz=900)]
)
def test_a_slowdown_that_names_no_cause_is_told_by_itself(card: Gpu) -> None:
    finding = judge(seen(card))["gpu.hw_power_brake_slowdown"]
    assert (finding.severity, finding.remedy.action) == (WARNING, Action.INSPECT_HARDWARE)
    assert "hw_slowdown active" in finding.evidence[0].value
    assert finding.evidence[0].basis == "in two samples a second apart"


def test_a_slowdown_is_the_one_reason_for_a_low_clock() -> None:
    busy = replace(SLOWED, sm_clock_mhz=900, utilisation_share=0.97)
    assert severities(seen(busy)) == {"gpu.hw_power_brake_slowdown": WARNING}


def test_one_sample_of_a_slowdown_without_a_cause_proves_nothing() -> None:
    assert judge(replace(seen(SLOWED), live=False)) == {}


@pytest.mark.parametrize("cause", ["hw_thermal_slowdown", "sw_thermal_slowdown"])
def test_a_slowdown_with_a_cause_is_told_by_the_cause(cause: str) -> None:
    card = replace(SLOWED, clocks_event_reasons=("hw_slowdown", cause))
    assert set(judge(seen(card))) == {f"gpu.{cause}"}


@pytest.mark.parametrize(
    "card",
    [
        replace(SLOWED, utilisation_share=0.0),
        replace(SLOWED, clocks_event_reasons=("gpu_idle", "hw_slowdown")),
    ],
)
def test_an_idle_card_may_be_slowed(card: Gpu) -> None:
    assert judge(seen(card)) == {}


def test_a_brake_and_a_slowdown_on_two_cards_are_two_findings() -> None:
    braked = replace(CARD, clocks_event_reasons=("hw_slowdown", "hw_power_brake_slowdown"))
    node = seen(numbered(braked, 0), numbered(SLOWED, 1))
    assert judge(seen(braked))["gpu.hw_power_brake_slowdown"].severity is CRITICAL
    assert judge(node)["gpu.hw_power_brake_slowdown"].subject.startswith("GPU 1 ")
