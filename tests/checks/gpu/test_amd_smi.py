"""What amd-smi tells of cards of AMD, and when it is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.checks.gpu.facts import Thermal
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.tree import UnreadableError
from nodecheck.model import Reason
from tests.checks.gpu.amd_inputs import (
    GONE,
    A,
    radeon,
    smi,
    smi_metric,
    smi_static,
)
from tests.checks.gpu.inputs import device
from tests.checks.gpu.judging import judge, node_of, probed
from tests.checks.gpu.sysfs_cards import card, in_turn
from tests.checks.live_tree import LiveTree
from tests.trees import Tree, plant

Node = Callable[[Tree], CapturedHost]
FEW = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


MI210: Tree = {
    **device(A, ids="1002:740f", pci_class="0x038000"),
    **smi({"gpu_data": [smi_static()]}, {"gpu_data": [smi_metric()]}),
}


def test_what_amd_smi_tells(node: Node) -> None:
    host = node(MI210)
    gpu = card(host)
    assert gpu.seen_by == ("amd-smi", "pci")
    assert gpu.name == "AMD Instinct MI210"
    assert gpu.compute_capability == "gfx90a"
    assert (gpu.memory_bytes, gpu.memory_used_bytes) == (65520 << 20, 11 << 20)
    assert gpu.memory_bus_bits == 4096
    assert gpu.vram_bytes_per_second == 1638.4e9
    assert (gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz) == (1500, 1700)
    assert (gpu.memory_clock_mhz, gpu.maximum_memory_clock_mhz) == (1600, 1600)
    assert gpu.utilisation_share == 0.97
    assert (gpu.power_watts, gpu.power_limit_watts) == (244, 300)
    assert gpu.maximum_power_limit_watts == 300
    assert (gpu.temperature_celsius, gpu.memory_temperature_celsius) == (71, 66)
    assert gpu.thermal == Thermal(slowdown_celsius=100, shutdown_celsius=105, memory_max_celsius=94)
    assert (gpu.ecc_volatile_uncorrectable, gpu.ecc_volatile_correctable) == (2, 5)
    assert gpu.uncorrectable_by_block == {"gfx": 2}
    assert gpu.clocks_event_reasons == ()
    assert gpu.pcie_replays == 0
    assert gpu.pcie_replay_rollovers is None
    assert (gpu.link_generation, gpu.link_width) == (4, 16)
    assert gpu.performance_level == "auto"
    assert "gpu.ecc_uncorrectable" in judge(node_of(host))


def test_the_list_that_older_versions_print(node: Node) -> None:
    tree = {**MI210, **smi([smi_static()], [smi_metric()])}
    assert card(node(tree)).power_watts == 244


@pytest.mark.parametrize("missing", ["N/A", -1, 65535, 4294967295, 18446744073709551615])
def test_values_that_stand_for_nothing(missing: object, node: Node) -> None:
    wrapped = {"value": missing, "unit": "MB"}
    static = smi_static(vram={"size": wrapped, "bit_width": missing})
    metric = smi_metric(
        usage="N/A", power={"socket_power": wrapped}, clock={"gfx_0": {"clk": wrapped}},
        temperature={"hotspot": wrapped}, pcie={"width": missing, "replay_count": missing},
        ecc={"total_uncorrectable_count": missing}, ecc_blocks="N/A", throttle="N/A",
        mem_usage="N/A", perf_level="N/A",
    )  # fmt: skip
    gpu = card(node({**MI210, **smi([static], [metric])}))
    for member in (
        "memory_bytes", "memory_bus_bits", "utilisation_share", "power_watts", "sm_clock_mhz",
        "temperature_celsius", "pcie_replays", "ecc_volatile_uncorrectable",
        "uncorrectable_by_block", "clocks_event_reasons", "performance_level",
    ):  # fmt: skip
        assert getattr(gpu, member) is None, member


def test_what_amd_smi_says_of_limits(node: Node) -> None:
    throttle = {
        "prochot_violation_status": "NOT ACTIVE", "ppt_violation_status": "ACTIVE",
        "socket_thermal_violation_status": "NOT ACTIVE", "vr_thermal_violation_status": "ACTIVE",
        "hbm_thermal_violation_status": "ACTIVE",
    }  # fmt: skip
    gpu = card(node({**MI210, **smi([smi_static()], [smi_metric(throttle=throttle)])}))
    assert gpu.clocks_event_reasons == ("sw_power_cap", "sw_thermal_slowdown")


def test_limits_as_new_versions_print_them_and_speeds_in_mt(node: Node) -> None:
    static = smi_static(
        limit={"ppt0": {"socket_power_limit": {"value": 250, "unit": "W"},
                        "max_power_limit": {"value": 300, "unit": "W"}}},
        bus={"bdf": A, "max_pcie_speed": {"value": 16000, "unit": "MT/s"}},
    )  # fmt: skip
    gpu = card(node({**MI210, **smi([static], [smi_metric()])}))
    assert (gpu.power_limit_watts, gpu.maximum_power_limit_watts) == (250, 300)
    assert gpu.link_generation_device_max == 4


@pytest.mark.parametrize("pci", [MI210, {}])
def test_partitions_are_no_cards(pci: Tree, node: Node) -> None:
    static = [smi_static(gpu=n, bus={"bdf": f"0000:03:00.{n}"}) for n in range(8)]
    metric = [smi_metric(gpu=n) for n in range(8)]
    assert card(node({**pci, **smi(static, metric)})).pci_address == A


def test_a_card_that_pci_does_not_show_is_none(node: Node) -> None:
    static = [smi_static(), smi_static(gpu=1, bus={"bdf": "0000:99:00.0"})]
    assert card(node({**MI210, **smi(static, [smi_metric()])})).pci_address == A


def test_sysfs_counts_before_amd_smi(node: Node) -> None:
    tree = {**radeon(), **smi([smi_static()], [smi_metric()])}
    gpu = card(node(tree))
    assert gpu.seen_by == ("sysfs", "amd-smi", "pci")
    assert gpu.power_watts == 301.0
    assert gpu.compute_capability == "gfx90a"  # which only the tool told


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1, 2]", "null", '"N/A"', '{"gpu_data": 5}', '[{"gpu": 0}]', "ERROR: no driver"],
)
def test_nonsense_of_amd_smi_is_no_card(text: str, node: Node) -> None:
    host = node({"cmd/amd-smi_static_--json.txt": text, "cmd/amd-smi_metric_--json.txt": text})
    assert probed(host)[0].gpus == ()
    assert judge(node_of(host)) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["value", "unit", "bdf", "size", "clk", "gfx_0", "limit", "ppt0"]), inner,
        max_size=3,
    ),
    max_leaves=6,
)  # fmt: skip


@FEW
@given(
    st.dictionaries(st.sampled_from(sorted(smi_static())), JSON, max_size=4),
    st.dictionaries(st.sampled_from(sorted(smi_metric())), JSON, max_size=4),
)
def test_any_json_is_survived(
    tmp_path_factory: pytest.TempPathFactory, static: dict[str, object], metric: dict[str, object]
) -> None:
    tree = smi([smi_static(**static)], [smi_metric(**metric)])
    for gpu in probed(plant(tree, tmp_path_factory.mktemp("node")))[0].gpus:
        assert gpu.memory_bytes is None or gpu.memory_bytes > 0
        assert gpu.utilisation_share is None or 0 <= gpu.utilisation_share <= 1
        msgspec.json.encode(gpu)


class Installed(LiveTree):
    """A live node that counts what it was asked to run."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.ran: list[tuple[str, ...]] = []

    def run(self, argv: tuple[str, ...], deadline_seconds: float = 2.0):  # type: ignore[no-untyped-def]
        self.ran.append(argv)
        if argv[0] == "amd-smi" and self.exists("/cmd/hangs"):
            raise UnreadableError(Reason.TIMEOUT, "amd-smi: no answer")
        return super().run(argv, deadline_seconds)


def test_amd_smi_is_run_only_where_something_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodecheck.checks.gpu.sysfs.child.gather", in_turn)
    plant({**radeon(), **smi([smi_static()], [smi_metric()])}, tmp_path / "whole")
    whole = Installed(tmp_path / "whole")
    assert card(whole).power_watts == 301.0
    assert not [argv for argv in whole.ran if argv[0] == "amd-smi"]
    tree = {**radeon(gpu_busy_percent=GONE), **smi([smi_static()], [smi_metric()])}
    plant(tree, tmp_path / "open")
    open_ = Installed(tmp_path / "open")
    assert card(open_).utilisation_share == 0.97
    assert [argv[1] for argv in open_.ran if argv[0] == "amd-smi"] == ["static", "metric"]


def test_an_amd_smi_that_hangs_costs_only_what_it_would_have_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodecheck.checks.gpu.sysfs.child.gather", in_turn)
    plant({**radeon(gpu_busy_percent=GONE), "cmd/hangs": ""}, tmp_path)
    gpu = card(Installed(tmp_path))
    assert gpu.power_watts == 301.0
    assert gpu.utilisation_share is None
