"""Eight cards of one model: the odd one is told, and a waiver is of the card that it names."""

from __future__ import annotations

import msgspec
import pytest

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.checks.pcie.width_rules import judge_width
from nodecheck.checks.seen import Facts
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.diagnose import diagnose
from nodecheck.model import Finding, Severity, faults
from nodecheck.policy import Policy, Waiver
from nodecheck.report import HostInfo, Report

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
CARDS = tuple(f"0000:{n}1:00.0" for n in range(1, 9))
ID = "pcie.width_below_max"


def path(card: str, width: int, port_most: int | None = 16, **changes: object) -> Path:
    own = Hop(
        address=card,
        vendor="10de",
        device="2330",
        current_gts=32.0,
        maximum_gts=32.0,
        current_width=width,
        maximum_width=16,
        link_files=True,
    )
    own = msgspec.structs.replace(own, **changes)
    if port_most is None:
        return Path(accelerator=card, hops=(own,))
    root = msgspec.structs.replace(own, address=card.replace(":00.0", ":1f.0"), vendor="8086",
                                   device="352a", maximum_width=port_most)  # fmt: skip
    return Path(accelerator=card, hops=(own, root))


def report(
    narrow: dict[int, int],
    *,
    port_most: int | None = 16,
    guest: bool = False,
    gpus: bool = True,
) -> Report:
    """Eight cards; `narrow` gives the lanes of those that do not have 16."""
    paths = tuple(path(card, narrow.get(n, 16), port_most) for n, card in enumerate(CARDS))
    cards = tuple(Gpu(pci_address=c, pci_device_id="10de:2330", granted=True) for c in CARDS)
    facts = Facts(
        pcie=PcieFacts(paths=paths, source="sysfs"),
        gpus=cards if gpus else (),
        virt=VirtFacts(guest=guest),
    )
    host = HostInfo(source="captured", holds=("pcie",))
    return Report(nodecheck_version="0", time="2026-11-30T00:00:00+00:00", host=host, facts=facts)


def judged(made: Report, *waivers: Waiver) -> list[Finding]:
    found = diagnose(made, Policy(waivers=waivers)).findings
    return [finding for finding in found if finding.id == ID]


def waiver(card: str) -> Waiver:
    return Waiver(id=ID, reason="slot 3 is wired so", subject=card)


@pytest.mark.parametrize("guest", [False, True])
@pytest.mark.parametrize("port_most", [16, None])
@pytest.mark.parametrize("gpus", [False, True])
def test_one_narrow_card_of_eight_is_a_fault(
    guest: bool, port_most: int | None, gpus: bool
) -> None:
    (finding,) = judged(report({2: 8}, guest=guest, port_most=port_most, gpus=gpus))
    assert (finding.severity, finding.subject) == (WARNING, CARDS[2])
    assert "cards of the same model" in (finding.evidence[0].expected or "")


def test_eight_alike_in_a_guest_are_wired_so() -> None:
    (finding,) = judged(report(dict.fromkeys(range(8), 8), guest=True))
    assert finding.severity is INFO
    assert len(finding.evidence) == 8


def test_a_waived_card_leaves_no_fault() -> None:
    found = judged(report({2: 8}), waiver(CARDS[2]))
    assert faults(found) == ()
    assert [f.waived for f in found] == ["slot 3 is wired so"]


def test_a_waiver_of_one_card_is_of_no_other() -> None:
    alarm, waived = sorted(
        judged(report({2: 8, 5: 8}), waiver(CARDS[2])), key=lambda f: -f.severity.rank
    )
    assert (alarm.severity, alarm.subject, alarm.waived) == (WARNING, CARDS[5], None)
    assert CARDS[2] not in {e.value.rpartition(":")[0] for e in alarm.evidence}
    assert (waived.severity, waived.subject) == (INFO, CARDS[2])


def test_a_waived_x1_card_does_not_make_the_next_one_critical() -> None:
    (alarm,) = faults(judged(report({2: 1, 5: 8}), waiver(CARDS[2])))
    assert (alarm.severity, alarm.subject) == (WARNING, CARDS[5])


def test_each_of_two_waived_cards_has_its_own_waiver() -> None:
    made = report({2: 8, 5: 8})
    assert faults(judged(made, waiver(CARDS[2]), waiver(CARDS[5]))) == ()


def test_a_waiver_of_the_joint_subject_holds_as_before() -> None:
    made = report({2: 8, 5: 8})
    (finding,) = judged(made)
    assert finding.subject == f"{CARDS[2]}, {CARDS[5]}"
    assert faults(judged(made, waiver(finding.subject))) == ()


def test_severities_are_told_apart() -> None:
    found = judged(report({1: 8, 2: 1, 5: 8}))
    assert [(f.severity, f.subject) for f in found] == [
        (CRITICAL, CARDS[2]),
        (WARNING, f"{CARDS[1]}, {CARDS[5]}"),
    ]


@pytest.mark.parametrize(
    ("slots", "severity"),
    [
        ((16, 16, 8, 16, 16, 16, 16, 16), WARNING),
        ((16, 16, 8, 16, 16), WARNING),
        ((16, 8, 16, 8), INFO),
        ((16, 16, 16, 8), INFO),
        ((16, 16, 16, 16, 8, 8, 8, 8), INFO),
        ((16, 4), INFO),
    ],
)
def test_a_narrow_slot_is_wiring_unless_it_is_the_odd_one(
    slots: tuple[int, ...], severity: Severity
) -> None:
    paths = [path(card, lanes, lanes) for card, lanes in zip(CARDS, slots, strict=False)]
    facts = Facts(pcie=PcieFacts(paths=tuple(paths), source="sysfs"), virt=VirtFacts(guest=False))
    (finding,) = judged(msgspec.structs.replace(report({}), facts=facts))
    assert finding.severity is severity
    assert "of the same model" in (finding.evidence[0].expected or "")


def test_links_are_compared_at_the_same_depth() -> None:
    """A card with a switch of its own: the link inside is wide, that to the slot is the slot's."""

    def card(number: int) -> Path:
        inner = path(f"0000:{number}3:00.0", 16).hops
        slot = path(f"0000:{number}1:00.0", 8, None).hops
        return Path(accelerator=inner[0].address, hops=(*inner, *slot))

    facts = Facts(pcie=PcieFacts(paths=(card(1), card(2)), source="sysfs"),
                  virt=VirtFacts(guest=True))  # fmt: skip
    found = judged(msgspec.structs.replace(report({}), facts=facts))
    assert [f.severity for f in found] == [INFO]


def test_a_card_that_is_gone_is_not_narrow() -> None:
    gone = path(CARDS[0], 16, gone=True, current_width=None)
    facts = Facts(pcie=PcieFacts(paths=(gone, path(CARDS[1], 16)), source="sysfs"))
    assert judged(msgspec.structs.replace(report({}), facts=facts)) == []


def test_another_model_is_no_measure() -> None:
    small = path(CARDS[0], 8, None, device="26b5")
    facts = Facts(
        pcie=PcieFacts(paths=(small, path(CARDS[1], 16)), source="sysfs"),
        virt=VirtFacts(guest=True),
    )
    assert [f.severity for f in judged(msgspec.structs.replace(report({}), facts=facts))] == [INFO]


def test_the_rule_itself_is_in_order_of_severity() -> None:
    from nodecheck.checks.seen import Seen

    seen = Seen(facts=report({1: 8, 2: 1, 5: 4}).facts, policy=Policy())
    assert [f.severity for f in judge_width(seen)] == [CRITICAL, WARNING]


Load = tuple[float | None, int | None, int | None]
"""Utilisation, clock and highest clock in MHz."""

IDLE: Load = (0.0, None, None)
NOT_TOLD: Load = (None, None, None)


def radeon(width: int, port_most: int = 16, gts: float = 2.5, load: Load = NOT_TOLD) -> Report:
    """A Radeon with the switch that such cards hold, its link to the slot at this width."""
    inner, outer, slot = "0000:03:00.0", "0000:02:00.0", "0000:01:00.0"

    def end(address: str, lanes: int, most: int = 16, vendor: str = "1002") -> Hop:
        return Hop(
            address=address, vendor=vendor, device="73bf", current_gts=gts, maximum_gts=16.0,
            current_width=lanes, maximum_width=most, link_files=True,
        )  # fmt: skip

    hops = (
        end(inner, 16), end(outer, 16), end(slot, width),
        end("0000:00:01.1", width, port_most, "1022"),
    )  # fmt: skip
    share, clock, fastest = load
    gpu = Gpu(pci_address=inner, vendor="amd", pci_device_id="1002:73bf", granted=True)
    facts = Facts(
        pcie=PcieFacts(paths=(Path(accelerator=inner, hops=hops),), source="sysfs"),
        gpus=(
            msgspec.structs.replace(
                gpu, utilisation_share=share, sm_clock_mhz=clock, maximum_sm_clock_mhz=fastest
            ),
        ),
        virt=VirtFacts(guest=False),
    )
    return msgspec.structs.replace(report({}), facts=facts)


@pytest.mark.parametrize(
    ("load", "severity"),
    [
        ((0.0, 500, 2575), INFO),
        (NOT_TOLD, INFO),
        ((0.9, None, None), CRITICAL),
        ((0.0, 2500, 2575), CRITICAL),
    ],
)
def test_an_idle_radeon_narrows_its_link(load: Load, severity: Severity) -> None:
    (finding,) = judged(radeon(1, load=load))
    assert finding.severity is severity
    assert ("idle" in finding.impact) is (severity is INFO)
    assert "keeps its width" not in (finding.evidence[0].basis or "")


def test_a_radeon_that_narrows_at_full_speed_is_not_idling() -> None:
    (finding,) = judged(radeon(8, gts=16.0, load=IDLE))
    assert finding.severity is WARNING


def test_a_narrow_slot_of_a_radeon_is_told_at_idle_too() -> None:
    (finding,) = judged(radeon(1, port_most=1, load=IDLE))
    assert finding.severity is CRITICAL


def test_an_idle_card_of_another_maker_keeps_its_lanes() -> None:
    made = report({2: 1})
    idle = tuple(msgspec.structs.replace(g, utilisation_share=0.0) for g in made.facts.gpus)
    facts = msgspec.structs.replace(made.facts, gpus=idle)
    assert [f.severity for f in judged(msgspec.structs.replace(made, facts=facts))] == [CRITICAL]


def test_a_product_with_four_lanes_fills_its_link() -> None:
    """An A16's own registers tell 16 lanes: its product table, 4."""
    made = report({0: 4})
    cards = (msgspec.structs.replace(made.facts.gpus[0], product_lanes=4),)
    facts = msgspec.structs.replace(
        made.facts, gpus=cards, pcie=PcieFacts(paths=made.facts.pcie.paths[:1], source="sysfs")
    )
    assert judged(msgspec.structs.replace(made, facts=facts)) == []


def test_a_narrow_uplink_names_all_cards_below_it() -> None:
    up = path("0000:90:00.0", 8).hops
    both = [
        Path(accelerator=card, hops=(*path(card, 16, None).hops, *path(f"0000:8{n}:00.0", 16,
             None).hops, *up))
        for n, card in enumerate(CARDS[:2])
    ]  # fmt: skip
    facts = Facts(pcie=PcieFacts(paths=tuple(both), source="sysfs"), virt=VirtFacts(guest=False))
    made = msgspec.structs.replace(report({}), facts=facts)
    (finding,) = judged(made)
    assert (finding.subject, len(finding.evidence)) == (f"{CARDS[0]}, {CARDS[1]}", 1)
    assert faults(judged(made, waiver(CARDS[0]))) == (finding,)
    assert faults(judged(made, waiver(finding.subject))) == ()
