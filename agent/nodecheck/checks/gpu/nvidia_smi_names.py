"""Where each form of nvidia-smi prints what: the one place that knows their names.

The names are those of drivers 470 to 615 (DTD versions 11 to 13).
"""

from __future__ import annotations

Places = str | tuple[str, ...]
Names = dict[str, tuple[str, ...]]

_LINK = "pci/pci_gpu_link_info"
_LINK_TEXT = "PCI/GPU Link Info"
_POWER = "gpu_power_readings"
_POWER_TEXT = "GPU Power Readings"
_PAGES = "retired_pages"
_TLIMIT = "T.Limit Temp"
_VIRTUALIZATION = "GPU Virtualization Mode"

THRESHOLD = "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"
COUNTERS = "clocks_event_reasons_counters."
BANKS = "remapped_rows.histogram."
HEALTH = "fabric.health."

_COUNTERS = {
    "sw_power_cap": ("sw_power_cap", "SW Power Capping"),
    "sync_boost": ("sync_boost", "Sync Boost"),
    "sw_thermal_slowdown": ("sw_therm_slowdown", "SW Thermal Slowdown"),
    "hw_thermal_slowdown": ("hw_therm_slowdown", "HW Thermal Slowdown"),
    "hw_power_brake_slowdown": ("hw_power_brake", "HW Power Braking"),
}
_LIMITS = {
    "shutdown": ("gpu_temp_max", "GPU Shutdown"),
    "slowdown": ("gpu_temp_slow", "GPU Slowdown"),
    "gpu.max": ("gpu_temp_max_gpu", "GPU Max Operating"),
    "memory.max": ("gpu_temp_max_mem", "Memory Max Operating"),
}
_ROWS = {
    "correctable": ("corr", "Correctable Error"),
    "uncorrectable": ("unc", "Uncorrectable Error"),
    "pending": ("pending", "Pending"),
    "failure": ("failure", "Remapping Failure Occurred"),
}
_GENERATIONS = {
    "max": ("max_link_gen", "Max"),
    "gpumax": ("max_device_link_gen", "Device Max"),
    "hostmax": ("max_host_link_gen", "Host Max"),
}
_HEALTH = {
    "summary": ("summary", "Summary"),
    "bandwidth": ("bandwidth", "Bandwidth"),
    "route_recovery": ("route_recovery_in_progress", "Route Recovery in progress"),
    "route_unhealthy": ("route_unhealthy", "Route Unhealthy"),
    "access_timeout_recovery": ("access_timeout_recovery", "Access Timeout Recovery"),
    "incorrect_configuration": ("incorrect_configuration", "Incorrect Configuration"),
    "partition_assigned": ("partition_assigned", "Partition Assigned"),
}
"""Families: the end of a query name -> that of its places in the XML and in `-q`."""


def _limit_text(kind: str) -> tuple[str, str]:
    """615 and newer have the limits in a section of their own."""
    limit = f"{kind} Power Limit"
    return f"{_POWER_TEXT}/{limit}", f"{_POWER_TEXT}/GPU Ceiling Power Limit/{limit}"


_PLACES: dict[str, tuple[Places, Places, Places]] = {
    "index": ((), (), "index"),
    "name": ("product_name", "Product Name", ("gpu_name", "name")),
    "uuid": ("uuid", "GPU UUID", ("gpu_uuid", "uuid")),
    "serial": ("serial", "Serial Number", ("gpu_serial", "serial")),
    "vbios_version": ("vbios_version", "VBIOS Version", "vbios_version"),
    "compute_cap": ((), (), "compute_cap"),
    "compute_mode": ("compute_mode", "Compute Mode", "compute_mode"),
    "display_active": ("display_active", "Display Active", "display_active"),
    "persistence_mode": ("persistence_mode", "Persistence Mode", "persistence_mode"),
    "pci.bus_id": ("pci/pci_bus_id", "PCI/Bus Id", ("gpu_bus_id", "pci.bus_id")),
    "pci.device_id": ("pci/pci_device_id", "PCI/Device Id", "pci.device_id"),
    "pci.sub_device_id": ("pci/pci_sub_system_id", "PCI/Sub System Id", "pci.sub_device_id"),
    "gpu_virtualization_mode": (
        "gpu_virtualization_mode/virtualization_mode",
        (f"{_VIRTUALIZATION}/Virtualization mode", f"{_VIRTUALIZATION}/Virtualization Mode"),
        (),
    ),
    "gpu_recovery_action": ("gpu_recovery_action", "GPU Recovery Action", "gpu_recovery_action"),
    "memory.total": (
        ("fb_memory_usage", "fb_memory_usage/total"),
        ("FB Memory Usage", "FB Memory Usage/Total"),
        "memory.total",
    ),
    "memory.used": ("fb_memory_usage/used", "FB Memory Usage/Used", "memory.used"),
    "bar1.total": ("bar1_memory_usage/total", "BAR1 Memory Usage/Total", ()),
    "protected_memory.total": (
        "cc_protected_memory_usage/total",
        "Conf Compute Protected Memory Usage/Total",
        "protected_memory.total",
    ),
    "clocks.mem": ("clocks/mem_clock", "Clocks/Memory", ("clocks.current.memory", "clocks.mem")),
    "clocks.sm": ("clocks/sm_clock", "Clocks/SM", ("clocks.current.sm", "clocks.sm")),
    "clocks.max.mem": (
        "max_clocks/mem_clock",
        "Max Clocks/Memory",
        ("clocks.max.memory", "clocks.max.mem"),
    ),
    "clocks.max.sm": ("max_clocks/sm_clock", "Max Clocks/SM", "clocks.max.sm"),
    "reasons.active": ((), (), ("clocks_throttle_reasons.active", "clocks_event_reasons.active")),
    **{
        f"{COUNTERS}{name}": (
            f"clocks_event_reasons_counters/clocks_event_reasons_counters_{xml}",
            f"Clocks Event Reasons Counters/{text}",
            f"{COUNTERS}{name}",
        )
        for name, (xml, text) in _COUNTERS.items()
    },
    "pstate": ("performance_state", "Performance State", "pstate"),
    "utilization.gpu": (
        "utilization/gpu_util",
        ("Utilization/Gpu", "Utilization/GPU"),
        "utilization.gpu",
    ),
    "temperature.gpu": ("temperature/gpu_temp", "Temperature/GPU Current Temp", "temperature.gpu"),
    "temperature.memory": (
        "temperature/memory_temp",
        "Temperature/Memory Current Temp",
        "temperature.memory",
    ),
    "temperature.gpu.tlimit": (
        "temperature/gpu_temp_tlimit",
        (f"Temperature/GPU {_TLIMIT}", f"Temperature/GPU Current {_TLIMIT}"),
        "temperature.gpu.tlimit",
    ),
    **{
        f"temperature.{name}": (f"temperature/{xml}_threshold", f"Temperature/{text} Temp", ())
        for name, (xml, text) in _LIMITS.items()
    },
    **{
        # 610 and newer call what does not move a specification.
        f"tlimit.{name}": (
            f"temperature/{xml}_tlimit_threshold",
            (f"Temperature/{text} {_TLIMIT}", f"Temperature/{text} {_TLIMIT} Specification"),
            (),
        )
        for name, (xml, text) in _LIMITS.items()
    },
    "power.draw": (
        (
            "power_readings/power_draw",
            f"{_POWER}/instant_power_draw",
            f"{_POWER}/average_power_draw",
            f"{_POWER}/power_draw",
        ),
        (
            "Power Readings/Power Draw",
            f"{_POWER_TEXT}/Instantaneous Power Draw",
            f"{_POWER_TEXT}/Average Power Draw",
            f"{_POWER_TEXT}/Power Draw",
        ),
        ("power.draw.instant", "power.draw.average", "power.draw"),
    ),
    "power.limit": (
        (
            "power_readings/power_limit",
            "power_readings/enforced_power_limit",
            f"{_POWER}/current_power_limit",
        ),
        (
            "Power Readings/Power Limit",
            "Power Readings/Enforced Power Limit",
            *_limit_text("Current"),
        ),
        ("power.limit", "enforced.power.limit"),
    ),
    "power.requested_limit": (
        ("power_readings/power_limit", f"{_POWER}/requested_power_limit"),
        ("Power Readings/Power Limit", *_limit_text("Requested")),
        "power.limit",
    ),
    **{
        f"power.{kind}_limit": (
            (f"power_readings/{kind}_power_limit", f"{_POWER}/{kind}_power_limit"),
            (
                f"Power Readings/{kind.capitalize()} Power Limit",
                *_limit_text(kind.capitalize()),
            ),
            f"power.{kind}_limit",
        )
        for kind in ("default", "min", "max")
    },
    "ecc.mode.current": ("ecc_mode/current_ecc", "ECC Mode/Current", "ecc.mode.current"),
    "ecc.mode.pending": ("ecc_mode/pending_ecc", "ECC Mode/Pending", "ecc.mode.pending"),
    THRESHOLD: (
        "ecc_errors/aggregate/sram_threshold_exceeded",
        "ECC Errors/Aggregate/SRAM Threshold Exceeded",
        THRESHOLD,
    ),
    **{
        f"remapped_rows.{name}": (
            ("remapped_rows", f"remapped_rows/remapped_row_{xml}"),
            ("Remapped Rows", f"Remapped Rows/{text}"),
            f"remapped_rows.{name}",
        )
        for name, (xml, text) in _ROWS.items()
    },
    **{
        f"{BANKS}{kind}": (
            f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{kind}",
            f"Remapped Rows/Bank Remap Availability Histogram/{kind.capitalize()}",
            f"{BANKS}{kind}",
        )
        for kind in ("max", "high", "partial", "low", "none")
    },
    "retired_pages.single_bit": (
        f"{_PAGES}/multiple_single_bit_retirement/retired_count",
        "Retired Pages/Single Bit ECC",
        ("retired_pages.sbe", "retired_pages.single_bit_ecc.count"),
    ),
    "retired_pages.double_bit": (
        f"{_PAGES}/double_bit_retirement/retired_count",
        "Retired Pages/Double Bit ECC",
        ("retired_pages.dbe", "retired_pages.double_bit.count"),
    ),
    "retired_pages.pending": (
        (f"{_PAGES}/pending_blacklist", f"{_PAGES}/pending_retirement"),
        ("Retired Pages/Pending", "Retired Pages/Pending Page Blacklist"),
        "retired_pages.pending",
    ),
    "pcie.link.gen.current": (
        f"{_LINK}/pcie_gen/current_link_gen",
        f"{_LINK_TEXT}/PCIe Generation/Current",
        ("pcie.link.gen.gpucurrent", "pcie.link.gen.current"),
    ),
    **{
        f"pcie.link.gen.{name}": (
            f"{_LINK}/pcie_gen/{xml}",
            f"{_LINK_TEXT}/PCIe Generation/{text}",
            f"pcie.link.gen.{name}",
        )
        for name, (xml, text) in _GENERATIONS.items()
    },
    **{
        f"pcie.link.width.{name}": (
            f"{_LINK}/link_widths/{name}_link_width",
            f"{_LINK_TEXT}/Link Width/{name.capitalize()}",
            f"pcie.link.width.{name}",
        )
        for name in ("current", "max")
    },
    "pcie.replays": ("pci/replay_counter", "PCI/Replays Since Reset", ()),
    "pcie.replay_rollovers": ("pci/replay_rollover_counter", "PCI/Replay Number Rollovers", ()),
    "pcie.tx": ("pci/tx_util", "PCI/Tx Throughput", ()),
    "pcie.rx": ("pci/rx_util", "PCI/Rx Throughput", ()),
    "mig.mode.current": ("mig_mode/current_mig", "MIG Mode/Current", "mig.mode.current"),
    "mig.mode.pending": ("mig_mode/pending_mig", "MIG Mode/Pending", "mig.mode.pending"),
    "fabric.state": ("fabric/state", "Fabric/State", "fabric.state"),
    "fabric.status": ("fabric/status", "Fabric/Status", "fabric.status"),
    **{
        f"{HEALTH}{part}": (
            f"fabric/health/{query}",
            f"Fabric/Health/{text}",
            f"{HEALTH}{query}",
        )
        for part, (query, text) in _HEALTH.items()
    },
}
"""Query name -> its places in the XML, in `-q` and among the columns of `--query-gpu`.

Of several places the last one that says something counts; what no query gives has a name of its
own. A section that is printed as one N/A stands in its members' places.
"""


def _names(form: int) -> Names:
    every = {name: places[form] for name, places in _PLACES.items()}
    return {name: (p,) if isinstance(p, str) else p for name, p in every.items()}


XML = _names(0)
TEXT = _names(1)
CSV = _names(2)

DRIVER = {"driver_version": ("driver_version", "kmd_version")}
XML_HEAD: Names = {**DRIVER, "cuda_version": ("cuda_version", "cuda_umd_version")}
CSV |= DRIVER
TEXT_HEAD: Names = {
    "driver_version": ("Driver Version", "KMD Version"),
    "cuda_version": ("CUDA Version", "CUDA UMD Version"),
}
"""610 and newer print the version under the second name, and a sentence after the first."""
