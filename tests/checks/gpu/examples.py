"""An input for each finding on accelerators that raises it, and one that does not."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from nodecheck.checks.gpu.facts import Fabric, GpuFacts
from nodecheck.checks.kernel_log.facts import Xid
from nodecheck.checks.pcie.facts import PcieFacts
from nodecheck.checks.python.facts import Library, PythonFacts
from nodecheck.checks.seen import Seen
from nodecheck.checks.virt.facts import VirtFacts
from nodecheck.policy import Policy, Requirements
from nodecheck.workload.numbers import from_numbers
from tests.checks.gpu.inputs import GB10, IDLE_4090, L40, card, csv, device, table, text, xml
from tests.checks.gpu.judging import (
    ADDRESS,
    CARD,
    H100,
    board,
    inactive,
    numbered,
    seen,
    with_facts,
)
from tests.trees import Link, Tree

_ON_PCI = device(ADDRESS)
_HEALTHY: Tree = {**_ON_PCI, "cmd/nvidia-smi_-q_-x.txt": xml([L40])}
_WORKLOAD = from_numbers("model", 40 << 30, layers=64, weight_type="q4_k", kv_bytes_per_token=65536)
_CONTAINER: Tree = {
    "proc/self/mountinfo": "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/a,upperdir=/b\n",
    ".dockerenv": "",
}


def _smi(**changes: str) -> Tree:
    return {"cmd/nvidia-smi_-q.txt": text([card(L40, **changes)])}


def _failing(message: str, status: int) -> Tree:
    return {**_ON_PCI, "cmd/nvidia-smi.txt": message + "\n", "cmd/nvidia-smi.rc": f"{status}\n"}


_BOARD = tuple(numbered(H100, number) for number in range(8))
_STARTING = tuple(replace(card, fabric=Fabric(state="in_progress")) for card in _BOARD)
_COUNTED = with_facts(seen(CARD), pcie=PcieFacts(source="sysfs"))
_BLACKWELL = seen(replace(CARD, compute_capability="12.0"))


def _torch(*archs: str) -> PythonFacts:
    library = Library(name="torch", version="2.4.0", outcome="ok")
    return PythonFacts(interpreter="/opt/venv/bin/python", libraries=(library,), torch_archs=archs)


RAISES: dict[str, Tree | Seen] = {
    "gpu.lost": {
        "cmd/nvidia-smi.txt": "Unable to determine the device handle for GPU0: 0000:01:00.0: "
        "Unknown Error\n"
    },
    "gpu.driver_missing": _failing("bash: nvidia-smi: command not found", 127),
    "gpu.not_granted": {
        **_ON_PCI,
        "sys/devices/pci0000:00/0000:01:00.0/driver": Link("../../../bus/pci/drivers/vfio-pci"),
        "sys/bus/pci/drivers/vfio-pci/new_id": "",
    },
    "gpu.device_denied": _failing("Failed to initialize NVML: Insufficient Permissions", 4),
    "gpu.unresponsive": _failing("", 124),
    "gpu.driver_mismatch": _failing(
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.65",
        18,
    ),
    "gpu.container_lost_devices": {
        **_CONTAINER,
        **_failing("Failed to initialize NVML: Unknown Error", 255),
    },
    "gpu.nvml_failed": _failing("Failed to initialize NVML: Unknown Error", 255),
    "gpu.remap_failure": _smi(failure="Yes", rows="9"),
    "gpu.remap_pending": _smi(pending="Yes", rows="1"),
    "gpu.xid": seen(CARD, xids=[Xid(code=48, pci_address=ADDRESS, text="DBE detected")]),
    "gpu.ecc_uncorrectable": _smi(unc="2"),
    "gpu.hw_power_brake_slowdown": _smi(active="hw_slowdown hw_power_brake_slowdown"),
    "gpu.hw_thermal_slowdown": _smi(active="hw_slowdown hw_thermal_slowdown"),
    "gpu.sw_thermal_slowdown": _smi(active="sw_thermal_slowdown"),
    "gpu.sw_power_cap": _smi(active="sw_power_cap"),
    "gpu.power_limit_lowered": _smi(limit="200.00 W", active="sw_power_cap"),
    "gpu.pstate_stuck": _smi(pstate="P8", sm="210 MHz"),
    "gpu.clocks_low_under_load": _smi(sm="900 MHz", draw="90.00 W"),
    "gpu.mig": {"cmd/nvidia-smi_-q_-x.txt": xml([card(L40, mig="Enabled", util="N/A")])},
    "gpu.persistence_off": {"cmd/nvidia-smi.txt": table([card(L40, persistence="Disabled")])},
    "gpu.unified_memory": {"cmd/nvidia-smi.txt": table([GB10])},
    "gpu.memory_in_use": seen(
        msgspec.structs.replace(CARD, memory_used_bytes=20 << 30), workload=_WORKLOAD
    ),
    "gpu.fabric_not_ready": board(*_STARTING),
    "gpu.nvlink_down": board(inactive(_BOARD[0], 3, 4), *_BOARD[1:]),
    "gpu.count_low": replace(_COUNTED, policy=Policy(requirements=Requirements(gpus=2))),
    "gpu.arch_unsupported": with_facts(_BLACKWELL, python=_torch("sm_80", "sm_90")),
    "gpu.cards_differ": seen(_BOARD[0], replace(_BOARD[1], power_limit_watts=280.0)),
}

_IDLE: Tree = {"cmd/nvidia-smi_--query-gpu.csv": csv([IDLE_4090])}

SILENT: dict[str, Tree | Seen] = {
    **dict.fromkeys(RAISES, _HEALTHY),
    "gpu.driver_missing": _ON_PCI,  # no nvidia-smi in the capture: not tried
    "gpu.not_granted": _HEALTHY,
    "gpu.container_lost_devices": _failing("Failed to initialize NVML: Unknown Error", 255),
    "gpu.nvml_failed": {"cmd/nvidia-smi.txt": "No devices were found\n", "cmd/nvidia-smi.rc": "6"},
    "gpu.remap_pending": _smi(pending="Yes", failure="Yes"),
    "gpu.ecc_uncorrectable": _smi(unc="4", pending="Yes"),
    "gpu.xid": seen(CARD, xids=[Xid(code=79, pci_address=ADDRESS, text="fallen off the bus")]),
    "gpu.sw_thermal_slowdown": _smi(active="sw_thermal_slowdown hw_thermal_slowdown"),
    "gpu.sw_power_cap": _smi(limit="200.00 W", active="sw_power_cap"),
    "gpu.power_limit_lowered": _smi(limit="280.00 W", active="sw_power_cap"),
    "gpu.pstate_stuck": _IDLE,
    "gpu.clocks_low_under_load": _smi(sm="900 MHz", active="sw_power_cap"),
    "gpu.unresponsive": seen(gpu=GpuFacts(state="unresponsive", source="nvml")),
    "gpu.memory_in_use": seen(msgspec.structs.replace(CARD, memory_used_bytes=20 << 30)),
    "gpu.fabric_not_ready": board(*_BOARD),
    "gpu.nvlink_down": seen(inactive(H100, *range(18)), virt=VirtFacts(guest=True)),
    "gpu.count_low": replace(_COUNTED, policy=Policy(requirements=Requirements(gpus=1))),
    "gpu.arch_unsupported": with_facts(_BLACKWELL, python=_torch("sm_80", "compute_90")),
    "gpu.cards_differ": seen(*_BOARD),
}
