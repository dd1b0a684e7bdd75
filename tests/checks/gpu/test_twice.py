"""What nvidia-smi and amd-smi tell on a live node is looked at twice where it may only flash."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodecheck.checks.gpu.facts import Gpu
from nodecheck.machine import nvml
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.nvml import BINDING_MISSING, Answer
from tests.checks.gpu.amd_inputs import GONE as GONE_FILE
from tests.checks.gpu.amd_inputs import radeon, smi, smi_metric, smi_static
from tests.checks.gpu.inputs import IDLE_4090, L40, Values, card, device, xml
from tests.checks.gpu.judging import ADDRESS, probed
from tests.checks.gpu.sysfs_cards import in_turn
from tests.checks.live_tree import live_tree, while_sleeping
from tests.trees import Tree

XML = "cmd/nvidia-smi_-q_-x.txt"
BRAKED = card(L40, active="hw_slowdown hw_power_brake_slowdown")
STUCK = card(IDLE_4090, util="55 %", active="")
GONE = "No devices were found\n"


def only(host: CapturedHost) -> Gpu:
    (gpu,) = probed(host)[0].gpus
    return gpu


def asked_smi(
    first: Values, later: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Gpu, list[float]]:
    """The card as a live nvidia-smi tells it, a second later in other words."""
    monkeypatch.setattr(nvml, "worth_trying", lambda *_, **__: True)
    monkeypatch.setattr(nvml, "query", lambda _: Answer(error=BINDING_MISSING))
    tree: Tree = {**device(ADDRESS), XML: xml([first])}
    host = live_tree(tree, directory)
    slept = while_sleeping(monkeypatch, "nodecheck.checks.gpu.probe", directory, {XML: later})
    return only(host), slept


@pytest.mark.parametrize(
    ("later", "reasons"),
    [
        (xml([L40]), ()),
        (xml([BRAKED]), ("hw_slowdown", "hw_power_brake_slowdown")),
        (xml([card(L40, active="hw_slowdown")]), ("hw_slowdown",)),
        (GONE, None),
    ],
)
def test_a_slowdown_that_nvidia_smi_tells(
    later: str, reasons: tuple[str, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, slept = asked_smi(BRAKED, later, tmp_path, monkeypatch)
    assert (gpu.clocks_event_reasons, slept) == (reasons, [1.0])


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (xml([STUCK]), (8, 0.55, 210)),
        (xml([card(STUCK, util="0 %")]), (8, 0.0, 210)),
        (xml([card(STUCK, pstate="P2", sm="2700 MHz")]), (2, 0.55, 2700)),
        (GONE, (None, None, None)),
    ],
)
def test_a_slow_state_under_load_that_nvidia_smi_tells(
    later: str,
    told: tuple[int | None, float | None, int | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu, slept = asked_smi(STUCK, later, tmp_path, monkeypatch)
    assert (gpu.performance_state, gpu.utilisation_share, gpu.sm_clock_mhz) == told
    assert slept == [1.0]


@pytest.mark.parametrize("first", [L40, IDLE_4090])
def test_a_healthy_card_is_asked_once(
    first: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, slept = asked_smi(first, GONE, tmp_path, monkeypatch)
    assert slept == []


def throttled(**active: bool) -> dict[str, object]:
    names = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
    words = {name: "ACTIVE" if active.get(name) else "NOT ACTIVE" for name in names}
    return smi_metric(throttle={f"{name}_violation_status": w for name, w in words.items()})


@pytest.mark.parametrize(
    ("later", "reasons"),
    [
        (throttled(), ()),
        (throttled(ppt=True), ("sw_power_cap",)),
        (smi_metric(throttle="N/A"), None),
    ],
)
def test_a_limit_that_amd_smi_tells(
    later: dict[str, object],
    reasons: tuple[str, ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = smi([smi_static()], [throttled(ppt=True, vr_thermal=True)])
    second = smi([smi_static()], [later])
    silent = radeon(gpu_busy_percent=GONE_FILE, gpu_metrics=GONE_FILE)
    host = live_tree({**silent, **first}, tmp_path)
    monkeypatch.setattr("nodecheck.checks.gpu.sysfs.child.gather", in_turn)
    slept = while_sleeping(monkeypatch, "nodecheck.checks.gpu.amd_smi", tmp_path, second)
    assert (only(host).clocks_event_reasons, slept) == (reasons, [1.0])
