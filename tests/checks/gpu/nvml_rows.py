"""Every fact that NVML tells: where it comes from, what is told, and what where it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fake_nvml.profiles import H200, Card

FIELDS = "nvmlDeviceGetFieldValues"
LINKS = "NVLink fields"
MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Row:
    """One fact of a card.

    `member` is the way to it in Gpu's JSON; `healthy` what BASE with `base` gives; `faulty` the
    description's keys that change it, `told` what is said then; `refused` what is said where all
    of those keys are refused. `function` is the one that tells it, `asked` how a hang in it is
    named ("" where another fact's name comes first).
    """

    member: str
    function: str
    asked: str
    healthy: object
    faulty: Mapping[str, str | int]
    told: object
    refused: object = None
    base: Card = field(default_factory=dict)


BASE: Card = {
    **{key: value for key, value in H200.items() if not key.startswith("nvlink ")},
    "bus_id": "00000000:01:00.0",
    "utilisation": 90,
    "memory_reserved": 0,
    "power_limit_requested": 700_000,
    "pcie_sent": 5200,
    "pcie_received": 3100,
    "link_generation_device_max": 5,
    "ecc_corrected_aggregate": 2,
    "ecc_uncorrected_aggregate": 0,
    "threshold 0": 95,
    "threshold 1": 92,
    "threshold 2": 105,
    "threshold 3": 88,
    "retired_single": 0,
    "retired_double": 0,
    "retired_pending": 0,
    "compute_processes": "4711:524288000 4712:-",
    "graphics_processes": "4711:524288000 4713:1048576",
    "mps_processes": "4714:2097152",
    "nvlinks": 2,
    "nvlink *.state": 1,
    "nvlink *.version": 6,
    "nvlink *.speed": 26562,
    "nvlink *.remote": 2,
    "nvlink *.remote_bus": "00000000:05:00.0",
    "nvlink *.crc_flit": 0,
    "nvlink *.replay": 0,
    "nvlink *.recovery": 0,
    "field 214": 0,
    "fabric_state": 3,
    "fabric_status": 0,
    "fabric_health_mask": 0,
    "fabric_health_summary": 1,
}
SYSTEM: Card = {
    "driver_version": "580.95.05",
    "nvml_version": "13.580.95.05",
    "cuda_version": 13000,
    "cc_feature": 0,
    "process_name 4711": "/usr/bin/python3",
    "process_name 4713": "/usr/lib/xorg/Xorg",
}
CUT: Card = {
    "mig": 1,
    "mig_max": 2,
    "mig 0.name": "NVIDIA H200 MIG 1g.18gb",
    "mig 0.gpu_instance": 9,
    "mig 0.compute_instance": 0,
    "mig 0.memory_total": 16 * GIB,
    "mig 0.memory_used": 13 * MIB,
}


Value = str | int


def _row(
    member: str,
    function: str,
    asked: str,
    key: str,
    healthy: object,
    value: Value,
    told: object,
    *,
    refused: object = None,
) -> Row:
    """A fact of one key, which is set to `value`."""
    return Row(member, f"nvmlDeviceGet{function}", asked, healthy, {key: value}, told, refused)


def _value(member: str, number: int, healthy: object, value: Value, told: object) -> Row:
    return Row(member, FIELDS, "field values", healthy, {f"field {number}": value}, told)


def _link(member: str, key: str, asked: str, healthy: object, value: Value, told: object) -> Row:
    functions = {
        "state": "nvmlDeviceGetNvLinkState",
        "version": "nvmlDeviceGetNvLinkVersion",
        "remote": "nvmlDeviceGetNvLinkRemoteDeviceType",
        "remote_bus": "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    }
    function = functions.get(key.partition(".")[2], FIELDS)
    return Row(f"nvlinks.1.{member}", function, asked, healthy, {key: value}, told)


ROWS = (
    _row("pci_address", "PciInfo_v3", "PCI address", "bus_id", "0000:01:00.0",
         "00000001:C1:00.0", "0001:c1:00.0"),
    Row("pci_device_id", "nvmlDeviceGetPciInfo_v3", "", "10de:2335", {"device_id": 0x20B510DE},
        "10de:20b5"),
    Row("subsystem_id", "nvmlDeviceGetPciInfo_v3", "", "10de:18be", {"subsystem_id": 0x153310DE},
        "10de:1533"),
    _row("name", "Name", "name", "name", "NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA H200 NVL"),
    _row("uuid", "UUID", "UUID", "uuid", H200["uuid"], "GPU-1", "GPU-1"),
    _row("serial", "Serial", "serial number", "serial", str(H200["serial"]), "0", "0"),
    _row("vbios_version", "VbiosVersion", "VBIOS version", "vbios_version", "96.00.BC.00.02",
         "96.00.30.00.01", "96.00.30.00.01"),
    _row("compute_capability", "CudaComputeCapability", "compute capability",
         "compute_capability", "9.0", "12.1", "12.1"),
    _row("compute_mode", "ComputeMode", "compute mode", "compute_mode", "default", 2,
         "prohibited"),
    _row("display_active", "DisplayActive", "display", "display_active", False, 1, True),
    _row("virtualisation", "VirtualizationMode", "virtualisation mode", "virtualisation", "None",
         2, "VGPU"),
    _row("persistence", "PersistenceMode", "persistence mode", "persistence", True, 0, False),
    _row("memory_bytes", "MemoryInfo_v2", "memory", "memory_total", 150754820096, 8589934592,
         8589934592),
    Row("memory_used_bytes", "nvmlDeviceGetMemoryInfo_v2", "memory", 0,
        {"memory_total": 150754820096, "memory_used": 5 * GIB}, 5 * GIB),
    _row("memory_bus_bits", "MemoryBusWidth", "memory bus width", "memory_bus_bits", 6144, 384,
         384),
    _row("bar1_bytes", "BAR1MemoryInfo", "BAR1", "bar1_total", 274877906944, 268435456, 268435456),
    Row("processes", "nvmlDeviceGetComputeRunningProcesses_v3", "compute processes",
        [{"pid": 4711, "kind": "compute", "name": "/usr/bin/python3", "memory_bytes": 524288000},
         {"pid": 4712, "kind": "compute", "name": None, "memory_bytes": None},
         {"pid": 4714, "kind": "mps", "name": None, "memory_bytes": 2097152},
         {"pid": 4713, "kind": "graphics", "name": "/usr/lib/xorg/Xorg", "memory_bytes": 1048576}],
        {"compute_processes": "none", "mps_processes": "none", "graphics_processes": "none"}, []),
    Row("processes.2.kind", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps processes", "mps",
        {"mps_processes": "none"}, "graphics", "graphics"),
    Row("processes.3.kind", "nvmlDeviceGetGraphicsRunningProcesses_v3", "graphics processes",
        "graphics", {"graphics_processes": "none"}, None),
    _row("memory_clock_mhz", "ClockInfo", "memory clock", "memory_clock", 3201, 405, 405),
    _row("maximum_memory_clock_mhz", "MaxClockInfo", "maximum memory clock", "memory_clock_max",
         3201, 2619, 2619),
    _row("sm_clock_mhz", "ClockInfo", "SM clock", "sm_clock", 345, 990, 990),
    _row("maximum_sm_clock_mhz", "MaxClockInfo", "maximum SM clock", "sm_clock_max", 1980, 1755,
         1755),
    _row("performance_state", "PerformanceState", "performance state", "performance_state", 0, 32,
         None),
    _row("utilisation_share", "UtilizationRates", "utilisation", "utilisation", 0.9, 0, 0.0),
    _row("clocks_event_reasons", "CurrentClocksEventReasons", "clock event reasons",
         "clock_event_reasons", ["gpu_idle"], "0x88", ["hw_slowdown", "hw_power_brake_slowdown"]),
    _row("temperature_celsius", "TemperatureV", "temperature", "temperature", 31, 91, 91),
    _value("memory_temperature_celsius", 82, 38, "u32:104", 104),
    _row("thermal.margin_celsius", "MarginTemperature", "temperature margin",
         "margin_temperature", 56, -1, -1),
    _row("thermal.shutdown_celsius", "TemperatureThreshold", "shutdown temperature",
         "threshold 0", 95, 0, None),
    _row("thermal.slowdown_celsius", "TemperatureThreshold", "slowdown temperature",
         "threshold 1", 92, 80, 80),
    _row("thermal.memory_max_celsius", "TemperatureThreshold", "maximum memory temperature",
         "threshold 2", 105, 95, 95),
    _row("thermal.gpu_max_celsius", "TemperatureThreshold", "maximum GPU temperature",
         "threshold 3", 88, 83, 83),
    _value("thermal.shutdown_margin_celsius", 193, -8, "u32:4294967291", -5),
    _value("thermal.slowdown_margin_celsius", 194, -2, "i64:-3", -3),
    _value("thermal.gpu_max_margin_celsius", 196, 0, "i32:4", 4),
    _value("thermal.memory_max_margin_celsius", 195, 0, "f64:-1.0", -1),
    _row("power_watts", "PowerUsage", "power", "power", 76.5, 690_000, 690.0),
    Row("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", "power limit", 700.0,
        {"power_limit": 350_000}, 350.0, refused=700.0),
    _row("requested_power_limit_watts", "PowerManagementLimit", "requested power limit",
         "power_limit_requested", 700.0, 350_000, 350.0),
    _row("default_power_limit_watts", "PowerManagementDefaultLimit", "default power limit",
         "power_limit_default", 700.0, 600_000, 600.0),
    _row("minimum_power_limit_watts", "PowerManagementLimitConstraints", "power limits",
         "power_limit_min", 200.0, 100_000, 100.0),
    _row("maximum_power_limit_watts", "PowerManagementLimitConstraints", "power limits",
         "power_limit_max", 700.0, 650_000, 650.0),
    Row("ecc_enabled", "nvmlDeviceGetEccMode", "ECC mode", True, {"ecc_mode": 0}, False),
    Row("ecc_pending", "nvmlDeviceGetEccMode", "ECC mode", True, {"ecc_mode": 1, "ecc_pending": 0},
        False),
    _row("ecc_volatile_correctable", "TotalEccErrors", "corrected errors", "ecc_corrected", 0, 7,
         7),
    _row("ecc_volatile_uncorrectable", "TotalEccErrors", "uncorrected errors", "ecc_uncorrected",
         0, 1, 1),
    _row("ecc_aggregate_correctable", "TotalEccErrors", "aggregate corrected errors",
         "ecc_corrected_aggregate", 2, 70, 70),
    _row("ecc_aggregate_uncorrectable", "TotalEccErrors", "aggregate uncorrected errors",
         "ecc_uncorrected_aggregate", 0, 3, 3),
    _row("sram_threshold_exceeded", "SramEccErrorStatus", "SRAM ECC status",
         "sram_threshold_exceeded", False, 1, True),
    _row("remap_pending", "RemappedRows", "remapped rows", "remap_pending", False, 1, True),
    Row("remap_failure", "nvmlDeviceGetRemappedRows", "remapped rows", False,
        {"remap_pending": 0, "remap_failure": 1}, True),
    Row("remapped_rows_correctable", "nvmlDeviceGetRemappedRows", "remapped rows", 0,
        {"remap_pending": 0, "remapped_correctable": 2}, 2),
    Row("remapped_rows_uncorrectable", "nvmlDeviceGetRemappedRows", "remapped rows", 0,
        {"remap_pending": 0, "remapped_uncorrectable": 1}, 1),
    _row("remap_banks", "RowRemapperHistogram", "remap histogram", "remap_banks",
         {"max": 3072, "high": 0, "partial": 0, "low": 0, "none": 0}, "3069 1 0 1 1",
         {"max": 3069, "high": 1, "partial": 0, "low": 1, "none": 1}),
    _row("retired_pages.single_bit", "RetiredPages", "pages retired by single-bit errors",
         "retired_single", 0, 3, 3),
    _row("retired_pages.double_bit", "RetiredPages", "pages retired by double-bit errors",
         "retired_double", 0, 61, 61),
    _row("retired_pages.pending", "RetiredPagesPendingStatus", "pending page retirement",
         "retired_pending", False, 1, True),
    *(_value("recovery_action", 230, "none", value, told) for value, told in (
        ("u32:1", "reset_gpu"), (2, "reboot"), (3, "drain_p2p"), (4, "drain_and_reset"),
        (5, "recover_imex"), (6, "reset_bus"), (7, "reboot"), (8, "action 8"))),
    _row("link_generation", "CurrPcieLinkGeneration", "PCIe generation", "link_generation", 5, 1,
         1),
    _row("link_generation_max", "MaxPcieLinkGeneration", "maximum PCIe generation",
         "link_generation_max", 5, 4, 4),
    _row("link_generation_device_max", "GpuMaxPcieLinkGeneration", "card's PCIe generation",
         "link_generation_device_max", 5, 4, 4),
    _row("link_width", "CurrPcieLinkWidth", "PCIe width", "link_width", 16, 8, 8),
    _row("link_width_max", "MaxPcieLinkWidth", "maximum PCIe width", "link_width_max", 16, 0,
         None),
    _row("pcie_replays", "PcieReplayCounter", "PCIe replays", "pcie_replays", 9, 90_000, 90_000),
    _value("pcie_replay_rollovers", 95, 0, 3, 3),
    _row("pcie_sent_bytes_per_second", "PcieThroughput", "PCIe traffic sent", "pcie_sent", 5.2e6,
         20_000_000, 2e10),
    _row("pcie_received_bytes_per_second", "PcieThroughput", "PCIe traffic received",
         "pcie_received", 3.1e6, 1, 1e3),
    *(_value(f"pcie_errors.{name}", number, 0, 12, 12) for name, number in {
        "correctable": 173, "naks_received": 174, "receiver": 175, "bad_tlp": 176,
        "naks_sent": 177, "bad_dllp": 178, "non_fatal": 179, "fatal": 180,
        "unsupported_request": 181, "lcrc": 182, "lane": 183}.items()),
    *(_value(f"clock_event_seconds.{name}", number, healthy, 1_500_000_000, 1.5)
      for name, number, healthy in (
        ("sw_power_cap", 74, 3.3), ("thermal", 75, 0.0), ("sync_boost", 76, 0.0),
        ("board_limit", 77, 0.0), ("low_utilisation", 78, 912.0), ("reliability", 79, 0.0),
        ("sw_thermal_slowdown", 269, 0.0), ("hw_thermal_slowdown", 270, 0.0),
        ("hw_power_brake_slowdown", 271, 0.0))),
    _row("mig", "MigMode", "MIG mode", "mig", False, 1, True, refused=False),
    Row("mig_pending", "nvmlDeviceGetMigMode", "MIG mode", False, {"mig": 0, "mig_pending": 1},
        True, refused=False),
    Row("mig_instances", "nvmlDeviceGetMaxMigDeviceCount", "MIG device count",
        [{"gpu_instance": 9, "compute_instance": 0, "profile": "1g.18gb",
          "memory_bytes": 16 * GIB, "memory_used_bytes": 13 * MIB}],
        {"mig_max": 0}, [], refused=[], base=CUT),
    *(Row(f"mig_instances.0.{member}", f"nvmlDeviceGet{function}", asked, healthy,
          {f"mig 0.{key}": value}, told, base=CUT)
      for member, function, asked, key, healthy, value, told in (
        ("profile", "Name", "name of MIG device 0", "name", "1g.18gb", "MIG 2g.35gb", "2g.35gb"),
        ("gpu_instance", "GpuInstanceId", "GPU instance of MIG device 0", "gpu_instance", 9, 7, 7),
        ("compute_instance", "ComputeInstanceId", "compute instance of MIG device 0",
         "compute_instance", 0, 1, 1),
        ("memory_bytes", "MemoryInfo_v2", "memory of MIG device 0", "memory_total", 16 * GIB,
         8 * GIB, 8 * GIB),
      )),
    Row("mig_instances.0.memory_used_bytes", "nvmlDeviceGetMemoryInfo_v2",
        "memory of MIG device 0", 13 * MIB,
        {"mig 0.memory_total": 16 * GIB, "mig 0.memory_used": GIB}, GIB, base=CUT),
    Row("nvlinks", FIELDS, "field values",
        [{"link": link, "active": True, "version": 4, "bytes_per_second": 26.562e9,
          "remote": "switch", "remote_address": "0000:05:00.0", "crc_errors": 0,
          "replay_errors": 0, "recovery_errors": 0, "fatal_errors": 0} for link in (0, 1)],
        {"nvlinks": 0}, [], refused=[]),
    _link("active", "nvlink 1.state", "state of NVLink 1", True, 0, False),
    *(_link("version", "nvlink 1.version", "version of NVLink 1", 4, value, told)
      for value, told in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 5), (8, 6), (9, None))),
    _link("bytes_per_second", "nvlink 1.speed", LINKS, 26.562e9, 53125, 53.125e9),
    *(_link("remote", "nvlink 1.remote", "type of the far end of NVLink 1", "switch", value, told)
      for value, told in ((0, "gpu"), (1, "other"), (255, None))),
    _link("remote_address", "nvlink 1.remote_bus", "far end of NVLink 1", "0000:05:00.0",
          "FFFFFFFF:FFFF:FF.F", None),
    _link("crc_errors", "field 163.1", LINKS, 0, 4, 4),
    _link("replay_errors", "field 161.1", LINKS, 0, 5, 5),
    _link("recovery_errors", "field 162.1", LINKS, 0, 6, 6),
    _link("fatal_errors", "field 214.1", LINKS, 0, 1, 1),
    *(_row("fabric.state", "GpuFabricInfoV", "fabric state", "fabric_state", "completed", value,
           told) for value, told in ((0, None), (1, "not_started"), (2, "in_progress"))),
    Row("chip_to_chip", FIELDS, "field values", False, {"field 170": "u32:10"}, True,
        refused=False),
    Row("chip_to_chip", FIELDS, "field values", False,
        {"field 170": "u32:10", "field 171": "u32:0"}, False, refused=False),
    _row("fabric.error", "GpuFabricInfoV", "fabric state", "fabric_status", None, 10, "Timeout"),
    *(Row("fabric.problems", "nvmlDeviceGetGpuFabricInfoV", "fabric state", [],
          {"fabric_health_mask": mask, "fabric_health_summary": summary}, told, refused=[])
      for mask, summary, told in (
        (0x1, 2, ["bandwidth degraded"]), (0x2, 1, []),
        (0x4, 2, ["route recovery in progress"]), (0x8, 1, []),
        (0x10, 2, ["route unhealthy"]), (0x20, 1, []),
        (0x40, 2, ["access timeout recovery in progress"]), (0x80, 1, []),
        (0x100, 1, []), (0x200, 2, ["wrong system GUID"]),
        (0x300, 2, ["wrong chassis serial number"]), (0x400, 2, ["no partition"]),
        (0x500, 2, ["too few NVLinks"]), (0x600, 2, ["incompatible GPU firmware"]),
        (0x700, 2, ["invalid location"]), (0x800, 2, ["invalid GPU state"]),
        (0x900, 2, ["incorrect configuration 9"]),
        (0x1000, 1, []), (0x2000, 2, ["partition not assigned"]),
        (0x4000, 1, []), (0x8000, 2, ["fabric manager not connected"]),
        (0x51AA, 1, []), (0x8011, 2, ["bandwidth degraded", "route unhealthy",
                                      "fabric manager not connected"]),
        (0, 2, ["unhealthy"]), (0x51AA, 3, ["limited capacity"]), (0, 0, []),
      )),
)  # fmt: skip

SYSTEM_ROWS = (
    Row("driver_version", "nvmlSystemGetDriverVersion", "driver version", "580.95.05",
        {"driver_version": "610.43.02"}, "610.43.02"),
    Row("library_version", "nvmlSystemGetNVMLVersion", "library version", "580.95.05",
        {"nvml_version": "12.535.183.06"}, "535.183.06"),
    Row("cuda_version", "nvmlSystemGetCudaDriverVersion", "CUDA version", "13.0",
        {"cuda_version": 12080}, "12.8"),
    Row("confidential_compute", "nvmlSystemGetConfComputeState", "confidential computing state",
        False, {"cc_feature": 1}, True),
)  # fmt: skip

NOT_OF_NVML = {
    "index", "vendor", "seen_by", "granted", "driver", "lost", "unified_memory",
    "vram_bytes_per_second", "vram_rate_source", "link_generation_host_max", "numa_node",
    "device_file", "error", "product_lanes", "performance_level",
    "uncorrectable_by_block", "partition_mode",
}  # fmt: skip
"""Members of Gpu that other sources tell, or that are concluded."""
