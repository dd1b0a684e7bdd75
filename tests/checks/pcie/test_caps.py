"""Links that a setting holds back, under load and idle; and links that two cards share."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts, SharedLink
from nodecheck.checks.pcie.speed_rules import judge_idle, judge_speed
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Action, Finding, Owner
from nodecheck.policy import Policy

A, B, C, D = (f"0000:0{n}:00.0" for n in (1, 2, 3, 4))
ROOT, OTHER_ROOT = "0000:00:01.0", "0000:00:02.0"


def hop(address: str, now: float = 16.0, **changes: object) -> Hop:
    base = Hop(
        address=address,
        current_gts=now,
        maximum_gts=16.0,
        current_width=16,
        maximum_width=16,
        link_files=True,
        target_gts=16.0,
        equalised=True,
    )
    return msgspec.structs.replace(base, **changes)


def seen(*paths: Path, busy: bool = True, guest: bool = False) -> Seen:
    gpus = tuple(
        Gpu(
            pci_address=path.accelerator,
            utilisation_share=0.97 if busy else 0.0,
            performance_state=0 if busy else 8,
        )
        for path in paths
    )
    facts = Facts(pcie=PcieFacts(paths=paths, source="sysfs"), gpus=gpus,
                  virt=VirtFacts(guest=guest))  # fmt: skip
    return Seen(facts=facts, policy=Policy())


def slow(card: str, root: str, now: float, target: float | None) -> Path:
    return Path(accelerator=card, hops=(hop(card, now), hop(root, now, target_gts=target)))


def speed(node: Seen) -> list[Finding]:
    return list(judge_speed(node))


def test_a_capped_port_is_named_and_not_reseated() -> None:
    (finding,) = speed(seen(slow(A, ROOT, 8.0, 8.0)))
    assert "set to Gen3" in finding.summary
    assert f"target speed of {ROOT} Gen3 (LnkCtl2)" in finding.evidence[0].value
    assert (finding.remedy.action, finding.owner) == (Action.CHANGE_SETTING, Owner.OPERATOR)
    assert finding.remedy.cost
    assert "reseat" not in finding.remedy.text
    assert finding.remedy.commands[0] == f"sudo lspci -vvv -s {ROOT} | grep LnkCtl2"
    assert "15.8 GB/s" in finding.impact


@pytest.mark.parametrize("target", [None, 16.0, 32.0])
def test_a_port_that_lets_it_run_is_not_blamed(target: float | None) -> None:
    (finding,) = speed(seen(slow(A, ROOT, 8.0, target)))
    assert finding.remedy.action is Action.RESEAT
    assert "target speed" not in finding.evidence[0].value


def test_a_link_that_is_faster_than_its_target_is_not_capped() -> None:
    (finding,) = speed(seen(slow(A, ROOT, 8.0, 5.0)))
    assert finding.remedy.action is Action.RESEAT


def test_a_link_below_its_cap_is_capped_too() -> None:
    (finding,) = speed(seen(slow(A, ROOT, 2.5, 8.0)))
    assert finding.remedy.action is Action.CHANGE_SETTING


def test_the_targets_of_a_card_and_of_an_emulated_port_cap_nothing() -> None:
    card = hop(A, 8.0, target_gts=8.0)
    (finding,) = speed(seen(Path(accelerator=A, hops=(card, hop(ROOT, 8.0)))))
    assert finding.remedy.action is Action.RESEAT
    fiction = hop(ROOT, 8.0, target_gts=8.0, emulated=True)
    (finding,) = speed(seen(Path(accelerator=A, hops=(hop(A, 8.0), fiction))))
    assert finding.remedy.action is Action.RESEAT


def test_capped_and_other_slow_links_are_two_findings() -> None:
    node = seen(slow(A, ROOT, 8.0, 8.0), slow(B, OTHER_ROOT, 8.0, 16.0))
    assert [(f.subject, f.remedy.action) for f in speed(node)] == [
        (A, Action.CHANGE_SETTING),
        (B, Action.RESEAT),
    ]


def test_in_a_guest_the_cap_is_the_hosts() -> None:
    (finding,) = speed(seen(slow(A, ROOT, 8.0, 8.0), guest=True))
    assert (finding.remedy.action, finding.owner) == (Action.NONE, Owner.HYPERVISOR)


def test_a_link_that_was_not_tuned_says_so() -> None:
    card = hop(A, 5.0, equalised=False)
    (finding,) = speed(seen(Path(accelerator=A, hops=(card, hop(ROOT, 5.0)))))
    assert "EqualizationComplete-" in finding.evidence[0].value
    old = hop(A, 2.5, equalised=False, maximum_gts=5.0)
    (finding,) = speed(seen(Path(accelerator=A, hops=(old, hop(ROOT, 2.5)))))
    assert "Equalization" not in finding.evidence[0].value


def test_an_idle_link_is_no_fault_and_its_cap_is_told() -> None:
    (plain,) = judge_idle(seen(slow(A, ROOT, 2.5, 16.0), busy=False))
    (capped,) = judge_idle(seen(slow(A, ROOT, 2.5, 8.0), busy=False))
    assert speed(seen(slow(A, ROOT, 2.5, 8.0), busy=False)) == []
    assert "was not seen" in plain.impact
    assert f"{A} at Gen3 at most" in capped.impact
    assert plain.remedy.action is capped.remedy.action is Action.NONE


def switch(card: str, port: str, *above: Hop) -> Path:
    return Path(accelerator=card, hops=(hop(card), hop(port), *above))


UP, ROOT_HOP = hop("0000:10:00.0"), hop(ROOT)


def test_two_cards_below_a_switch_share_its_uplink() -> None:
    above = (hop("0000:10:00.0", current_width=8), ROOT_HOP)
    first, second = switch(A, "0000:11:00.0", *above), switch(B, "0000:11:01.0", *above)
    shared = first.shared_link(second)
    assert shared == SharedLink(place="0000:10:00.0", gts=16.0, width=8)
    assert shared == second.shared_link(first)
    assert shared is not None
    assert shared.bytes_per_second == pytest.approx(15.75e9, rel=0.001)


def test_cards_on_ports_of_their_own_share_nothing() -> None:
    first = Path(accelerator=A, hops=(hop(A), ROOT_HOP))
    second = Path(accelerator=B, hops=(hop(B), hop(OTHER_ROOT)))
    assert first.shared_link(second) is None


def test_two_switches_below_a_third_share_the_upper_uplink() -> None:
    top = (hop("0000:20:00.0"), ROOT_HOP)
    first = switch(A, "0000:11:00.0", UP, hop("0000:21:00.0"), *top)
    second = switch(B, "0000:13:00.0", hop("0000:12:00.0"), hop("0000:21:01.0"), *top)
    shared = first.shared_link(second)
    assert shared is not None
    assert shared.place == "0000:20:00.0"


def test_two_devices_below_one_port_share_its_link() -> None:
    first = Path(accelerator=A, hops=(hop(A, current_width=8), ROOT_HOP))
    second = Path(accelerator="0000:01:00.1", hops=(hop("0000:01:00.1"), ROOT_HOP))
    shared = first.shared_link(second)
    assert shared == SharedLink(place=A, gts=16.0, width=8)


@pytest.mark.parametrize(
    ("up", "root", "gts"),
    [
        ({"current_gts": 2.5}, {}, 16.0),
        ({}, {"maximum_gts": 8.0}, 8.0),
        ({}, {"target_gts": 8.0}, 8.0),
        ({"target_gts": 2.5}, {}, 16.0),
        ({}, {"maximum_gts": 2.5, "emulated": True}, 16.0),
        ({"maximum_gts": None}, {"maximum_gts": None, "target_gts": None}, None),
    ],
)
def test_a_shared_link_counts_with_what_it_can_train_to(
    up: dict[str, object], root: dict[str, object], gts: float | None
) -> None:
    above = (hop("0000:10:00.0", **up), hop(ROOT, **root))  # type: ignore[arg-type]
    shared = switch(A, C, *above).shared_link(switch(B, D, *above))
    assert shared is not None
    assert shared.gts == gts
    assert (shared.bytes_per_second is None) is (gts is None)


def test_an_emulated_switch_is_no_shared_link() -> None:
    above = (hop("0000:10:00.0", emulated=True), hop(ROOT, emulated=True))
    assert switch(A, C, *above).shared_link(switch(B, D, *above)) is None


hops = st.lists(
    st.builds(
        Hop,
        address=st.sampled_from([A, B, C, D, ROOT]),
        emulated=st.booleans(),
        gone=st.booleans(),
        maximum_gts=st.none() | st.sampled_from([2.5, 16.0, 3.3]),
        current_width=st.none() | st.integers(1, 32),
    ),
    max_size=5,
)


@given(hops, hops)
def test_any_two_paths_can_be_compared(first: list[Hop], second: list[Hop]) -> None:
    one = Path(accelerator=A, hops=tuple(first))
    other = Path(accelerator=B, hops=tuple(second))
    shared = one.shared_link(other)
    if not {h.address for h in first} & {h.address for h in second}:
        assert shared is None
