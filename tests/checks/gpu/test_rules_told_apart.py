"""Situations that look alike from afar: each gives exactly its own finding, by all rules."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.cuda.facts import CudaFacts
from nodecheck.checks.gpu import presence_rules
from nodecheck.checks.gpu.facts import Gpu, GpuFacts, GpuProcess
from nodecheck.checks.gpu.nvml_words import NEEDS_RESET
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.checks.pcie.facts import PcieFacts
from nodecheck.checks.seen import Past, Seen
from nodecheck.diagnose import rules
from nodecheck.model import Severity
from nodecheck.policy import Policy, Requirements
from nodecheck.workload.numbers import from_numbers
from tests.checks.gpu.judging import CARD, CONTAINER, H100, board, judge, numbered, seen, with_facts

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
OTHER = Gpu(
    pci_address="0000:02:00.0",
    vendor="nvidia",
    name="NVIDIA L40",
    pci_device_id="10de:26b5",
    seen_by=("pci",),
    driver="nvidia",
)
MODEL = from_numbers("m", 40 << 30, layers=64, weight_type="q4_k", kv_bytes_per_token=65536)
HELD = replace(
    CARD,
    memory_used_bytes=20 << 30,
    processes=(GpuProcess(pid=9, kind="compute", name="python3", memory_bytes=20 << 30),),
)


def missing(node: Seen) -> Seen:
    """The node under a policy that asks for two cards, of which the last snapshot had both."""
    addresses = ("0000:01:00.0", "0000:02:00.0")
    return replace(
        with_facts(node, pcie=PcieFacts(source="sysfs")),
        policy=Policy(requirements=Requirements(gpus=2)),
        past=Past(time="2026-11-29T10:00:00+00:00", accelerators=addresses),
    )


@pytest.mark.parametrize(
    ("node", "id_", "severity"),
    [
        pytest.param(
            seen(CARD, replace(OTHER, device_file=False), virt=CONTAINER),
            "gpu.not_granted", INFO, id="granted to another container: no file in /dev",
        ),
        pytest.param(
            seen(CARD, replace(OTHER, device_file=True, granted=False), virt=CONTAINER),
            "gpu.not_granted", INFO, id="granted to another container: refused by its cgroup",
        ),
        pytest.param(
            seen(CARD, replace(OTHER, driver="vfio-pci", granted=False)),
            "gpu.not_granted", INFO, id="bound to vfio-pci",
        ),
        pytest.param(
            seen(replace(OTHER, device_file=True),
                 gpu=GpuFacts(state="failed", source="nvml", denied_device="/dev/nvidiactl",
                              message="Failed to initialize NVML: Insufficient Permissions")),
            "gpu.device_denied", CRITICAL, id="denied by group",
        ),
        pytest.param(
            with_facts(seen(CARD), cuda=CudaFacts(state="failed", error=999, call="cuInit",
                                                  message="unknown error")),
            "gpu.cuda_unavailable", CRITICAL, id="NVML fine, CUDA dead",
        ),
        pytest.param(
            seen(HELD, workload=MODEL), "gpu.memory_in_use", CRITICAL, id="memory taken by others",
        ),
        pytest.param(
            seen(CARD, xids=[Xid(code=79, pci_address="0000:01:00.0", recovered=True,
                                 text="GPU has fallen off the bus.")]),
            "gpu.xid", INFO, id="an Xid from before the last reset",
        ),
        pytest.param(
            missing(seen(CARD)), "gpu.count_low", CRITICAL, id="missing against policy",
        ),
        pytest.param(
            replace(missing(seen(CARD)), policy=Policy()),
            "gpu.count_low", WARNING, id="missing against the last snapshot",
        ),
        pytest.param(
            missing(seen(CARD, numbered(CARD, 1, lost=True))),
            "gpu.lost", CRITICAL, id="lost, not missing",
        ),
        pytest.param(
            missing(seen(CARD, replace(OTHER, driver="vfio-pci", granted=False))),
            "gpu.not_granted", INFO, id="given away, not missing",
        ),
        pytest.param(
            missing(seen(*(numbered(OTHER, n) for n in range(2)),
                         gpu=GpuFacts(state="missing", message="nvidia-smi: not found"))),
            "gpu.driver_missing", CRITICAL, id="without a driver, not missing",
        ),
        pytest.param(
            seen(CARD, replace(OTHER, device_file=True, granted=True)),
            "gpu.nvml_failed", CRITICAL, id="granted, and the driver leaves it out",
        ),
    ],
)  # fmt: skip
def test_it_gives_its_finding_and_no_other(node: Seen, id_: str, severity: Severity) -> None:
    found = {finding.id: finding.severity for rule in rules() for finding in rule.judge(node)}
    ours = {key: value for key, value in found.items() if key.partition(".")[0] in ("gpu", "pcie")}
    assert ours == {id_: severity}


def test_what_is_of_the_node_is_not_asked_card_by_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cards take as many looks for lost ones as two do."""
    looks: list[int] = []
    losses = presence_rules._Losses

    def counted(node: Seen) -> presence_rules._Losses:
        looks[-1] += 1
        return losses(node)

    monkeypatch.setattr(presence_rules, "_Losses", counted)
    for number in (2, 8):
        looks.append(0)
        ill = replace(H100, error=NEEDS_RESET, sram_threshold_exceeded=True)
        judge(board(*(numbered(ill, n) for n in range(number)), nvswitches=None))
    assert 0 < looks[0] == looks[1]
