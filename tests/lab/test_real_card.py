"""What a machine with real NVIDIA cards shows: `make card`, with a capture in $CARD_CAPTURE."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import asdict

from nodecheck import links
from nodecheck.report import Report, from_json

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA card in this machine"),
]

H200_COPY_BYTES_PER_SECOND = 0.9 * 4.3e12
"""Read and written. Source: copies of device memory on H200, within a tenth."""

PINNED = ("host_to_device", "device_to_host")
LINK_SHARE = 0.70
"""Of what the link carries as it was seen meanwhile."""

MOVING = (
    "seen_by", "granted", "device_file", "driver", "numa_node", "memory_used_bytes", "processes",
    "memory_clock_mhz", "sm_clock_mhz", "performance_state", "utilisation_share",
    "temperature_celsius", "memory_temperature_celsius", "thermal", "power_watts",
    "clocks_event_reasons", "clock_event_seconds", "link_generation", "pcie_replays",
    "pcie_errors", "pcie_sent_bytes_per_second", "pcie_received_bytes_per_second",
)  # fmt: skip
"""Members that change from one moment to the next, or that only a look at the machine gives."""


def nodecheck(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "nodecheck", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def report(*arguments: str) -> Report:
    return from_json(nodecheck(*arguments, "--json"), " ".join(arguments))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("CARD_CAPTURE")
    folder = Path(named) if named else tmp_path_factory.mktemp("card") / "capture"
    nodecheck("capture", str(folder))
    return folder


def test_the_report() -> None:
    live = report()
    assert live.facts.gpu.state == "ok"
    assert live.facts.cuda.state == "ok"
    for gpu in live.facts.gpus:
        assert gpu.granted
        assert gpu.name
        assert gpu.vram_bytes_per_second


def test_the_copies() -> None:
    told = report("bench", "gpu")
    assert told.transfers
    assert all(each.intact is True for each in told.transfers)
    steady = [each for each in told.transfers if not each.name.endswith("_pageable")]
    assert not any(each.flags for each in steady)
    assert not {f.id for f in told.findings} & {"pcie.link_slow", "gpu.vram_slow"}
    for each in told.transfers:
        if each.name in PINNED and each.cards == 1:
            carried = links.encoded_bytes_per_second(each.link_gts, each.link_width)
            assert carried, f"no link was seen: {each}"
            assert each.median_bytes_per_second >= LINK_SHARE * carried, each
    names = {gpu.pci_address: gpu.name or "" for gpu in told.facts.gpus}
    for each in told.transfers:
        if each.name == "device_copy" and "H200" in names.get(each.card, ""):
            assert each.median_bytes_per_second >= H200_COPY_BYTES_PER_SECOND


def test_a_capture_is_judged_alike(capture: Path) -> None:
    live, replayed = report("--quick"), report("--root", str(capture))
    for seen in (live, replayed):
        assert seen.facts.gpus
    about = ("gpu.", "pcie.", "numa.gpu")
    found = [
        sorted((f.id, f.severity) for f in seen.findings if f.id.startswith(about))
        for seen in (live, replayed)
    ]
    assert found[0] == found[1]


def test_nvidia_smi_says_what_nvml_says(tmp_path: Path) -> None:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        pytest.skip("no nvidia-smi beside the driver")
    printed = subprocess.run((smi, "-q", "-x"), capture_output=True, timeout=60, check=True).stdout
    (tmp_path / "cmd").mkdir()
    (tmp_path / "cmd" / "nvidia-smi_-q_-x.txt").write_bytes(printed)
    by_nvml, by_text = report("--quick").facts.gpus, report("--root", str(tmp_path)).facts.gpus
    assert len(by_nvml) == len(by_text)
    for card, text in zip(by_nvml, by_text, strict=True):
        told = {
            name: (value, getattr(card, name))
            for name, value in asdict(text).items()
            if name not in MOVING and value not in (None, (), {}) and value != getattr(card, name)
        }
        assert not told
