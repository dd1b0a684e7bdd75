"""Cards of other containers and guests: what is wrong with them is not told here."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.model import Severity
from tests.checks.gpu.judging import CARD, CONTAINER, judge, numbered, seen, severities

OURS = numbered(CARD, 0)
THEIRS = Gpu(index=1, pci_address="0000:02:00.0", vendor="nvidia", seen_by=("pci",))


@pytest.mark.parametrize(
    "theirs", [replace(THEIRS, granted=False, device_file=True), replace(THEIRS, device_file=False)]
)
@pytest.mark.parametrize("code", [48, 64, 79, 119])
def test_events_of_another_containers_card(theirs: Gpu, code: int) -> None:
    event = Xid(code=code, pci_address="0000:02:00", text="text")
    node = seen(OURS, theirs, virt=CONTAINER, xids=[event])
    assert severities(node) == {"gpu.not_granted": Severity.INFO}


@pytest.mark.parametrize(("code", "id_"), [(48, "gpu.xid"), (64, "gpu.remap_failure")])
def test_events_of_a_card_that_nothing_else_names(code: int, id_: str) -> None:
    event = Xid(code=code, pci_address="0000:09:00", text="text")
    assert severities(seen(OURS, xids=[event])) == {id_: Severity.CRITICAL}


@pytest.mark.parametrize(
    ("card", "value", "source"),
    [
        ({"driver": "vfio-pci"}, "bound to vfio-pci", "PCI driver link"),
        ({"driver": "nvidia"}, "GPU Excluded: Yes", "/proc/driver/nvidia/gpus"),
        ({"driver": "nvidia", "device_file": True}, "is refused (EPERM)", "/dev"),
        ({"driver": "nvidia", "seen_by": ("nvml", "pci")}, "refuses to open it", "NVML"),
    ],
)
def test_why_a_card_is_not_ours(card: dict[str, object], value: str, source: str) -> None:
    finding = judge(seen(OURS, replace(THEIRS, granted=False, **card)))["gpu.not_granted"]
    assert finding.evidence[0].value.endswith(value)
    assert finding.evidence[0].source == source
    left_out = "left out by a setting" in finding.impact
    assert left_out == ("NVreg_ExcludedGpus" in (finding.evidence[0].basis or ""))
