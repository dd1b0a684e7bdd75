"""NVLinks and the fabric: down only where a link has to be there, told by what causes it."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.gpu.facts import Fabric, Gpu, GpuFacts, NvLink
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.checks.seen import Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.model import Action, Severity
from tests.checks.gpu.judging import (
    CARD,
    CONTAINER,
    GUEST,
    H100,
    board,
    inactive,
    judge,
    numbered,
    seen,
    severities,
    with_facts,
)

WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL
EIGHT = tuple(numbered(H100, number) for number in range(8))
A6000 = replace(CARD, name="NVIDIA RTX A6000", pci_device_id="10de:2230")


def links(*active: bool, fatal: int | None = 0, speed: float = 14.06e9) -> tuple[NvLink, ...]:
    return tuple(
        NvLink(link=n, active=on, fatal_errors=fatal, bytes_per_second=speed if on else None)
        for n, on in enumerate(active)
    )


def with_log(node: Seen, *xids: Xid) -> Seen:
    return with_facts(node, kernel_log=KernelLogFacts(source="dmesg", xids=xids))


def test_eight_cards_with_all_links() -> None:
    assert judge(board(*EIGHT)) == {}


def test_a_link_that_is_down_is_counted_and_named() -> None:
    found = judge(board(*EIGHT[:3], inactive(EIGHT[3], 4, 5), *EIGHT[4:]))
    assert set(found) == {"gpu.nvlink_down"}
    finding = found["gpu.nvlink_down"]
    assert finding.severity is CRITICAL
    assert finding.subject.startswith("GPU 3 ")
    assert finding.summary.startswith("2 NVLinks are down")
    assert "inactive: link 4 and 5" in finding.evidence[0].value
    assert finding.evidence[0].expected == "18 active links"
    assert finding.impact.startswith("16 of 18 links carry traffic, 425 GB/s of 478 GB/s")
    assert finding.remedy.action is Action.RESET_GPU


def test_all_links_of_a_node_are_down_although_the_fabric_is_ready() -> None:
    cards = [inactive(card, *range(18), fabric=Fabric(state="completed")) for card in EIGHT]
    found = judge(board(*cards))
    assert set(found) == {"gpu.nvlink_down"}
    assert "over PCIe" in found["gpu.nvlink_down"].impact


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(seen(replace(A6000, nvlinks=links(False, False, False, False))), id="bridge"),
        pytest.param(
            seen(
                *(numbered(A6000, n, nvlinks=links(*4 * [n < 2])) for n in range(3))
            ),
            id="two of three cards have a bridge",
        ),
        pytest.param(
            seen(
                *(
                    numbered(CARD, n, name="NVIDIA H100 PCIe", pci_device_id="10de:2331",
                             nvlinks=links(*12 * [True], *6 * [False]))
                    for n in range(2)
                )
            ),
            id="a bridge connects some links",
        ),
        pytest.param(seen(replace(CARD, nvlinks=())), id="a card without links"),
        pytest.param(board(*(replace(card, nvlinks=None) for card in EIGHT)), id="not told"),
        pytest.param(
            with_facts(seen(inactive(H100, *range(18))), virt=GUEST), id="one card in a guest"
        ),
        pytest.param(
            with_facts(seen(*(inactive(card, *range(6)) for card in EIGHT[:4])), virt=GUEST),
            id="a partition with fewer links",
        ),
        pytest.param(
            with_facts(seen(*(inactive(card, *range(6)) for card in EIGHT)), virt=VirtFacts()),
            id="a capture that does not tell whether it is a guest's",
        ),
        pytest.param(seen(inactive(H100, *range(18))), id="a card alone on its board"),
        pytest.param(
            board(*(inactive(card, *range(18), mig=True) for card in EIGHT)), id="MIG mode"
        ),
        pytest.param(
            seen(
                numbered(H100, 0, driver="vfio-pci", granted=False, nvlinks=None),
                *(inactive(card, *range(6)) for card in EIGHT[1:4]),
            ),
            id="a peer was given to a guest",
        ),
    ],
)  # fmt: skip
def test_links_that_may_be_inactive_by_design(node: Seen) -> None:
    assert "gpu.nvlink_down" not in judge(node)


def test_a_peer_that_is_lost_takes_its_end_of_the_links_along() -> None:
    three = [inactive(card, *range(6)) for card in EIGHT[1:4]]
    assert severities(board(replace(EIGHT[0], lost=True), *three, nvswitches=0)) == {
        "gpu.lost": CRITICAL
    }
    assert severities(board(replace(EIGHT[0], lost=True), *three)) == {
        "gpu.lost": CRITICAL,
        "gpu.nvlink_down": CRITICAL,
    }


def test_in_a_guest_a_card_with_fewer_links_than_its_siblings_is_down() -> None:
    partition = [inactive(card, *range(6)) for card in EIGHT[:3]]
    node = with_facts(seen(*partition, inactive(EIGHT[3], *range(7))), virt=GUEST)
    found = judge(node)
    assert found["gpu.nvlink_down"].subject.startswith("GPU 3 ")
    assert "GPU 2" not in found["gpu.nvlink_down"].subject


def test_a_guest_that_has_the_switches_has_the_whole_board() -> None:
    node = with_facts(board(*(inactive(card, 0) for card in EIGHT)), virt=GUEST)
    assert severities(node) == {"gpu.nvlink_down": CRITICAL}


@pytest.mark.parametrize("card", [A6000, H100])
@pytest.mark.parametrize("active", [True, False])
def test_failed_recoveries_count_on_every_card(card: Gpu, active: bool) -> None:
    failed = replace(card, nvlinks=links(True, active, fatal=2))
    found = judge(with_facts(seen(failed), virt=GUEST))
    finding = found["gpu.nvlink_down"]
    assert "fatal errors on link 0 (2) and 1 (2)" in finding.evidence[0].value
    assert ("links carry traffic" in finding.impact) is not active
    assert ("No link is down now: 4 fatal errors" in finding.impact) is active
    assert "begins at 0 when the driver is loaded anew" in finding.remedy.text


def test_corrected_and_repeated_errors_are_no_fault() -> None:
    link = NvLink(link=0, active=True, crc_errors=900, replay_errors=12, recovery_errors=3,
                  fatal_errors=0)  # fmt: skip
    assert judge(seen(replace(A6000, nvlinks=(link,)))) == {}


def test_a_slow_link_is_a_warning() -> None:
    slow = replace(
        EIGHT[1],
        nvlinks=(replace(EIGHT[1].nvlinks[0], bytes_per_second=13.3e9), *EIGHT[1].nvlinks[1:]),  # type: ignore[index]
    )
    found = judge(board(EIGHT[0], slow))
    assert {id_: finding.severity for id_, finding in found.items()} == {"gpu.nvlink_down": WARNING}
    assert "link 0: 13.3 GB/s" in found["gpu.nvlink_down"].evidence[0].value
    assert found["gpu.nvlink_down"].evidence[0].expected == "26.6 GB/s"


@pytest.mark.parametrize("code", [74, 136, 145, 155])
def test_events_of_links_that_are_down_are_evidence(code: int) -> None:
    event = Xid(code=code, pci_address=EIGHT[0].pci_address, text="fatal error on link 3")
    found = judge(with_log(board(inactive(EIGHT[0], 3), *EIGHT[1:]), event))
    assert set(found) == {"gpu.nvlink_down"}
    assert any(f"Xid {code}" in piece.value for piece in found["gpu.nvlink_down"].evidence)
    elsewhere = msgspec.structs.replace(event, pci_address=EIGHT[5].pci_address)
    both = judge(with_log(board(inactive(EIGHT[0], 3), *EIGHT[1:]), elsewhere))
    assert set(both) == {"gpu.nvlink_down", "gpu.xid"}


# The fabric


def fabric(state: str, error: str | None = None, *problems: str) -> tuple[Gpu, ...]:
    return tuple(
        inactive(card, *range(18) if state != "completed" else (),
                 fabric=Fabric(state=state, error=error, problems=problems))
        for card in EIGHT
    )  # fmt: skip


@pytest.mark.parametrize("state", ["not_started", "in_progress"])
def test_a_fabric_that_is_not_ready_explains_links_that_are_down(state: str) -> None:
    found = judge(board(*fabric(state)))
    assert {id_: f.severity for id_, f in found.items()} == {"gpu.fabric_not_ready": CRITICAL}
    finding = found["gpu.fabric_not_ready"]
    assert finding.impact == "Programs do not start on 8 cards until it is ready"
    assert "After a boot wait" in finding.remedy.text


def test_a_fabric_that_failed_did_not_just_boot() -> None:
    found = judge(board(*fabric("completed", "initialisation failed")))
    assert {id_: f.severity for id_, f in found.items()} == {"gpu.fabric_not_ready": CRITICAL}
    failed = found["gpu.fabric_not_ready"]
    assert "After a boot" not in failed.remedy.text
    assert "fabric state completed, initialisation failed" in failed.evidence[0].value


A100 = replace(H100, name="NVIDIA A100-SXM4-80GB", pci_device_id="10de:20b2",
               compute_capability="8.0", nvlinks=links(*12 * [True]))  # fmt: skip
A100S = tuple(numbered(A100, number) for number in range(8))


def test_switches_without_a_manager() -> None:
    down = [inactive(card, *range(12)) for card in A100S]
    found = judge(board(*down, nvswitches=6, manager=False))
    assert {id_: f.severity for id_, f in found.items()} == {"gpu.fabric_not_ready": CRITICAL}
    piece = found["gpu.fabric_not_ready"].evidence[0]
    assert "nv-fabricmanager" in piece.value
    assert piece.expected == "a fabric manager of version 580.65.06"
    assert piece.basis == "NVSwitches on PCI: 6"


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(board(*A100S, nvswitches=6, manager=None), id="processes are hidden"),
        pytest.param(board(*A100S, nvswitches=6, manager=True), id="it runs"),
        pytest.param(board(*A100S, nvswitches=0, manager=False), id="no switches"),
        pytest.param(board(*A100S, nvswitches=None, manager=False), id="not looked"),
        pytest.param(
            board(*A100S, nvswitches=6, manager=False, cuda=CudaFacts(state="ok")),
            id="CUDA starts",
        ),
        pytest.param(board(*fabric("completed"), manager=False), id="the fabric is ready"),
        pytest.param(
            board(*(replace(card, mig=True) for card in fabric("not_started"))), id="MIG mode"
        ),
    ],
)
def test_a_manager_that_is_not_missed(node: Seen) -> None:
    assert "gpu.fabric_not_ready" not in judge(node)


def test_a_driver_that_is_not_there_is_told_alone() -> None:
    cards = [Gpu(pci_address=card.pci_address, vendor="nvidia", seen_by=("pci",)) for card in A100S]
    driver = GpuFacts(state="missing", nvswitches=6, fabric_manager=False)
    assert severities(seen(*cards, gpu=driver)) == {"gpu.driver_missing": CRITICAL}


def test_cuda_that_runs_all_the_same_makes_it_a_warning() -> None:
    addresses = tuple(card.pci_address or "" for card in EIGHT)
    node = board(*fabric("in_progress"), cuda=CudaFacts(state="ok", devices=addresses))
    assert severities(node) == {"gpu.fabric_not_ready": WARNING}


def test_an_unhealthy_fabric_is_a_warning() -> None:
    found = judge(board(*fabric("completed", None, "bandwidth degraded")))
    assert found["gpu.fabric_not_ready"].severity is WARNING
    assert "bandwidth degraded" in found["gpu.fabric_not_ready"].evidence[0].value
    assert "not healthy" in found["gpu.fabric_not_ready"].summary


def test_cuda_that_waits_for_the_fabric_goes_before_what_cards_say() -> None:
    waits = CudaFacts(state="failed", error=802, call="cuInit")
    assert severities(board(*fabric("completed"), manager=False, cuda=waits)) == {
        "gpu.fabric_not_ready": CRITICAL
    }


def test_cudas_own_word_is_evidence() -> None:
    node = board(*fabric("not_started"), cuda=CudaFacts(state="failed", error=802, call="cuInit"))
    finding = judge(node)["gpu.fabric_not_ready"]
    assert any("802" in piece.value for piece in finding.evidence)
    assert finding.impact == "CUDA does not start on 8 cards"
    assert "Confidential" not in finding.remedy.text


def test_confidential_computing_is_the_other_reason_for_that_word() -> None:
    waits = CudaFacts(state="failed", error=802, call="cuInit")
    node = board(*fabric("not_started"), cuda=waits)
    protected = replace(node.facts.gpu, confidential_compute=True)
    node = replace(node, facts=replace(node.facts, gpu=protected))
    assert "Confidential computing is on" in judge(node)["gpu.fabric_not_ready"].remedy.text


@pytest.mark.parametrize("where", [GUEST, CONTAINER])
def test_commands_for_the_host_say_so(where: VirtFacts) -> None:
    node = board(*fabric("not_started"), nvswitches=0)
    commands = judge(node)["gpu.fabric_not_ready"].remedy.commands
    assert not any("host" in command for command in commands)
    node = replace(node, facts=replace(node.facts, virt=where))
    commands = judge(node)["gpu.fabric_not_ready"].remedy.commands
    assert commands
    assert all(command.endswith("# on the host") for command in commands)


@pytest.mark.parametrize(
    ("virt", "nvswitches", "words"),
    [(GUEST, 0, "runs on its host"), (CONTAINER, 4, "not in the container")],
)
def test_where_the_manager_is_started(virt: VirtFacts, nvswitches: int, words: str) -> None:
    node = with_facts(board(*fabric("not_started"), nvswitches=nvswitches), virt=virt)
    assert words in judge(node)["gpu.fabric_not_ready"].remedy.text
