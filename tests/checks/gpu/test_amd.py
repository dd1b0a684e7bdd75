"""Cards of AMD: what amdgpu's files tell, and what they do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodecheck.checks.gpu import amd_metrics, amd_products, other_products
from nodecheck.checks.gpu.facts import RetiredPages, Thermal
from nodecheck.machine.host import CapturedHost
from nodecheck.model import Severity
from tests.checks.gpu.amd_inputs import (
    ALL_ONES_64,
    GONE,
    HERE,
    ROOT,
    UP,
    A,
    accelerator,
    radeon,
    table_v1_3,
    table_v1_8,
)
from tests.checks.gpu.inputs import device
from tests.checks.gpu.judging import judge, node_of, probed
from tests.checks.gpu.sysfs_cards import card, gaps_of
from tests.trees import Link, Tree

Node = Callable[[Tree], CapturedHost]
FEW = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def test_a_radeon_at_work(node: Node) -> None:
    gpu = card(node(radeon()))
    assert gpu.name == "AMD Radeon RX 7900 XTX"  # by the revision: XT and GRE have the same id
    assert gpu.vendor == "amd"
    assert gpu.seen_by == ("sysfs", "pci")
    assert (gpu.memory_bytes, gpu.memory_used_bytes, gpu.bar1_bytes) == (
        24 << 30,
        2 << 30,
        24 << 30,
    )
    assert (gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz) == (2280, 2526)
    assert (gpu.memory_clock_mhz, gpu.maximum_memory_clock_mhz) == (1249, 1249)
    assert gpu.vram_bytes_per_second == 960e9  # not 2 x 1249 MHz x 384 bit / 8
    assert gpu.vram_rate_source == "product table, PCI id 1002:744c: 960 GB/s"
    assert gpu.utilisation_share == 0.99
    assert gpu.performance_level == "auto"
    assert (gpu.temperature_celsius, gpu.memory_temperature_celsius) == (79, 84)
    assert gpu.thermal == Thermal(
        slowdown_celsius=110, shutdown_celsius=115, memory_max_celsius=108
    )
    assert gpu.power_watts == 301.0
    assert (gpu.power_limit_watts, gpu.default_power_limit_watts) == (339.0, 339.0)
    assert (gpu.minimum_power_limit_watts, gpu.maximum_power_limit_watts) == (305.0, 390.0)
    assert (gpu.ecc_volatile_uncorrectable, gpu.ecc_volatile_correctable) == (0, 0)
    assert gpu.uncorrectable_by_block is None
    assert gpu.retired_pages == RetiredPages(double_bit=0)
    assert gpu.clocks_event_reasons == ()
    assert gpu.uuid == "8c1a2b3c4d5e6f70"
    assert gpu.vbios_version == "113-D7020100-102"
    assert gpu.pcie_replays == 0


def test_the_link_is_that_of_the_slot_and_not_that_within_the_card(node: Node) -> None:
    gpu = card(node(radeon()))
    assert (gpu.link_generation, gpu.link_width, gpu.link_width_max) == (4, 8, 8)
    assert (gpu.link_generation_device_max, gpu.link_generation_host_max) == (4, 4)
    assert gpu.link_generation_max == 4


@pytest.mark.parametrize(
    ("busy", "clock", "id_"),
    [
        ("99", 2280, "pcie.speed_below_max"),
        ("99", 500, None),  # its low clock is the finding
        ("0", 500, "pcie.idle_downshift"),
    ],
)
def test_a_slow_slot_is_a_fault_while_the_card_works(
    busy: str, clock: int, id_: str | None, node: Node
) -> None:
    tree = radeon(gpu_busy_percent=busy, pp_dpm_sclk=f"0: {clock}Mhz *\n1: 2526Mhz")
    for port in (ROOT, f"{ROOT}/{UP}"):
        tree[f"sys/devices/pci0000:00/{port}/current_link_speed"] = "2.5 GT/s PCIe\n"
    found = judge(node_of(node(tree))).keys() & {"pcie.speed_below_max", "pcie.idle_downshift"}
    assert found == ({id_} if id_ else set())


def test_a_healthy_card_raises_nothing_and_lacks_nothing_that_it_could_have(node: Node) -> None:
    host = node(radeon())
    assert {id_: f.severity for id_, f in judge(node_of(host)).items()} == {
        "pcie.width_below_max": Severity.INFO,  # the slot has 8 lanes
    }
    assert gaps_of(host) == {}


@pytest.mark.parametrize(
    ("status", "reasons"),
    [
        (0, ()),
        (1 << 0, ("sw_power_cap",)),
        (1 << 6, ("sw_power_cap",)),
        (1 << 16, ("amd_tdc_gfx",)),
        (1 << 22, ("amd_edc_gfx",)),
        (1 << 34 | 1 << 36, ("sw_thermal_slowdown",)),
        (1 << 44, ("hw_thermal_slowdown",)),
        (1 << 47, ("hw_slowdown",)),
        (1 << 57, ("amd_fit",)),
        (1 << 60, (hex(1 << 60),)),
        (1 << 3 | 1 << 40, ("sw_power_cap", "sw_thermal_slowdown")),
        (ALL_ONES_64, None),
    ],
)
def test_what_holds_the_clocks(status: int, reasons: tuple[str, ...] | None, node: Node) -> None:
    host = node(radeon(gpu_metrics=table_v1_3(status)))
    assert card(host).clocks_event_reasons == reasons
    assert ("gpus.clocks_event_reasons" in gaps_of(host)) is (reasons is None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 120,
        table_v1_3()[:-1],
        table_v1_3() + b"\0",
        b"\x50\x00\x01\x03" + bytes(76),  # shorter than its layout
        b"\x78\x00\x02\x03" + table_v1_3()[4:],  # format 2: graphics inside a processor
        b"\x78\x00\x01\x63" + table_v1_3()[4:],  # a layout that nobody knows yet
    ],
)
def test_a_table_of_another_layout_tells_nothing(content: bytes, node: Node) -> None:
    gpu = card(node(radeon(gpu_metrics=content)))
    assert gpu.clocks_event_reasons is None
    assert gpu.temperature_celsius == 79


@FEW
@given(st.binary(max_size=2300))
def test_any_table_is_survived(content: bytes) -> None:
    table = amd_metrics.parse(content)
    assert amd_metrics.reasons(table) is None or table is not None


@FEW
@given(st.binary(min_size=116, max_size=116))
def test_any_values_of_a_known_table_are_survived(content: bytes) -> None:
    table = amd_metrics.parse(table_v1_3()[:4] + content)
    assert table is not None
    assert all(0 <= value < 1 << 64 for value in table.values.values())


def test_the_table_fills_in_what_has_no_file(node: Node) -> None:
    tree = {
        path: content
        for path, content in radeon(
            gpu_busy_percent=GONE,
            gpu_metrics=table_v1_3(edge=50, hotspot=66, memory=70, busy=12, power=95),
        ).items()
        if "hwmon" not in path
    }
    gpu = card(node(tree))
    assert gpu.utilisation_share == 0.12
    assert gpu.power_watts == 95.0
    assert (gpu.temperature_celsius, gpu.memory_temperature_celsius) == (66, 70)


def test_a_rate_that_the_firmware_tells_of_a_product_without_a_row(node: Node) -> None:
    tree = {**accelerator(5, gpu_metrics=table_v1_8(8000))}
    tree["sys/devices/pci0000:00/0000:00:05.1/0000:05:00.0/device"] = "0x75ff\n"
    gpu = card(node(tree))
    assert gpu.vram_bytes_per_second == 8e12
    assert gpu.vram_rate_source == "gpu_metrics: 8000 GB/s"


def test_eight_cards_in_64_partitions_are_eight_cards(node: Node) -> None:
    tree: Tree = {}
    for number in range(1, 9):
        tree.update(accelerator(number))
    gpus = probed(node(tree))[0].gpus
    assert len(gpus) == 8
    for gpu in gpus:
        assert gpu.name == "AMD Instinct MI300X OAM"
        assert gpu.memory_bytes == 206141652992  # neither a partition's nor eight times that
        assert gpu.compute_capability == "gfx942"
        assert gpu.partition_mode == "CPX/NPS4"
        assert gpu.memory_bus_bits == 8192
        assert gpu.vram_bytes_per_second == 5.3e12  # 2 x 1300 MHz x 8192 bit / 8 is a quarter less
        assert gpu.serial == "692251001124"
        assert (gpu.sm_clock_mhz, gpu.maximum_sm_clock_mhz) == (132, 2100)  # asleep
        assert (gpu.ecc_volatile_uncorrectable, gpu.ecc_volatile_correctable) == (0, 3)
        assert gpu.pcie_replays == 7
        assert gpu.pcie_errors == {"nak_sent": 4, "nak_received": 5}
        assert gpu.clocks_event_reasons is None  # one sample of a counter tells nothing


@pytest.mark.parametrize(
    ("files", "id_", "severity", "words"),
    [
        ({"ras__umc_err_count": "ue: 2\nce: 9"}, "gpu.ecc_uncorrectable", "warning",
         "2 uncorrectable (umc 2)"),
        ({"ras__gfx_err_count": "ue: 1\nce: 0"}, "gpu.ecc_uncorrectable", "warning",
         "1 uncorrectable (gfx 1)"),
        ({"gpu_metrics": table_v1_3(1 << 44)}, "gpu.hw_thermal_slowdown", "critical",
         "hw_thermal_slowdown active (SM clock 2280 of 2526 MHz"),
        ({"gpu_metrics": table_v1_3(1 << 34)}, "gpu.sw_thermal_slowdown", "warning",
         "sw_thermal_slowdown active"),
        ({"gpu_metrics": table_v1_3(1 << 0)}, "gpu.sw_power_cap", "info", "sw_power_cap active"),
        ({"hwmon__hwmon4__power1_cap": "250000000"}, "gpu.power_limit_lowered", "info",
         "limit 250 W, draws 301 W"),
        ({"pp_dpm_sclk": "0: 500Mhz *\n1: 2526Mhz", "hwmon__hwmon4__power1_average": "60000000",
          "power_dpm_force_performance_level": "low"},
         "gpu.clocks_low_under_load", "warning", "99 % busy, SM clock 500 of 2526 MHz"),
    ],
)  # fmt: skip
def test_faults(
    files: dict[str, str | bytes], id_: str, severity: str, words: str, node: Node
) -> None:
    finding = judge(node_of(node(radeon(**files))))[id_]
    assert finding.severity.value == severity
    assert any(words in piece.value for piece in finding.evidence)
    assert {piece.source for piece in finding.evidence} == {"sysfs"}
    said = " ".join((finding.remedy.text, *finding.remedy.commands, finding.impact))
    assert "nvidia" not in said.casefold()


def test_a_part_that_is_no_memory_is_not_called_memory(node: Node) -> None:
    finding = judge(node_of(node(radeon(ras__gfx_err_count="ue: 1\nce: 0"))))[
        "gpu.ecc_uncorrectable"
    ]
    assert finding.summary.startswith("The GPU had uncorrectable errors")
    assert finding.remedy.commands == (f"sudo amd-smi reset --gpureset --gpu {A}",)


def test_a_low_clock_that_a_limit_of_current_explains_is_no_fault(node: Node) -> None:
    files: dict[str, str | bytes] = {
        "pp_dpm_sclk": "0: 500Mhz *\n1: 2526Mhz",
        "gpu_metrics": table_v1_3(1 << 16),
    }
    assert "gpu.clocks_low_under_load" not in judge(node_of(node(radeon(**files))))


def test_the_level_that_caps_the_clocks_is_in_the_evidence(node: Node) -> None:
    files: dict[str, str | bytes] = {
        "pp_dpm_sclk": "0: 500Mhz *\n1: 2526Mhz",
        "power_dpm_force_performance_level": "low",
    }
    finding = judge(node_of(node(radeon(**files))))["gpu.clocks_low_under_load"]
    assert any("performance level low" in piece.value for piece in finding.evidence)


def test_bad_pages_are_counted(node: Node) -> None:
    pages = "".join(f"0x{n:08x} : 0x00001000 : {flag}\n" for n, flag in enumerate("R" * 80 + "PF"))
    host = node(radeon(ras__gpu_vram_bad_pages=pages))
    assert card(host).retired_pages == RetiredPages(double_bit=82)
    assert "gpu.remap_failure" not in judge(node_of(host))  # amdgpu lets hundreds go


@pytest.mark.parametrize(
    ("name", "content", "member"),
    [
        ("mem_info_vram_total", "0", "memory_bytes"),
        ("mem_info_vram_total", "18446744073709551615", "memory_bytes"),
        ("mem_info_vram_total", "-1", "memory_bytes"),
        ("gpu_busy_percent", "65535", "utilisation_share"),
        ("gpu_busy_percent", "N/A", "utilisation_share"),
        ("pp_dpm_sclk", "", "sm_clock_mhz"),
        ("pp_dpm_sclk", "garbage\n1: Mhz *", "sm_clock_mhz"),
        ("pp_dpm_mclk", GONE, "memory_clock_mhz"),
        ("unique_id", "removed", "uuid"),
        ("vbios_version", "N/A", "vbios_version"),
        ("power_dpm_force_performance_level", "unknown", "performance_level"),
        ("hwmon/hwmon4/power1_average", "4294967295", "power_watts"),
        ("hwmon/hwmon4/power1_cap", "0", "power_limit_watts"),
        ("hwmon/hwmon4/temp2_input", "65535000", "temperature_celsius"),
        ("ras/umc_err_count", GONE, None),
        ("pcie_replay_count", GONE, "pcie_replays"),
    ],
)
def test_what_is_not_supported_is_unknown_and_never_a_zero(
    name: str, content: str, member: str | None, node: Node
) -> None:
    tree = radeon()
    tree[f"{HERE}/{name}"] = f"{content}\n"
    if content == GONE:
        del tree[f"{HERE}/{name}"]
    host = node(tree)
    assert member is None or getattr(card(host), member) is None
    assert {f.severity for f in judge(node_of(host)).values()} <= {Severity.INFO}


def test_a_card_without_its_driver_is_a_gap(node: Node) -> None:
    host = node(device(A, ids="1002:74a1", pci_class="0x120000"))
    gpu = card(host)
    assert gpu.name == "AMD Instinct MI300X"
    assert gpu.seen_by == ("pci",)
    (gap,) = probed(host)[1]
    assert gap.field == "gpus"
    assert gap.detail == (
        "clocks, power, temperature and ECC errors of 1 AMD card (amdgpu, i915 and xe tell nothing "
        "of them in sysfs)"
    )


def test_a_card_that_is_kept_for_a_guest_is_not_read(node: Node) -> None:
    tree = radeon()
    tree[f"{HERE}/driver"] = Link("../../../../../../bus/pci/drivers/vfio-pci")
    tree["sys/bus/pci/drivers/vfio-pci/new_id"] = ""
    gpu = card(node(tree))
    assert gpu.granted is False
    assert gpu.memory_bytes is None


def test_a_share_of_a_card_in_a_guest(node: Node) -> None:
    """Of several guests' shares amdgpu shows no sensors, clocks or power."""
    tree = device(
        "0000:05:00.0",
        ids="1002:74b5",
        pci_class="0x120000",
        now=("Unknown", "0"),
        most=("Unknown", "255"),
        mem_info_vram_total=str(206141652992),
        mem_info_vram_used="0",
    )
    host = node(tree)
    gpu = card(host)
    assert gpu.name == "AMD Instinct MI300X VF"
    assert (gpu.memory_bytes, gpu.vram_bytes_per_second) == (206141652992, 5.3e12)
    assert gpu.temperature_celsius is None
    assert {"gpus.utilisation_share", "gpus.clocks_event_reasons"} <= gaps_of(host).keys()
    assert {f.severity for f in judge(node_of(host)).values()} <= {Severity.INFO}


@pytest.mark.parametrize("device_id", ["15bf", "1586", "164e", "13c0"])
def test_graphics_inside_a_processor_are_no_card(device_id: str, node: Node) -> None:
    """Theirs is a link of 16 lanes, as a card's."""
    assert probed(node(device(A, ids=f"1002:{device_id}", pci_class="0x030000")))[0].gpus == ()


def test_products_are_unique_and_plausible() -> None:
    ids = [id_ for product in other_products.PRODUCTS for id_ in product.ids]
    assert len(ids) == len(set(ids))
    assert all(id_.partition(":")[0] in ("1002", "8086") for id_ in ids)
    named = {name for product in amd_products.PRODUCTS for name in product.names}
    assert set(amd_products.BY_REVISION.values()) <= named
    for product in other_products.PRODUCTS:
        rate = product.bytes_per_second
        assert rate is None or 100e9 < rate <= 8e12
