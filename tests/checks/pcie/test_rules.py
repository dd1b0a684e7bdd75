"""The rules on links: severities by width, place and platform, and what must not be blamed."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.checks.pcie.rules import RULES
from nodecheck.checks.seen import Facts, Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.links import encoded_bytes_per_second
from nodecheck.machine.host import CapturedHost
from nodecheck.model import Action, Severity
from nodecheck.policy import Policy
from tests.checks.gpu.inputs import GB10, L40, card, csv, device, port, xml
from tests.checks.gpu.judging import CARD, GUEST, node_of, seen
from tests.checks.pcie.examples import RAISES, SILENT
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
A, ROOT = "0000:01:00.0", "0000:00:01.0"


def judge(node: Seen) -> dict[str, Severity]:
    return {f.id: f.severity for rule in RULES for f in rule.judge(node)}


def test_rates_are_those_after_encoding() -> None:
    assert encoded_bytes_per_second(16.0, 16) == pytest.approx(31.5e9, rel=0.001)
    assert encoded_bytes_per_second(128.0, 16) is None


def hop(address: str, width: int | None, most: int | None, **changes: object) -> Hop:
    base = Hop(
        address=address,
        vendor="10de",
        device="26b5",
        current_gts=16.0,
        maximum_gts=16.0,
        current_width=width,
        maximum_width=most,
        link_files=True,
    )
    return msgspec.structs.replace(base, **changes)


def paths(*found: Path, gpus: tuple[Gpu, ...] = (), guest: bool = False) -> Seen:
    virt = GUEST if guest else VirtFacts(guest=False)
    facts = Facts(pcie=PcieFacts(paths=found, source="sysfs"), gpus=gpus, virt=virt)
    return Seen(facts=facts, policy=Policy())


def own(width: int, most: int = 16, port_most: int | None = 16, *, guest: bool = False) -> Seen:
    ends = [hop(A, width, most)]
    if port_most is not None:
        ends.append(hop(ROOT, width, port_most, vendor="8086"))
    return paths(Path(accelerator=A, hops=tuple(ends)), guest=guest)


@pytest.mark.parametrize("id_", [rule.id for rule in RULES])
def test_the_examples(id_: str, node: Node) -> None:
    example = RAISES[id_]
    assert not isinstance(example, Seen)
    assert id_ in judge(node_of(node(example)))


@pytest.mark.parametrize("id_", [rule.id for rule in RULES])
def test_the_silent_examples(id_: str, node: Node) -> None:
    example = SILENT[id_]
    assert not isinstance(example, Seen)
    assert id_ not in judge(node_of(node(example)))


@pytest.mark.parametrize(
    ("width", "most", "port_most", "guest", "severity"),
    [
        (16, 16, 16, False, None),
        (8, 8, 16, False, None),
        (8, 16, 16, False, WARNING),
        (8, 16, 16, True, INFO),
        (4, 16, 16, True, WARNING),
        (8, 16, 8, False, INFO),
        (4, 16, 4, False, INFO),
        (2, 16, 2, False, WARNING),
        (1, 16, 1, False, CRITICAL),
        (1, 16, 16, True, CRITICAL),
        (1, 1, 16, False, None),
        (8, 16, None, False, WARNING),
        (8, 16, None, True, INFO),
    ],
)
def test_width(
    width: int, most: int, port_most: int | None, guest: bool, severity: Severity | None
) -> None:
    found = judge(own(width, most, port_most, guest=guest))
    assert found.get("pcie.width_below_max") is severity


def test_wiring_is_not_reseated() -> None:
    (finding,) = [f for rule in RULES for f in rule.judge(own(4, 16, 4))]
    assert finding.remedy.action is Action.NONE
    assert "reseat" not in finding.remedy.text.lower()


def test_in_a_guest_nobody_is_sent_to_the_slot() -> None:
    (finding,) = [f for rule in RULES for f in rule.judge(own(8, guest=True))]
    assert finding.remedy.action is Action.NONE


def test_a_wider_sibling_shows_that_the_guest_could_have_more() -> None:
    b = "0000:02:00.0"
    both = (
        Path(accelerator=A, hops=(hop(A, 8, 16),)),
        Path(accelerator=b, hops=(hop(b, 16, 16),)),
    )
    cards = tuple(Gpu(pci_address=a, pci_device_id="10de:26b5") for a in (A, b))
    assert judge(paths(*both, gpus=cards, guest=True)) == {"pcie.width_below_max": WARNING}
    alike = (both[0], Path(accelerator=b, hops=(hop(b, 8, 16),)))
    assert judge(paths(*alike, gpus=cards, guest=True)) == {"pcie.width_below_max": INFO}


def test_the_narrowest_link_is_found_behind_a_switch_in_the_card() -> None:
    hops = (
        hop("0000:03:00.0", 16, 16),
        hop("0000:02:00.0", 16, 16),
        hop("0000:01:00.0", 8, 16),
        hop(ROOT, 8, 16),
    )
    assert judge(paths(Path(accelerator="0000:03:00.0", hops=hops))) == {
        "pcie.width_below_max": WARNING
    }


def test_between_the_ports_of_a_switch_there_is_no_link() -> None:
    hops = (
        hop("0000:03:00.0", 16, 16),
        hop("0000:02:00.0", 16, 16),
        hop("0000:01:00.0", 8, 8),
        hop(ROOT, 8, 8),
    )
    assert judge(paths(Path(accelerator="0000:03:00.0", hops=hops))) == {}


def test_a_shared_uplink_is_told_once() -> None:
    up = (hop("0000:01:00.0", 8, 16), hop(ROOT, 8, 16))
    both = tuple(
        Path(accelerator=f"0000:0{n}:00.0", hops=(
            hop(f"0000:0{n}:00.0", 16, 16), hop(f"0000:02:0{n}.0", 16, 16), *up))
        for n in (3, 4)
    )  # fmt: skip
    (finding,) = [f for rule in RULES for f in rule.judge(paths(*both))]
    assert len(finding.evidence) == 1


def test_an_emulated_port_is_named_and_not_believed() -> None:
    ends = (hop(A, 16, 16), hop(ROOT, 1, 32, vendor="1b36", device="000c", emulated=True))
    assert judge(paths(Path(accelerator=A, hops=ends), guest=True)) == {"pcie.virtual_port": INFO}


@pytest.mark.parametrize(
    ("share", "state", "expected"),
    [
        (0.97, 0, {"pcie.speed_below_max": WARNING}),
        (0.97, 4, {"pcie.speed_below_max": WARNING}),
        (0.5, 2, {"pcie.speed_below_max": WARNING}),
        (0.49, 0, {"pcie.idle_downshift": INFO}),
        (0.0, 8, {"pcie.idle_downshift": INFO}),
        (None, 0, {"pcie.idle_downshift": INFO}),
        (0.97, None, {"pcie.idle_downshift": INFO}),
        (0.97, 8, {}),  # a stuck card is a finding of its own
    ],
)
def test_speed_is_judged_under_load_alone(
    share: float | None, state: int | None, expected: dict[str, Severity]
) -> None:
    gpu = Gpu(pci_address=A, utilisation_share=share, performance_state=state)
    ends = (hop(A, 16, 16, current_gts=2.5), hop(ROOT, 16, 16, current_gts=2.5))
    assert judge(paths(Path(accelerator=A, hops=ends), gpus=(gpu,))) == expected


def test_a_newer_card_at_its_slots_speed_is_no_fault() -> None:
    gpu = Gpu(pci_address=A, utilisation_share=0.97, performance_state=0)
    ends = (hop(A, 16, 16, maximum_gts=32.0), hop(ROOT, 16, 16))
    assert judge(paths(Path(accelerator=A, hops=ends), gpus=(gpu,))) == {"pcie.host_limit": INFO}


def test_the_driver_tells_of_a_slot_that_pci_does_not_show() -> None:
    gpu = msgspec.structs.replace(CARD, link_generation_device_max=5, link_generation_host_max=4)
    assert judge(seen(gpu)) == {"pcie.host_limit": INFO}
    idle = msgspec.structs.replace(gpu, link_generation=1, utilisation_share=0.0)
    assert judge(seen(idle)) == {"pcie.idle_downshift": INFO}


@pytest.mark.parametrize(
    ("width", "mode", "severity"),
    [
        (8, "Pass-Through", INFO),
        (8, "None", WARNING),
        (4, "Pass-Through", WARNING),
        (1, None, CRITICAL),
    ],
)
def test_the_driver_alone_is_enough(width: int, mode: str | None, severity: Severity) -> None:
    gpu = msgspec.structs.replace(CARD, link_width=width, virtualisation=mode)
    assert judge(seen(gpu)) == {"pcie.width_below_max": severity}


def test_a_product_with_fewer_lanes_has_no_narrow_link() -> None:
    gpu = msgspec.structs.replace(CARD, link_width=8, product_lanes=8)
    assert judge(seen(gpu)) == {}


def test_not_available_is_not_zero(node: Node) -> None:
    values = card(L40, gen_host="N/A", gen_device="N/A", width="N/A")
    assert judge(node_of(node({"cmd/nvidia-smi_-q_-x.txt": xml([values])}))) == {}


@pytest.mark.parametrize("told", [True, False])
def test_a_chip_to_chip_card_has_no_link(told: bool, node: Node) -> None:
    slow = ("2.5 GT/s PCIe", "1")
    tree: Tree = {
        **port(ROOT, now=slow),
        **device(A, ROOT, ids="10de:2e12", now=slow, most=("32.0 GT/s PCIe", "16")),
    }
    if told:
        tree["cmd/nvidia-smi_--query-gpu.csv"] = csv([card(GB10, width_max="16", gen_max="5")])
    assert judge(node_of(node(tree))) == {}


def test_a_link_that_the_driver_knows_is_known(node: Node) -> None:
    tree: Tree = {
        **device(A, now=("Unknown", "0"), most=("Unknown", "0")),
        "cmd/nvidia-smi_--query-gpu.csv": csv([L40]),
    }
    assert judge(node_of(node(tree))) == {}


def test_a_card_that_is_gone_has_no_wide_link() -> None:
    ends = (hop(A, None, None, gone=True), hop(ROOT, 16, 16))
    assert judge(paths(Path(accelerator=A, hops=ends))) == {}


def test_the_impact_is_a_rate() -> None:
    (finding,) = [f for rule in RULES for f in rule.judge(own(8))]
    assert "15.8 GB/s" in finding.impact
    assert "31.5 GB/s" in finding.impact


def test_nothing_known_raises_nothing() -> None:
    bare = Path(accelerator=A, hops=(Hop(address=A), Hop(address=ROOT)))
    assert judge(paths(bare, Path(accelerator="x", hops=()))) == {}
    assert judge(seen(Gpu(), Gpu(pci_address=A))) == {}


maybe_width = st.none() | st.integers(1, 32)
maybe_gts = st.none() | st.sampled_from([2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 3.3])


@given(
    st.lists(
        st.builds(
            Hop,
            address=st.sampled_from([A, ROOT, "0000:02:00.0", "0000:03:00.0"]),
            current_gts=maybe_gts,
            maximum_gts=maybe_gts,
            current_width=maybe_width,
            maximum_width=maybe_width,
            emulated=st.booleans(),
            gone=st.booleans(),
            link_files=st.booleans(),
        ),
        max_size=5,
    ),
    st.booleans(),
    st.none() | st.floats(0, 1),
)
def test_any_path_can_be_judged(hops: list[Hop], guest: bool, share: float | None) -> None:
    gpu = Gpu(pci_address=A, utilisation_share=share, performance_state=0)
    found = [f for rule in RULES for f in rule.judge(
        paths(Path(accelerator=A, hops=tuple(hops)), gpus=(gpu,), guest=guest))]  # fmt: skip
    assert all(f.evidence and f.impact and f.remedy.text for f in found)
    assert (
        not {"pcie.speed_below_max", "pcie.idle_downshift"} <= {f.id for f in found}
        or len(hops) > 2
    )


def width_commands(node: Seen) -> tuple[str, ...]:
    (found,) = [f for rule in RULES for f in rule.judge(node) if f.id == "pcie.width_below_max"]
    return found.remedy.commands


def test_commands_name_the_device_or_say_that_they_are_the_hosts() -> None:
    path = Path(accelerator=A, hops=(hop(A, 8, 16), hop(ROOT, 8, 16)))
    facts = Facts(pcie=PcieFacts(paths=(path,), source="sysfs"))
    (bare,) = width_commands(Seen(facts=facts, policy=Policy()))
    assert bare.startswith(f"sudo lspci -vvv -s {A} |")
    guest = msgspec.structs.replace(facts, virt=VirtFacts(guest=True))
    (inside,) = width_commands(Seen(facts=guest, policy=Policy()))
    assert A not in inside
    assert inside.endswith("# on the host")
