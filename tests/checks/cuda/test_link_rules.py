"""Copies over links: slow for the link as it is trained, or slow only together."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodecheck.checks.cuda.link_rules import judge_shared, judge_slow
from nodecheck.checks.gpu.facts import GpuFacts
from nodecheck.checks.pcie.facts import Path
from nodecheck.checks.seen import Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.diagnose import rules
from nodecheck.links import encoded_bytes_per_second
from nodecheck.model import Action, Finding, Severity, Transfer
from nodecheck.policy import Policy
from nodecheck.thresholds import Thresholds
from nodecheck.units import GB
from tests.checks.cuda.nodes import TO, card, copied, node, pinned, way

GUEST = VirtFacts(guest=True, hypervisor="kvm")
SLOW = pinned(0, 11.2, 25.9)
ROUNDING = 1e-9
LINKS = [(gts, width) for gts in (2.5, 5.0, 8.0, 16.0, 32.0) for width in (1, 2, 4, 8, 16)]


def slow(seen: Seen) -> list[Finding]:
    return list(judge_slow(seen))


def shared(seen: Seen) -> list[Finding]:
    return list(judge_shared(seen))


# --- slow for its link ---


@given(link=st.sampled_from(LINKS), share=st.floats(0.01, 1.0), back=st.booleans())
def test_seventy_percent_of_what_the_trained_link_carries_is_the_border(
    link: tuple[float, int], share: float, back: bool
) -> None:
    assume(abs(share - 0.7) > ROUNDING)
    carried = (encoded_bytes_per_second(*link) or 0) / GB
    rates = (0.8 * carried, share * carried) if back else (share * carried, 0.8 * carried)
    ways = (way(0, gts=link[0], width=link[1]),)
    found = slow(node(transfers=pinned(0, *rates, link=link), paths=ways))
    assert [f.id for f in found] == (["pcie.link_slow"] if share < 0.7 else [])


def test_it_says_what_was_reached_of_what_and_what_it_costs() -> None:
    (finding,) = slow(node(transfers=SLOW))
    assert finding.severity is Severity.WARNING
    assert finding.subject == "0000:17:00.0"
    assert finding.summary == "Copies to GPU 0 reach 11.2 GB/s, 36 % of what the link carries"
    (evidence,) = finding.evidence
    assert evidence.value.startswith("GPU 0 (NVIDIA L40, 0000:17:00.0): 11.2 GB/s to the card")
    assert evidence.expected == "at least 22.1 GB/s"
    assert "Gen4 x16 while copying" in (evidence.basis or "")
    assert finding.impact.startswith("0.9 s for 10 GB of weights instead of 0.5")
    assert finding.remedy.action is Action.CHANGE_SETTING


def test_a_guest_cannot_help_itself() -> None:
    (finding,) = slow(node(transfers=SLOW, virt=GUEST))
    assert finding.remedy.action is Action.RECONFIGURE_VM
    assert "the host" in finding.remedy.text


def test_several_cards_are_one_finding_the_worst_first() -> None:
    cards = (card(0), card(1))
    (finding,) = slow(node(cards, (*pinned(0, 20, 20), *pinned(1, 5, 26))))
    assert "reach 5 GB/s" in finding.summary
    assert [e.value.split(":")[0] for e in finding.evidence] == [
        "GPU 1 (NVIDIA L40, 0000",
        *["GPU 0 (NVIDIA L40, 0000"] * 2,
    ]


def test_a_policy_moves_the_border() -> None:
    strict = Policy(thresholds=Thresholds(link_rate_share=0.82))
    seen = node(transfers=pinned(0))
    assert slow(seen) == []
    assert len(slow(replace(seen, policy=strict))) == 1


def test_the_best_copy_alone_counts_not_those_beside_others() -> None:
    beside = pinned(0, 6, 6, cards=2)
    assert slow(node(transfers=(*beside, *pinned(0)))) == []
    pageable = copied(0, f"{TO}_pageable", 3)
    assert slow(node(transfers=(pageable, *pinned(0)))) == []


EMULATED = (way(0, emulated=True),)
NARROW_ABOVE = way(0, "0000:11:00.0", "0000:10:00.0", "0000:00:01.0")
HOPS = NARROW_ABOVE.hops
NARROW = Path(
    accelerator=NARROW_ABOVE.accelerator,
    hops=(*HOPS[:2], replace(HOPS[2], current_width=8), HOPS[3]),
)


@pytest.mark.parametrize(
    "seen",
    [
        node(transfers=tuple(replace(t, flags=("busy",)) for t in SLOW)),
        node(transfers=tuple(replace(t, flags=("unsteady",)) for t in SLOW)),
        node(transfers=SLOW, paths=EMULATED),
        node((card(0, link_generation=None),), pinned(0, 3, 3, link=(None, None))),
        node((card(0, link_generation=1),), pinned(0, 3, 3, link=(None, None))),
        node(transfers=SLOW, driver=GpuFacts(state="ok", confidential_compute=True)),
        node((card(0, chip_to_chip=True),), SLOW),
        node((card(0, unified_memory=True),), SLOW),
        node((card(0, virtualisation="VGPU"),), SLOW),
        node((card(0), card(1, utilisation_share=0.9)), SLOW),
        node((card(0), card(1, utilisation_share=0.9, granted=False)), SLOW),
        node(transfers=pinned(0, 60, 60, link=(64.0, 16))),
        node(transfers=pinned(0, 12.5, 12.6), paths=(NARROW,)),
        node(transfers=pinned(0, 12.5, 12.6, link=(8.0, 16))),
        node(transfers=()),
    ],
    ids=[
        "busy", "unsteady", "emulated port", "link not known", "idle link", "confidential",
        "chip to chip", "unified", "vGPU", "another card works", "a stranger's card works",
        "faster than any known", "narrow uplink", "trained lower", "nothing measured",
    ],
)  # fmt: skip
def test_what_proves_nothing_is_not_judged(seen: Seen) -> None:
    assert slow(seen) == []


def test_without_a_look_the_drivers_link_counts_where_it_is_at_its_maximum() -> None:
    full = card(0, link_generation=4)
    (finding,) = slow(node((full,), pinned(0, 11, 25, link=(None, None)), paths=()))
    assert "Gen4 x16 as the driver tells it" in (finding.evidence[0].basis or "")


def test_a_link_below_its_maximum_while_copying_is_the_fault_of_its_speed() -> None:
    seen = node(transfers=pinned(0, 12.5, 12.6, link=(8.0, 16)))
    assert [f.id for rule in rules() for f in rule.judge(seen)] == ["pcie.speed_below_max"]


def test_each_copy_is_held_against_the_link_as_it_ran_for_it() -> None:
    to, _ = pinned(0, 12.4, link=(8.0, 16))
    _, back = pinned(0)
    assert slow(node(transfers=(to, back))) == []
    ids = {f.id for rule in rules() for f in rule.judge(node(transfers=(to, back)))}
    assert ids == {"pcie.speed_below_max"}


def test_a_copy_that_is_slow_for_its_own_slower_link_is_slow_all_the_same() -> None:
    to, _ = pinned(0, 9.0, link=(8.0, 16))
    _, back = pinned(0)
    (finding,) = slow(node(transfers=(to, back)))
    assert finding.summary == "Copies to GPU 0 reach 9 GB/s, 57 % of what the link carries"
    assert "Gen3 x16 while copying" in (finding.evidence[0].basis or "")


def test_a_copy_that_nobody_looked_at_is_held_against_a_link_that_did_not_change() -> None:
    to, _ = pinned(0, 12.4, link=(None, None))
    _, back = pinned(0)
    assert len(slow(node(transfers=(to, back)))) == 1
    other = copied(0, f"{TO}_pageable", 9.1, link=(8.0, 16))
    assert slow(node(transfers=(to, back, other))) == []
    full = card(0, link_generation=4)
    assert slow(node((full,), transfers=(to, back, other))) == []


def test_a_port_above_that_is_set_to_run_slower_is_the_limit() -> None:
    ends = NARROW_ABOVE.hops
    slowed = replace(NARROW_ABOVE, hops=(*ends[:3], replace(ends[3], target_gts=8.0)))
    assert len(slow(node(transfers=pinned(0, 12.5, 12.6), paths=(NARROW_ABOVE,)))) == 1
    assert slow(node(transfers=pinned(0, 12.5, 12.6), paths=(slowed,))) == []


def test_a_link_that_was_fast_while_copying_is_not_called_idle() -> None:
    idle = way(0, gts=16.0)
    slept = replace(idle, hops=tuple(replace(hop, current_gts=2.5) for hop in idle.hops))

    def found(*transfers: Transfer) -> list[str]:
        seen = node(transfers=transfers, paths=(slept,))
        return [f.id for rule in rules() for f in rule.judge(seen)]

    assert found() == ["pcie.idle_downshift"]
    assert found(*pinned(0)) == []


def test_a_link_that_sends_again_and_again_is_the_fault_of_its_errors() -> None:
    def found(replays: int) -> list[str]:
        transfers = tuple(replace(t, replays=replays, replay_seconds=6.0) for t in SLOW)
        return [f.id for rule in rules() for f in rule.judge(node(transfers=transfers))]

    assert "pcie.link_slow" not in found(400)
    assert "pcie.aer" in found(400)
    assert "pcie.link_slow" in found(1)


# --- slow together ---

TWO = (card(0), card(1))
FOUR = tuple(card(n) for n in range(4))


def behind(number: int, switch: str = "0000:10:00.0") -> Path:
    """A card below a port of a switch with that uplink."""
    return way(number, f"{switch[:5]}11:0{number}.0", switch, f"{switch[:5]}00:01.0")


def measured(numbers: tuple[int, ...], to: float, back: float = 25.9) -> tuple[Transfer, ...]:
    """Cards that get 25.1 and 26.2 alone, and so much together."""
    every = [pinned(n) for n in numbers]
    every += [pinned(n, to, back, cards=len(numbers)) for n in numbers]
    return tuple(each for pair in every for each in pair)


def test_cards_behind_one_uplink_that_slow_one_another_share_it() -> None:
    (finding,) = shared(node(TWO, measured((0, 1), 12.6), (behind(0), behind(1))))
    assert finding.severity is Severity.INFO
    assert finding.subject == "0000:17:00.0, 0000:27:00.0"
    assert finding.summary == (
        "2 cards share one way to the host: 25.2 GB/s to all of them together"
    )
    (evidence,) = finding.evidence
    assert evidence.value.startswith("GPU 0 and GPU 1: 12.6 + 12.6 = 25.2 GB/s")
    assert "0000:10:00.0, which carries 31.5 GB/s" in (evidence.basis or "")
    assert "2.0 times as long" in finding.impact


def test_groups_behind_different_uplinks_are_told_apart() -> None:
    ways = (behind(0), behind(1), behind(2, "0001:10:00.0"), behind(3, "0001:10:00.0"))
    (finding,) = shared(node(FOUR, measured((0, 1, 2, 3), 12.6), ways))
    assert "4 cards share 2 ways to the host" in finding.summary
    assert [e.value.split(":")[0] for e in finding.evidence] == [
        "GPU 0 and GPU 1",
        "GPU 2 and GPU 3",
    ]


def test_one_direction_is_enough() -> None:
    (finding,) = shared(node(TWO, measured((0, 1), 25, 13), (behind(0), behind(1))))
    assert "from all of them together" in finding.summary


def test_where_no_way_is_seen_those_that_slow_one_another_share_one() -> None:
    for ways in ((), (way(0, emulated=True), way(1, emulated=True))):
        (finding,) = shared(node(TWO, measured((0, 1), 12.6), ways))
        assert "no link that they share is visible" in (finding.evidence[0].basis or "")


@given(share=st.floats(0.05, 1.2))
def test_three_quarters_of_the_rate_alone_is_the_border(share: float) -> None:
    found = shared(node(TWO, measured((0, 1), share * 25.1), (behind(0), behind(1))))
    assert bool(found) == (share * 25.1 < 0.75 * 25.1)


@pytest.mark.parametrize(
    "seen",
    [
        node(TWO, measured((0, 1), 12.6), (way(0), way(1))),
        node(TWO, measured((0, 1), 24), (behind(0), behind(1))),
        node(TWO, (*pinned(0), *pinned(1)), (behind(0), behind(1))),
        node(TWO, (*pinned(0), *pinned(1), *pinned(0, 12, 12, cards=2), *pinned(1, cards=2)),
             (behind(0), behind(1))),
        node(TWO, tuple(replace(t, flags=("busy",)) for t in measured((0, 1), 12.6)),
             (behind(0), behind(1))),
    ],
    ids=["ways of their own", "as fast as alone", "not measured together", "one alone", "busy"],
)  # fmt: skip
def test_what_is_no_shared_uplink(seen: Seen) -> None:
    assert shared(seen) == []


def test_unsteady_rates_are_what_sharing_gives() -> None:
    rates = tuple(
        replace(t, flags=("unsteady",)) if t.cards > 1 else t for t in measured((0, 1), 12.6)
    )
    assert len(shared(node(TWO, rates, (behind(0), behind(1))))) == 1
