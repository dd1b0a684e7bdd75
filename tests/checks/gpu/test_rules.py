"""The rules on accelerators: what raises, what must not, and that one fault is told once."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from nodecheck.checks.gpu.facts import Gpu, GpuFacts
from nodecheck.checks.gpu.rules import RULES
from nodecheck.checks.kernel_log.facts import KernelLogFacts, Xid
from nodecheck.checks.pcie.facts import Hop, Path, PcieFacts
from nodecheck.checks.seen import Seen
from nodecheck.machine.host import CapturedHost
from nodecheck.model import Action, Severity
from nodecheck.serving import Workload
from nodecheck.workload.numbers import from_numbers
from tests.checks.gpu.examples import RAISES, SILENT
from tests.checks.gpu.inputs import L40, card, csv, text
from tests.checks.gpu.judging import (
    ADDRESS,
    CARD,
    CONTAINER,
    GUEST,
    judge,
    node_of,
    seen,
    severities,
)
from tests.trees import Tree

Node = Callable[[Tree], CapturedHost]
INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


def but(**changes: object) -> Gpu:
    return msgspec.structs.replace(CARD, **changes)


def event(code: int, text: str = "text", *, address: str = "0000:01:00", over: bool = False) -> Xid:
    return Xid(code=code, pci_address=address, text=text, recovered=over)


def test_a_healthy_busy_card_raises_nothing() -> None:
    assert judge(seen(CARD)) == {}


def test_unknown_facts_raise_nothing() -> None:
    assert judge(seen(Gpu(), Gpu(vendor="nvidia", seen_by=("pci",)), gpu=GpuFacts())) == {}


@pytest.mark.parametrize("id_", [rule.id for rule in RULES])
def test_the_examples(id_: str, node: Node) -> None:
    def judged(example: Tree | Seen) -> set[str]:
        if isinstance(example, Seen):
            return set(judge(example))
        virt = CONTAINER if ".dockerenv" in example else None
        return set(judge(node_of(node(example), virt)))

    assert id_ in judged(RAISES[id_])


@pytest.mark.parametrize("id_", [rule.id for rule in RULES])
def test_the_silent_examples(id_: str, node: Node) -> None:
    example = SILENT[id_]
    judged = judge(example) if isinstance(example, Seen) else judge(node_of(node(example)))
    assert id_ not in judged


@pytest.mark.parametrize("id_", [rule.id for rule in RULES])
def test_every_finding_says_what_was_seen_and_what_to_do(id_: str, node: Node) -> None:
    example = RAISES[id_]
    found = judge(example if isinstance(example, Seen) else node_of(node(example)))
    for finding in found.values():
        assert finding.subject
        assert finding.summary
        assert all(piece.value and piece.source for piece in finding.evidence)
        assert finding.impact
        assert finding.remedy.text


# A card that is gone


@pytest.mark.parametrize(
    "facts",
    [
        seen(but(lost=True)),
        seen(CARD, xids=[event(79, "GPU has fallen off the bus.")]),
        seen(CARD, gpu=GpuFacts(state="ok", lost=(ADDRESS,))),
    ],
)
def test_every_wording_of_a_lost_card(facts: Seen) -> None:
    assert severities(facts) == {"gpu.lost": CRITICAL}


def test_a_card_is_lost_once_however_many_say_so() -> None:
    facts = seen(
        but(lost=True),
        gpu=GpuFacts(
            state="failed", message="Failed to initialize NVML: Unknown Error", lost=(ADDRESS,)
        ),
        xids=[event(79), event(45), event(154, "changed from 0x0 (None) to 0x2 (Node Reboot)")],
    )
    found = judge(facts)
    assert set(found) == {"gpu.lost"}
    assert "1 GPU" in found["gpu.lost"].summary


def test_a_line_without_an_address_is_no_second_card() -> None:
    facts = seen(but(lost=True), gpu=GpuFacts(state="ok", lost=("address not said",)))
    assert "1 GPU" in judge(facts)["gpu.lost"].summary


def test_all_ones_in_the_configuration_space_is_a_lost_card() -> None:
    path = Path(accelerator=ADDRESS, hops=(Hop(address=ADDRESS, gone=True, link_files=True),))
    base = seen(but(seen_by=("pci",), granted=None), gpu=GpuFacts(state="failed", message="NVML"))
    facts = msgspec.structs.replace(base.facts, pcie=PcieFacts(paths=(path,), source="sysfs"))
    assert severities(msgspec.structs.replace(base, facts=facts)) == {"gpu.lost": CRITICAL}


def test_a_loss_before_the_last_boot_is_history() -> None:
    facts = seen(CARD, xids=[event(79, over=True)])
    assert severities(facts) == {"gpu.xid": INFO}


def test_the_remedy_of_a_lost_card_names_the_platform() -> None:
    bare, guest = judge(seen(but(lost=True))), judge(seen(but(lost=True), virt=GUEST))
    assert bare["gpu.lost"].remedy.action is Action.REBOOT
    assert guest["gpu.lost"].remedy.action is Action.COLD_RESTART
    assert any(command.startswith("qm ") for command in guest["gpu.lost"].remedy.commands)


# A driver that is not there, or a card that is not ours


def on_pci(**changes: object) -> Gpu:
    return Gpu(pci_address=ADDRESS, vendor="nvidia", seen_by=("pci",), **changes)  # type: ignore[arg-type]


MISSING = GpuFacts(state="missing", message="nvidia-smi: command not found", source="nvidia-smi")


def test_cards_without_a_driver() -> None:
    assert severities(seen(on_pci(), gpu=MISSING)) == {"gpu.driver_missing": CRITICAL}


def test_no_card_needs_no_driver() -> None:
    assert judge(seen(gpu=MISSING)) == {}
    assert judge(seen(Gpu(vendor="amd", pci_address=ADDRESS, seen_by=("pci",)), gpu=MISSING)) == {}


@pytest.mark.parametrize(
    "facts",
    [
        seen(on_pci(granted=False, driver="vfio-pci"), gpu=MISSING),
        seen(on_pci(granted=False, device_file=True), gpu=MISSING),
        seen(on_pci(device_file=False), gpu=MISSING, virt=CONTAINER),
        seen(on_pci(granted=False, driver="vfio-pci"), xids=[event(79)]),
    ],
)
def test_another_ones_card_is_neither_missing_nor_lost(facts: Seen) -> None:
    assert severities(facts) == {"gpu.not_granted": INFO}


def test_the_only_cards_denied_to_this_user() -> None:
    denied = GpuFacts(state="missing", denied_device="/dev/dri/renderD128")
    assert severities(seen(Gpu(vendor="amd"), gpu=denied)) == {"gpu.device_denied": CRITICAL}
    assert judge(seen(CARD, gpu=GpuFacts(state="ok", denied_device="/dev/dri/renderD128"))) == {}


def test_an_unknown_error_is_a_containers_or_a_drivers() -> None:
    failed = GpuFacts(state="failed", message="Failed to initialize NVML: Unknown Error")
    assert severities(seen(on_pci(), gpu=failed)) == {"gpu.nvml_failed": CRITICAL}
    inside = severities(seen(on_pci(), gpu=failed, virt=CONTAINER))
    assert inside == {"gpu.container_lost_devices": CRITICAL}


def test_a_library_without_cards_is_no_fault() -> None:
    none = GpuFacts(state="failed", message="No devices were found", source="nvidia-smi")
    assert judge(seen(gpu=none)) == {}
    assert severities(seen(on_pci(), gpu=none)) == {"gpu.nvml_failed": CRITICAL}


def test_a_card_that_the_driver_refuses() -> None:
    facts = seen(but(error="Insufficient External Power"))
    assert severities(facts) == {"gpu.nvml_failed": CRITICAL}


def test_the_drivers_log_is_evidence_for_a_refusal() -> None:
    failed = GpuFacts(state="failed", message="No devices were found")
    base = seen(on_pci(), gpu=failed)
    log = KernelLogFacts(source="dmesg", driver_errors=("NVRM: GPU: RmInitAdapter failed!",))
    facts = msgspec.structs.replace(base.facts, kernel_log=log)
    finding = judge(msgspec.structs.replace(base, facts=facts))["gpu.nvml_failed"]
    assert any("RmInitAdapter" in piece.value for piece in finding.evidence)


def test_mismatch_is_told_with_both_versions() -> None:
    facts = GpuFacts(state="mismatch", driver_version="580.60", library_version="580.65")
    finding = judge(seen(on_pci(), gpu=facts))["gpu.driver_mismatch"]
    assert finding.evidence[0].value.startswith("kernel module 580.60, library 580.65 (")
    assert finding.evidence[0].expected == "the same version"
    inside = judge(seen(on_pci(), gpu=facts, virt=CONTAINER))["gpu.driver_mismatch"]
    assert inside.remedy.action is Action.RESTART_CONTAINER


# Memory and events


def test_a_pending_remap_is_not_also_an_error_count_nor_a_replacement() -> None:
    facts = seen(
        but(remap_pending=True, ecc_volatile_uncorrectable=4), xids=[event(63, "Row Remapper")]
    )
    found = judge(facts)
    assert set(found) == {"gpu.remap_pending"}
    assert found["gpu.remap_pending"].remedy.action is Action.RESET_GPU


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (48, "An uncorrectable double bit error (DBE) has been detected"),
        (95, "Uncontained: LTC TAG"),
        (171, "DRAM"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    ],
)
def test_a_fault_that_waits_for_a_reset_is_told_once(code: int, text: str) -> None:
    facts = seen(but(remap_pending=True), xids=[event(63, "Row Remapper"), event(code, text)])
    assert severities(facts) == {"gpu.remap_pending": CRITICAL}


def test_another_fault_of_a_card_that_waits_for_a_reset_is_told_too() -> None:
    facts = seen(but(remap_pending=True), xids=[event(119, "Timeout waiting for RPC")])
    assert severities(facts) == {"gpu.remap_pending": CRITICAL, "gpu.xid": CRITICAL}


def test_a_failed_remap_is_told_alone() -> None:
    facts = seen(but(remap_pending=True, remap_failure=True, ecc_volatile_uncorrectable=4))
    assert severities(facts) == {"gpu.remap_failure": CRITICAL}


def test_xid_64_is_a_failed_remap_unless_it_only_waits() -> None:
    assert severities(seen(CARD, xids=[event(64, "Row Remapper Error: table is full")])) == {
        "gpu.remap_failure": CRITICAL
    }
    waits = "Row Remapper: Attempting to remap a row that is already pending remapping."
    assert severities(seen(CARD, xids=[event(64, waits)])) == {"gpu.xid": INFO}


@pytest.mark.parametrize("code", [13, 31, 43, 45, 69, 137, 63, 92, 94, 121, 9999])
def test_events_that_never_gate(code: int) -> None:
    assert severities(seen(CARD, xids=[event(code)])) == {"gpu.xid": INFO}


@pytest.mark.parametrize("code", [46, 48, 62, 74, 95, 119, 120, 140, 143, 158])
def test_events_that_stop_a_node(code: int) -> None:
    assert severities(seen(CARD, xids=[event(code)])) == {"gpu.xid": CRITICAL}
    assert severities(seen(CARD, xids=[event(code, over=True)])) == {"gpu.xid": INFO}


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("changed from 0x1 (GPU Reset Required) to 0x0 (None)", None),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", CRITICAL),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", CRITICAL),
        ("something else", INFO),
    ],
)
def test_the_recovery_action_is_on_the_to_side(text: str, severity: Severity | None) -> None:
    found = severities(seen(CARD, xids=[event(154, text)]))
    assert found == ({} if severity is None else {"gpu.xid": severity})


@pytest.mark.parametrize(
    ("text", "severity"),
    [("RLW_REMAP Nonfatal XC0 i0 Link 3", INFO), ("NETIR Fatal XC1", CRITICAL), ("", WARNING)],
)
def test_nvlink_events_say_whether_they_are_fatal(text: str, severity: Severity) -> None:
    assert severities(seen(CARD, xids=[event(145, text)])) == {"gpu.xid": severity}


def test_an_uncorrectable_error_is_told_once() -> None:
    counted = but(ecc_volatile_uncorrectable=1)
    assert severities(seen(counted)) == {"gpu.ecc_uncorrectable": WARNING}
    assert severities(seen(counted, xids=[event(48)])) == {"gpu.xid": CRITICAL}
    other = [event(48, address="0000:02:00")]
    assert severities(seen(counted, xids=other)) == {
        "gpu.ecc_uncorrectable": WARNING,
        "gpu.xid": CRITICAL,
    }


def test_many_events_are_one_finding() -> None:
    facts = seen(CARD, xids=[event(31), event(31), event(48), event(13)])
    found = judge(facts)["gpu.xid"]
    assert found.severity is CRITICAL
    assert found.summary.startswith("Xid 48")
    assert len(found.evidence) == 3
    assert any("2 times" in piece.value for piece in found.evidence)


# Clocks


def test_a_stuck_card_is_named_and_its_neighbour_is_not(node: Node) -> None:
    cards = [
        card(L40),
        card(L40, bus="02", pstate="P8", sm="135 MHz", mem="405 MHz", draw="32.00 W"),
    ]
    found = judge(node_of(node({"cmd/nvidia-smi_--query-gpu.csv": csv(cards)})))
    assert found["gpu.pstate_stuck"].severity is CRITICAL
    assert found["gpu.pstate_stuck"].subject.startswith("GPU 1 ")
    assert "gpu.clocks_low_under_load" not in found


def test_p2_and_an_idle_p8_are_normal() -> None:
    assert judge(seen(but(performance_state=2))) == {}
    assert judge(seen(but(performance_state=8, utilisation_share=0.0, sm_clock_mhz=210))) == {}


def test_cumulative_counters_prove_nothing(node: Node) -> None:
    tree: Tree = {"cmd/nvidia-smi_-q.txt": text([card(L40, draw="150.00 W")])}
    assert judge(node_of(node(tree))) == {}


@pytest.mark.parametrize(
    ("limit", "reasons", "severity"),
    [
        (300.0, ("sw_power_cap",), None),
        (280.0, ("sw_power_cap",), None),
        (260.0, (), INFO),
        (260.0, ("sw_power_cap",), INFO),
        (200.0, (), INFO),
        (200.0, ("sw_power_cap",), WARNING),
    ],
)
def test_a_lowered_limit(limit: float, reasons: tuple[str, ...], severity: Severity | None) -> None:
    found = severities(seen(but(power_limit_watts=limit, clocks_event_reasons=reasons)))
    assert found.get("gpu.power_limit_lowered") is severity
    assert ("gpu.sw_power_cap" in found) == (bool(reasons) and severity is not WARNING)


def test_a_card_that_is_too_hot_is_told_once() -> None:
    hot = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown")
    facts = seen(but(clocks_event_reasons=hot, sm_clock_mhz=600))
    assert severities(facts) == {"gpu.hw_thermal_slowdown": CRITICAL}


def test_a_low_clock_at_the_power_limit_is_no_riddle() -> None:
    low = but(sm_clock_mhz=900)
    assert severities(seen(low)) == {"gpu.clocks_low_under_load": WARNING}
    unread = msgspec.structs.replace(low, clocks_event_reasons=None, power_watts=299.0)
    assert judge(seen(unread)) == {}
    assert judge(seen(msgspec.structs.replace(low, utilisation_share=0.6))) == {}


# Memory in use


def workload(gibibytes: int, *, named: bool = True) -> Workload:
    return from_numbers(
        "m",
        gibibytes << 30,
        layers=1,
        weight_type="q4_k",
        kv_bytes_per_token=1,
        named_by_user=named,
    )


@pytest.mark.parametrize(
    ("used_gib", "model", "severity"),
    [
        (20, workload(20), WARNING),
        (20, workload(30), CRITICAL),
        (20, workload(90), WARNING),
        (0, workload(30), None),
        (20, workload(30, named=False), None),
        (20, None, None),
    ],
)
def test_memory_in_use(used_gib: int, model: Workload | None, severity: Severity | None) -> None:
    facts = seen(but(memory_used_bytes=used_gib << 30), workload=model)
    assert severities(facts).get("gpu.memory_in_use") is severity
