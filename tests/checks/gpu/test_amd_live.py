"""Cards of AMD on a live node: second samples, refusals, and a driver that hangs."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import msgspec
import pytest

from nodecheck.checks.gpu import sysfs
from nodecheck.checks.gpu.facts import GpuFacts, GpuProbe
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Action, Reason, Severity
from tests.checks.gpu.amd_inputs import (
    HERE,
    A,
    accelerator,
    radeon,
    table_v1_3,
    table_v1_6,
)
from tests.checks.gpu.judging import judge, node_of, probed, seen
from tests.checks.gpu.sysfs_cards import card, gaps_of, in_turn
from tests.checks.live_tree import LiveTree
from tests.trees import Tree, plant


def live(tree: Tree, directory: Path) -> LiveTree:
    plant(tree, directory)
    return LiveTree(directory)


def test_two_samples_tell_what_holds_the_clocks_of_an_accelerator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counters are read a second apart: what held them half of the time counts."""
    first = table_v1_6(1000, ppt=400, socket=10, hbm=77)
    second = table_v1_6(2000, ppt=1300, socket=60, hbm=77)
    host = live(accelerator(1, gpu_metrics=first), tmp_path)
    file = tmp_path / "sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/gpu_metrics"
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        file.write_bytes(second)

    monkeypatch.setattr("nodecheck.checks.gpu.amd.time.sleep", sleep)
    monkeypatch.setattr("nodecheck.checks.gpu.sysfs.child.gather", in_turn)
    assert card(host).clocks_event_reasons == ("sw_power_cap",)
    assert waited == [1.0]


def test_a_slowdown_that_only_flashes_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = live(radeon(gpu_metrics=table_v1_3(1 << 44 | 1 << 0)), tmp_path)

    def sleep(_: float) -> None:
        (tmp_path / HERE / "gpu_metrics").write_bytes(table_v1_3(1 << 0))

    monkeypatch.setattr("nodecheck.checks.gpu.card_files.time.sleep", sleep)
    monkeypatch.setattr("nodecheck.checks.gpu.sysfs.child.gather", in_turn)
    assert card(host).clocks_event_reasons == ("sw_power_cap",)


class Refusing(CapturedHost):
    """A driver in a reset: it refuses its files, each with a reason."""

    def __init__(self, directory: Path, names: tuple[str, ...], reason: Reason) -> None:
        super().__init__(directory)
        self._names, self._reason = names, reason

    def read(self, path: str) -> str:
        if path.endswith(self._names):
            raise UnreadableError(self._reason, f"{path}: Invalid argument")
        return super().read(path)

    def read_bytes(self, path: str) -> bytes:
        if path.endswith(self._names):
            raise UnreadableError(self._reason, f"{path}: Invalid argument")
        return super().read_bytes(path)


def test_refusals_are_told_with_their_reason(tmp_path: Path) -> None:
    plant(radeon(), tmp_path)
    names = ("gpu_metrics", "umc_err_count", "gfx_err_count", "gpu_busy_percent", "power1_cap")
    host = Refusing(tmp_path, names, Reason.UNSUPPORTED)
    gpu = card(host)
    assert gpu.clocks_event_reasons is None
    assert gpu.ecc_volatile_uncorrectable is None
    assert gpu.memory_bytes == 24 << 30
    gaps = gaps_of(host)
    for member in (
        "clocks_event_reasons", "ecc_volatile_uncorrectable", "utilisation_share",
        "power_limit_watts",
    ):  # fmt: skip
        assert gaps[f"gpus.{member}"].reason is Reason.UNSUPPORTED
        assert "Invalid argument" in gaps[f"gpus.{member}"].detail
        assert gaps[f"gpus.{member}"].detail.startswith("sysfs: ")
    assert judge(node_of(host)).keys() == {"pcie.width_below_max"}


def hanging(tree: Tree, directory: Path, monkeypatch: pytest.MonkeyPatch) -> LiveTree:
    """A live node in which whoever reads what is GONE waits for ever, as in a sick driver."""
    for path, content in tree.items():
        if content == HANGS:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            os.mkfifo(directory / path)
    plant({path: content for path, content in tree.items() if content != HANGS}, directory)
    monkeypatch.setenv("XDG_STATE_HOME", str(directory / "state"))
    monkeypatch.setattr(sysfs, "DEADLINE_SECONDS", 1.5)
    return Sick(directory)


HANGS = "\0 hangs"


class Sick(LiveTree):
    """Waits in a FIFO that nobody writes to, where a tree elsewhere refuses to read one."""

    def read(self, path: str) -> str:
        place = self._directory / self.real_path(path).lstrip("/")
        if place.exists() and stat.S_ISFIFO(place.stat().st_mode):
            return place.read_text()
        return super().read(path)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._directory = directory


def test_a_driver_that_hangs_for_one_card_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = {**accelerator(1), **accelerator(2, mem_info_vram_used=HANGS)}
    started = time.monotonic()
    answer, gaps = probed(hanging(tree, tmp_path, monkeypatch))
    assert time.monotonic() - started < 8
    well, sick = answer.gpus
    assert well.memory_bytes == 206141652992
    assert well.error is None
    assert sick.memory_bytes is None
    assert sick.error == "sysfs: no answer within 1.5 s"
    (gap,) = [gap for gap in gaps if gap.reason is Reason.TIMEOUT]
    assert gap.detail == "0000:02:00.0: sysfs: no answer within 1.5 s"
    finding = judge(seen(*answer.gpus, gpu=GpuFacts()))["gpu.unresponsive"]
    assert finding.severity is Severity.CRITICAL
    assert finding.subject == "GPU (AMD Instinct MI300X, 0000:02:00.0)"
    assert finding.summary == "The amdgpu driver does not answer"
    assert finding.remedy.action is Action.REBOOT
    assert finding.remedy.commands == (
        "sudo dmesg | grep -E 'amdgpu|i915|xe '",
        "sudo amd-smi reset --gpureset --gpu 0000:02:00.0",
    )


def test_a_driver_that_still_hangs_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(radeon(), tmp_path)
    monkeypatch.setattr(
        "nodecheck.checks.gpu.sysfs.stuck.stuck_pid",
        lambda probe: 77 if probe == f"sysfs {A}" else None,
    )
    gpu = card(LiveTree(tmp_path))
    assert gpu.error == "sysfs: not tried, process 77 still hangs on it"
    assert gpu.memory_bytes is None


def test_the_captured_facts_of_a_card_count_before_the_tree(tmp_path: Path) -> None:
    """What was seen live is judged, not what a tree can still tell."""
    then = card(plant(radeon(), tmp_path / "then"))
    then = msgspec.structs.replace(
        then, clocks_event_reasons=("hw_thermal_slowdown",), utilisation_share=None
    )
    saved = msgspec.json.encode(GpuProbe(gpus=(then,)))
    again = card(plant({**radeon(), "nvml.json": saved}, tmp_path / "later"))
    assert again.clocks_event_reasons == ("hw_thermal_slowdown",)
    assert again.utilisation_share is None
