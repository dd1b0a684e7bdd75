"""Links that a setting holds back, under load and idle; and links that two cards share."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import (
    Hop,
    Path,
    PcieFacts,
    SharedLink,
    ends_of,
    while_copying,
)
from nodecheck.checks.pcie.speed_rules import judge_idle, judge_speed
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Action, Finding, Owner, Severity, Transfer
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


def below_a_switch(*shares: float | None) -> Seen:
    """Cards at full speed below one uplink that runs at Gen1, with their utilisation."""
    above = (hop("0000:10:00.0", 2.5), hop(ROOT, 2.5))
    cards = (A, B, C)[: len(shares)]
    node = seen(*(switch(card, f"0000:11:0{n}.0", *above) for n, card in enumerate(cards)))
    gpus = tuple(
        msgspec.structs.replace(gpu, utilisation_share=share)
        for gpu, share in zip(node.facts.gpus, shares, strict=True)
    )
    return msgspec.structs.replace(node, facts=msgspec.structs.replace(node.facts, gpus=gpus))


@pytest.mark.parametrize("shares", [(0.97, 0.0), (0.0, 0.97), (0.6, 0.97), (None, 0.97)])
def test_a_shared_uplink_is_judged_with_the_card_that_works(
    shares: tuple[float | None, ...],
) -> None:
    node = below_a_switch(*shares)
    (finding,) = speed(node)
    assert finding.subject == f"{A}, {B}"
    assert len(finding.evidence) == 1
    assert "97 % busy" in finding.evidence[0].value
    assert list(judge_idle(node)) == []


def test_a_card_that_is_stuck_does_not_hide_another_that_works() -> None:
    node = below_a_switch(0.97, 0.6)
    stuck = msgspec.structs.replace(node.facts.gpus[0], performance_state=8)
    facts = msgspec.structs.replace(node.facts, gpus=(stuck, node.facts.gpus[1]))
    (finding,) = speed(msgspec.structs.replace(node, facts=facts))
    assert "60 % busy" in finding.evidence[0].value


def test_an_uplink_of_idle_cards_is_idle() -> None:
    (finding,) = judge_idle(below_a_switch(0.0, 0.1, 0.2))
    assert finding.subject == f"{A}, {B}, {C}"


def told(generation: int, vendor: str = "nvidia") -> Seen:
    """A busy card whose link sysfs read at Gen1, and the driver at this generation."""
    node = seen(Path(accelerator=A, hops=(hop(A, 2.5), hop(ROOT, 2.5))))
    gpu = msgspec.structs.replace(
        node.facts.gpus[0], vendor=vendor, link_generation=generation, link_generation_max=4,
        seen_by=("nvml", "pci"),
    )  # fmt: skip
    return msgspec.structs.replace(node, facts=msgspec.structs.replace(node.facts, gpus=(gpu,)))


def test_speed_and_load_may_be_of_two_moments() -> None:
    assert speed(told(4)) == []
    assert list(judge_idle(told(4))) == []
    (slow,) = speed(told(1))
    assert slow.evidence[0].source == f"sysfs {A} and {ROOT}"
    (half,) = speed(told(3))
    assert half.evidence[0].source == f"sysfs {A} and {ROOT}, NVML"
    assert half.evidence[0].value.startswith(f"{A}: Gen3, 97 % busy")
    assert len(speed(told(4, vendor="amd"))) == 1


def passed_through(*speeds: float, emulated: bool = True) -> Seen:
    """A guest whose Gen4 cards run at these speeds, each behind a port that QEMU made up."""
    made = []
    for card, gts in zip((A, B, C), speeds, strict=False):
        own = hop(card, gts, vendor="10de", device="20b5")
        port = hop(card.replace(":00.0", ":1f.0"), 16.0, emulated=emulated, target_gts=None)
        made.append(Path(accelerator=card, hops=(own, port) if emulated else (own,)))
    return seen(*made, guest=True)


@pytest.mark.parametrize("emulated", [True, False])
def test_a_guest_cannot_tell_its_hosts_generation(emulated: bool) -> None:
    (finding,) = speed(passed_through(8.0, 8.0, emulated=emulated))
    assert (finding.severity, finding.owner) == (Severity.INFO, Owner.HYPERVISOR)
    assert finding.subject == f"{A}, {B}"
    assert finding.remedy.action is Action.NONE
    assert finding.evidence[0].basis == "the card's own maximum"


def test_a_faster_card_of_the_same_model_shows_what_the_host_can_do() -> None:
    (finding,) = speed(passed_through(8.0, 16.0))
    assert (finding.severity, finding.subject) == (Severity.WARNING, A)


def test_a_real_port_in_a_guest_is_held_against_its_card() -> None:
    (finding,) = speed(seen(slow(A, ROOT, 8.0, 16.0), guest=True))
    assert finding.severity is Severity.WARNING


def ran(name: str, gts: float | None, width: int | None) -> Transfer:
    return Transfer(name=name, card=A, median_bytes_per_second=12e9, link_gts=gts, link_width=width)


def test_a_link_that_trains_down_in_one_of_the_copies_is_slow() -> None:
    node = seen(Path(accelerator=A, hops=(hop(A, 2.5), hop(ROOT, 2.5))), busy=False)
    steady = (ran("host_to_device", 16.0, 16), ran("device_copy", None, None))
    assert speed(msgspec.structs.replace(node, transfers=steady)) == []
    changed = (*steady, ran("device_to_host", 8.0, 16))
    (finding,) = speed(msgspec.structs.replace(node, transfers=changed))
    assert "Gen3" in finding.summary
    assert finding.evidence[0].source.endswith("while copying (Gen4 x16; Gen3 x16)")


def test_speeds_while_copying_are_a_cards_own_and_each_is_told_once() -> None:
    other = msgspec.structs.replace(ran("host_to_device", 2.5, 1), card=B)
    copies = (ran("a", 16.0, 16), ran("b", None, 16), other, ran("c", 16.0, 16), ran("d", 8.0, 16))
    assert while_copying(copies, A) == ((16.0, 16), (8.0, 16))
    assert while_copying(copies, C) == ()


def test_hops_pair_up_from_the_accelerator_on() -> None:
    hops = tuple(hop(address) for address in (A, B, C))
    assert ends_of(hops, 0) == ends_of(hops, 1) == hops[:2]
    assert ends_of(hops, 2) == hops[2:]
    assert PcieFacts(paths=(Path(accelerator=A, hops=hops),)).path_of(B) is None


@pytest.mark.parametrize(
    ("up", "root", "narrowest"),
    [
        ({}, {"current_width": 8}, SharedLink(place="0000:10:00.0", gts=16.0, width=8)),
        ({}, {"target_gts": 8.0}, SharedLink(place="0000:10:00.0", gts=8.0, width=16)),
        ({"maximum_gts": None}, {"maximum_gts": None, "target_gts": None}, None),
    ],
)
def test_the_narrowest_link_above_a_card(
    up: dict[str, object], root: dict[str, object], narrowest: SharedLink | None
) -> None:
    above = (hop("0000:10:00.0", **up), hop(ROOT, **root))  # type: ignore[arg-type]
    path = switch(A, "0000:11:00.0", *above)
    assert path.narrowest_above() == narrowest
    assert PcieFacts(paths=(path,)).path_of(A) == path
    assert Path(accelerator=A, hops=path.hops[:2]).narrowest_above() is None


@pytest.mark.parametrize(
    ("changes", "container", "judged"),
    [
        ({"granted": False, "device_file": True}, "docker", False),
        ({"device_file": False}, "docker", False),
        ({"granted": False, "driver": "vfio-pci"}, "docker", False),
        ({"granted": True, "device_file": True}, "docker", True),
        ({"granted": False, "device_file": True}, None, False),  # another job's
        ({"granted": False, "driver": "vfio-pci"}, None, True),  # a guest's, in the host's slot
        ({"device_file": False}, None, True),
    ],
)
def test_links_of_other_tenants_cards_are_not_judged(
    changes: dict[str, object], container: str | None, judged: bool
) -> None:
    node = seen(slow(A, ROOT, 8.0, 8.0))
    gpu = msgspec.structs.replace(node.facts.gpus[0], **changes)
    virt = VirtFacts(guest=False, container=container)
    facts = msgspec.structs.replace(node.facts, gpus=(gpu,), virt=virt)
    assert bool(speed(msgspec.structs.replace(node, facts=facts))) is judged
    bare = msgspec.structs.replace(facts, pcie=PcieFacts())
    by_driver = msgspec.structs.replace(
        gpu, link_generation=3, link_generation_max=4, link_width=16
    )
    bare = msgspec.structs.replace(bare, gpus=(by_driver,))
    assert bool(speed(msgspec.structs.replace(node, facts=bare))) is judged
