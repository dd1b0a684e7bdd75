"""Cards of Intel, and accelerators of all others: what is told of them, and that they are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodecheck.checks.gpu import intel_products
from nodecheck.checks.gpu.facts import Thermal
from nodecheck.checks.pcie.probe import probe as probe_pcie
from nodecheck.machine.host import CapturedHost
from nodecheck.machine.reader import Reader
from nodecheck.model import Reason, Severity
from tests.checks.gpu.inputs import device, port
from tests.checks.gpu.intel_inputs import GEN1, HERE, A, i915, xe
from tests.checks.gpu.judging import judge, node_of, probed
from tests.checks.gpu.sysfs_cards import card, gaps_of, in_turn
from tests.checks.live_tree import LiveTree
from tests.trees import Tree, plant

Node = Callable[[Tree], CapturedHost]


def test_an_arc_b580_on_xe(node: Node) -> None:
    gpu = card(node(xe()))
    assert gpu.name == "Intel Arc B580"
    assert gpu.vendor == "intel"
    assert gpu.seen_by == ("sysfs", "pci")
    assert (gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz) == (2650, 2850)
    assert gpu.clocks_event_reasons == ()
    assert (gpu.power_limit_watts, gpu.default_power_limit_watts) == (190.0, 190.0)
    assert (gpu.temperature_celsius, gpu.memory_temperature_celsius) == (64, 70)
    assert gpu.thermal == Thermal(slowdown_celsius=100, shutdown_celsius=115)
    assert gpu.memory_bytes == 12 << 30  # its window spans 16 GiB, the next power of two
    assert gpu.bar1_bytes == 16 << 30
    assert gpu.vram_bytes_per_second == 456e9
    assert gpu.vram_rate_source == "product table, PCI id 8086:e20b: 456 GB/s"
    assert gpu.power_watts is None  # of a capture there is one reading of the counter


def test_an_arc_a770_on_i915(node: Node) -> None:
    gpu = card(node(i915()))
    assert gpu.name == "Intel Arc A770"
    assert (gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz) == (2050, 2400)
    assert gpu.clocks_event_reasons == ()
    assert (gpu.power_limit_watts, gpu.default_power_limit_watts) == (190.0, 225.0)
    assert gpu.memory_bytes == 16 << 30
    assert gpu.vram_bytes_per_second == 560e9


def test_the_link_is_that_of_the_slot_and_not_that_within_the_card(node: Node) -> None:
    """The card tells of one lane of Gen1, whatever its slot is."""
    host = node(i915())
    gpu = card(host)
    assert (gpu.link_generation, gpu.link_width) == (4, 16)
    assert (gpu.link_generation_max, gpu.link_width_max) == (4, 16)
    (path,) = probe_pcie(Reader(host, "pcie")).paths
    assert path.hops[0].current_width == 1
    assert [hop.current_width for hop in path.outside] == [16, 16]
    assert judge(node_of(host)).keys() == {"gpu.power_limit_lowered"}


def test_a_narrow_slot_behind_that_bridge_is_seen(node: Node) -> None:
    tree = i915()
    for file in ("current_link_width", "max_link_width"):
        tree[f"sys/devices/pci0000:00/0000:00:01.0/{file}"] = "4\n"
    tree["sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_width"] = "4\n"
    host = node(tree)
    assert card(host).link_width == 4
    assert judge(node_of(host))["pcie.width_below_max"].severity is Severity.INFO


@pytest.mark.parametrize("driver", [xe, i915])
@pytest.mark.parametrize(
    ("active", "reasons"),
    [
        ("pl1", ("sw_power_cap",)),
        ("pl2 pl4", ("sw_power_cap",)),
        ("thermal", ("hw_thermal_slowdown",)),
        ("vr_thermalert", ("hw_thermal_slowdown",)),
        ("ratl", ("sw_thermal_slowdown",)),
        ("prochot", ("hw_slowdown",)),
        ("vr_tdc", ("intel_vr_tdc",)),
        ("pl1 thermal", ("sw_power_cap", "hw_thermal_slowdown")),
    ],
)
def test_what_holds_the_clocks(
    active: str, reasons: tuple[str, ...], driver: Callable[..., Tree], node: Node
) -> None:
    assert set(card(node(driver(active=active))).clocks_event_reasons or ()) == set(reasons)


@pytest.mark.parametrize(
    ("tree", "id_", "severity"),
    [
        (xe(active="thermal"), "gpu.hw_thermal_slowdown", Severity.CRITICAL),
        (xe(active="ratl"), "gpu.sw_thermal_slowdown", Severity.WARNING),
        (xe(active="pl1"), "gpu.sw_power_cap", Severity.INFO),
        (xe(active="pl1", hwmon__hwmon3__power1_max="90000000"), "gpu.power_limit_lowered",
         Severity.WARNING),
    ],
)  # fmt: skip
def test_faults(tree: Tree, id_: str, severity: Severity, node: Node) -> None:
    finding = judge(node_of(node(tree)))[id_]
    assert finding.severity is severity
    assert {piece.source for piece in finding.evidence} == {"sysfs"}
    said = " ".join((finding.remedy.text, *finding.remedy.commands, finding.impact))
    assert "nvidia" not in said.casefold()


def test_what_the_drivers_do_not_tell_is_a_gap(node: Node) -> None:
    gaps = gaps_of(node(xe()))
    assert gaps.keys() == {
        "gpus.utilisation_share", "gpus.ecc_volatile_uncorrectable", "gpus.memory_used_bytes",
    }  # fmt: skip
    assert gaps["gpus.memory_used_bytes"].detail == (
        "sysfs: xe does not tell it; 12 GiB is what Arc B580 comes with for 0000:03:00.0"
    )


@pytest.mark.parametrize(
    ("name", "value", "member"),
    [
        ("tile0/gt0/freq0/act_freq", "0", "sm_clock_mhz"),  # asleep
        ("tile0/gt0/freq0/act_freq", "4294967295", "sm_clock_mhz"),
        ("tile0/gt0/freq0/rp0_freq", "-5", "maximum_sm_clock_mhz"),
        ("hwmon/hwmon3/power1_max", "0", "power_limit_watts"),  # switched off
        ("hwmon/hwmon3/temp2_input", "ERR", "temperature_celsius"),
        ("hwmon/hwmon3/temp2_input", "65535000", "temperature_celsius"),
        ("resource", "garbage", "bar1_bytes"),
    ],
)
def test_what_is_not_supported_is_unknown_and_never_a_zero(
    name: str, value: str, member: str, node: Node
) -> None:
    host = node({**xe(), f"{HERE}/{name}": f"{value}\n"})
    assert getattr(card(host), member) is None
    assert judge(node_of(host)) == {}


def test_a_driver_without_reasons_does_not_say_that_there_are_none(node: Node) -> None:
    tree = {path: content for path, content in xe().items() if "/throttle/" not in path}
    assert card(node(tree)).clocks_event_reasons is None


@pytest.mark.parametrize(
    ("ids", "window", "files", "size", "rate"),
    [
        ("8086:56a0", 8 << 30, {}, 8 << 30, 512e9),
        ("8086:56a0", 256 << 20, {}, None, None),  # 8 or 16 GB: not known
        ("8086:56a0", 256 << 20, {"tile0__physical_vram_size_bytes": "17079205888"}, 17079205888,
         560e9),
        ("8086:0bd5", 128 << 30, {"tile0__physical_vram_size_bytes": "68702699520",
                                  "tile1__physical_vram_size_bytes": "68702699520"},
         2 * 68702699520, 3276.8e9),
        ("8086:56c1", 8 << 30, {}, None, None),
        ("8086:ffff", 16 << 30, {}, None, None),
    ],
)  # fmt: skip
def test_the_size_of_the_memory(
    ids: str, window: int, files: dict[str, str], size: int | None, rate: float | None, node: Node
) -> None:
    gpu = card(node(xe(ids, memory_window=window, **files)))
    assert gpu.memory_bytes == size
    assert gpu.vram_bytes_per_second == rate
    assert gpu.bar1_bytes == window


def test_a_card_without_its_driver_is_still_named_and_sized(node: Node) -> None:
    host = node(device(A, ids="8086:e212", pci_class="0x030000"))
    gpu = card(host)
    assert (gpu.name, gpu.memory_bytes) == ("Intel Arc Pro B50", 16 << 30)
    assert gpu.seen_by == ("pci",)
    assert gaps_of(host)["gpus"].reason is Reason.UNSUPPORTED


def test_live_power_is_what_the_energy_counter_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(xe(), tmp_path)
    clock = iter([100.0, 100.05, 100.5, 100.5])
    monkeypatch.setattr("nodecheck.checks.gpu.sysfs.stuck.stuck_pid", lambda _: None)
    monkeypatch.setattr("nodecheck.checks.gpu.sysfs.child.gather", in_turn)
    monkeypatch.setattr("nodecheck.checks.gpu.intel.time.monotonic", lambda: next(clock))

    def sleep(_: float) -> None:
        (tmp_path / HERE / "hwmon/hwmon3/energy1_input").write_text("1060000000\n")

    monkeypatch.setattr("nodecheck.checks.gpu.intel.time.sleep", sleep)
    assert card(LiveTree(tmp_path)).power_watts == 120.0  # 60 J in half a second


@pytest.mark.parametrize("pci_class", ["0x030000", "0x038000"])
def test_integrated_graphics_are_no_card(pci_class: str, node: Node) -> None:
    none = ("Unknown", "0")
    tree = device("0000:00:02.0", ids="8086:a780", pci_class=pci_class, now=none, most=none)
    assert probed(node(tree))[0].gpus == ()


def test_a_flex_170_is_a_card_that_shows_nothing(node: Node) -> None:
    tree = {
        **port("0000:00:01.0"),
        **device(A, "0000:00:01.0", ids="8086:56c0", pci_class="0x038000", now=GEN1, most=GEN1),
    }
    assert card(node(tree)).name == "Intel Data Center GPU Flex 170"


@pytest.mark.parametrize(
    ("ids", "pci_class", "name"),
    [
        ("1da3:1020", "0x120000", "Habana device 1020"),
        ("1e52:401e", "0x120000", "Tenstorrent device 401e"),
        ("17cb:a100", "0x120000", "Qualcomm device a100"),
        ("19e5:d802", "0x120000", "Huawei device d802"),
        ("1ed5:0222", "0x030200", "Moore Threads device 0222"),
        ("cabc:0370", "0x120000", "Cambricon device 0370"),
        ("1eff:1120", "0x120000", "Rebellions device 1120"),
        ("1ed2:0001", "0x120000", "FuriosaAI device 0001"),
        ("1d0f:7364", "0x088000", "AWS device 7364"),
        ("1ae0:0063", "0xff0000", "Google device 0063"),
        ("10ee:5000", "0x120000", "Xilinx device 5000"),
        ("8086:7d1d", "0x120000", "Intel device 7d1d"),  # the NPU of a processor
        ("8086:2250", "0x0b4000", "Intel device 2250"),  # Xeon Phi
        ("abcd:0001", "0x120000", "abcd device 0001"),
    ],
)
def test_no_accelerator_stays_unmentioned(ids: str, pci_class: str, name: str, node: Node) -> None:
    host = node(device(A, ids=ids, pci_class=pci_class))
    assert card(host).name == name
    assert judge(node_of(host)) == {}
    (gap,) = [gap for gap in probed(host)[1] if gap.field == "gpus"]
    maker = name.partition(" device")[0] if ids != "abcd:0001" else "other"
    assert f" of 1 {maker} card " in gap.detail


@pytest.mark.parametrize(
    ("ids", "pci_class"),
    [
        ("8086:4940", "0x0b4000"),  # QuickAssist
        ("8086:2020", "0x088000"),
        ("1d0f:8061", "0x010802"),
        ("1ae0:001f", "0x010802"),
        ("1ae0:0065", "0x088000"),
        ("1d0f:1111", "0x030000"),
    ],
)
def test_what_computes_nothing_is_no_accelerator(ids: str, pci_class: str, node: Node) -> None:
    assert probed(node(device(A, ids=ids, pci_class=pci_class)))[0].gpus == ()


def test_sizes_are_told_once() -> None:
    for name, sizes in intel_products.SIZES.values():
        assert len({size.gib for size in sizes}) == len(sizes), name
