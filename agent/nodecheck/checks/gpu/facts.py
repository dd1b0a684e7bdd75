"""The accelerators and their driver."""

from __future__ import annotations

from nodecheck.model import Struct

MAKERS = {
    "nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "1022": "AMD", "10ee": "Xilinx",
    "17cb": "Qualcomm", "19e5": "Huawei", "1ae0": "Google", "1d0f": "AWS", "1d22": "Baidu",
    "1d95": "Graphcore", "1da3": "Habana", "1de0": "Groq", "1ded": "Alibaba", "1e36": "Enflame",
    "1e38": "Blaize", "1e52": "Tenstorrent", "1e60": "Hailo", "1e67": "Untether AI",
    "1ed2": "FuriosaAI", "1ed5": "Moore Threads", "1eff": "Rebellions", "1f56": "SAPEON",
    "cabc": "Cambricon",
}  # fmt: skip
"""How the vendors of facts are called. Source: pci.ids."""

POWER_BRAKE, HW_THERMAL, SW_THERMAL, POWER_CAP, HW_SLOWDOWN = (
    "hw_power_brake_slowdown",
    "hw_thermal_slowdown",
    "sw_thermal_slowdown",
    "sw_power_cap",
    "hw_slowdown",
)
SLOWDOWNS = (POWER_BRAKE, HW_THERMAL, SW_THERMAL, HW_SLOWDOWN)
"""The clock event reasons that cost a card much, its memory too."""

HOLDING = (*SLOWDOWNS, POWER_CAP)
"""Those that hold a clock down."""


class GpuProcess(Struct, frozen=True, kw_only=True):
    """A program on a card. `kind` is compute, graphics, mps or other.

    Those of other containers have no name. A client of MPS is mps, a program that computes and
    draws is compute, and one that holds memory without a context is other.
    """

    pid: int
    kind: str
    name: str | None = None
    memory_bytes: int | None = None


class MigInstance(Struct, frozen=True, kw_only=True):
    """A compute instance of a card that MIG cut up; `profile` as the driver names it: 1g.10gb."""

    gpu_instance: int | None = None
    compute_instance: int | None = None
    profile: str | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None


class NvLink(Struct, frozen=True, kw_only=True):
    """One NVLink of a card; errors are counted since the driver was loaded.

    `bytes_per_second` is one way. `remote` is gpu, switch or other, `remote_address` its PCI
    address. `fatal_errors` are recoveries that failed: the link went down by them.
    """

    link: int
    active: bool | None = None
    version: int | None = None
    bytes_per_second: float | None = None
    remote: str | None = None
    remote_address: str | None = None
    crc_errors: int | None = None
    replay_errors: int | None = None
    recovery_errors: int | None = None
    fatal_errors: int | None = None


class Fabric(Struct, frozen=True, kw_only=True):
    """What NVSwitch systems tell of the way between their cards.

    `state` is not_started, in_progress or completed; a card without a fabric has no Fabric.
    `error` is what the driver says it ended with, `problems` name what is unhealthy in it.
    """

    state: str
    error: str | None = None
    problems: tuple[str, ...] = ()


class Thermal(Struct, frozen=True, kw_only=True):
    """Temperatures at which the card acts, in degrees Celsius.

    Ada and newer tell them as margins (T.Limit): `margin_celsius` is what is left now before the
    card slows down, `*_margin_celsius` are the margins at which it acts (0 and below).
    """

    shutdown_celsius: int | None = None
    slowdown_celsius: int | None = None
    gpu_max_celsius: int | None = None
    memory_max_celsius: int | None = None
    margin_celsius: int | None = None
    shutdown_margin_celsius: int | None = None
    slowdown_margin_celsius: int | None = None
    gpu_max_margin_celsius: int | None = None
    memory_max_margin_celsius: int | None = None


class RetiredPages(Struct, frozen=True, kw_only=True):
    """Memory pages that cards before Ampere took out of use, by cause."""

    single_bit: int | None = None
    double_bit: int | None = None
    pending: bool | None = None


class Gpu(Struct, frozen=True, kw_only=True):
    """One accelerator, merged over its sources by PCI address.

    `seen_by` names the sources: pci, nvml, nvidia-smi, proc, sysfs, amd-smi. `vendor` is nvidia,
    amd, intel or a PCI vendor id. Shares are 0 to 1. `clocks_event_reasons` are the names of the
    reasons that are active now (of two samples, where there were two): gpu_idle,
    applications_clocks_setting, sw_power_cap, hw_slowdown, sync_boost, sw_thermal_slowdown,
    hw_thermal_slowdown, hw_power_brake_slowdown, display_clocks_setting, board_limit, reliability,
    those of AMD and Intel that are none of these (amd_tdc_gfx, intel_vr_tdc, ...), or hex.

    `vram_bytes_per_second` is 2 x maximum memory clock x bus width / 8, or the product table where
    that fails. `granted` is False for a card of another container or guest; `device_file` says
    whether the card's file in /dev was there, `error` what the driver says where the card cannot be
    opened (for AMD and Intel: that it does not answer), `virtualisation` the driver's word for it
    (None, Pass-Through, VGPU, ...).
    `chip_to_chip` marks a GPU whose link to the CPU is NVLink-C2C, so that its PCIe link says
    nothing. `product_lanes` are the lanes that the product itself has where that is fewer than 16.

    `clock_event_seconds` is how long each reason has held the clocks since the driver was loaded:
    never 0 on a card that worked, so it proves nothing by itself. Volatile counts begin with the
    driver, aggregate ones with the card. `remap_banks` counts memory banks by the spare rows that
    they have left (max, high, partial, low, none). `recovery_action` is what the driver asks for:
    none, reset_gpu, reboot, drain_p2p, drain_and_reset, recover_imex, reset_bus, or `action 99` by
    its number.
    `nvlinks` is empty for a card without any, None where that is not known. `pcie_errors` are
    NVML's counts by name, `compute_mode` is default, exclusive_thread (old drivers),
    exclusive_process or prohibited, `performance_level` amdgpu's (auto, low, high, manual, ...).
    `uncorrectable_by_block` splits amdgpu's count by the part of the card (umc is its memory),
    `partition_mode` says into what it cuts the card (SPX: nothing, CPX: one device a compute die;
    and the memory: CPX/NPS4).
    """

    index: int | None = None
    pci_address: str | None = None
    vendor: str | None = None
    name: str | None = None
    pci_device_id: str | None = None
    seen_by: tuple[str, ...] = ()
    granted: bool | None = None
    driver: str | None = None
    lost: bool = False
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    unified_memory: bool = False
    memory_bus_bits: int | None = None
    memory_clock_mhz: int | None = None
    maximum_memory_clock_mhz: int | None = None
    sm_clock_mhz: int | None = None
    maximum_sm_clock_mhz: int | None = None
    vram_bytes_per_second: float | None = None
    vram_rate_source: str | None = None
    performance_state: int | None = None
    utilisation_share: float | None = None
    temperature_celsius: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    default_power_limit_watts: float | None = None
    clocks_event_reasons: tuple[str, ...] | None = None
    ecc_volatile_uncorrectable: int | None = None
    ecc_volatile_correctable: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    remapped_rows_uncorrectable: int | None = None
    link_generation: int | None = None
    link_generation_max: int | None = None
    link_generation_device_max: int | None = None
    link_generation_host_max: int | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    pcie_replays: int | None = None
    mig: bool | None = None
    persistence: bool | None = None
    numa_node: int | None = None
    subsystem_id: str | None = None
    virtualisation: str | None = None
    device_file: bool | None = None
    error: str | None = None
    chip_to_chip: bool = False
    product_lanes: int | None = None
    uuid: str | None = None
    serial: str | None = None
    vbios_version: str | None = None
    compute_capability: str | None = None
    compute_mode: str | None = None
    display_active: bool | None = None
    bar1_bytes: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    clock_event_seconds: dict[str, float] | None = None
    memory_temperature_celsius: int | None = None
    thermal: Thermal | None = None
    requested_power_limit_watts: float | None = None
    minimum_power_limit_watts: float | None = None
    maximum_power_limit_watts: float | None = None
    performance_level: str | None = None
    ecc_enabled: bool | None = None
    ecc_pending: bool | None = None
    ecc_aggregate_uncorrectable: int | None = None
    ecc_aggregate_correctable: int | None = None
    sram_threshold_exceeded: bool | None = None
    remapped_rows_correctable: int | None = None
    remap_banks: dict[str, int] | None = None
    retired_pages: RetiredPages | None = None
    recovery_action: str | None = None
    pcie_replay_rollovers: int | None = None
    pcie_errors: dict[str, int] | None = None
    pcie_sent_bytes_per_second: float | None = None
    pcie_received_bytes_per_second: float | None = None
    mig_pending: bool | None = None
    mig_instances: tuple[MigInstance, ...] = ()
    nvlinks: tuple[NvLink, ...] | None = None
    fabric: Fabric | None = None
    uncorrectable_by_block: dict[str, int] | None = None
    partition_mode: str | None = None

    @property
    def label(self) -> str:
        """`GPU 1 (NVIDIA L40, 0000:02:00.0)`, with what of it is known."""
        maker = MAKERS.get(self.vendor or "", "")
        about = [text for text in (self.name or maker, self.pci_address) if text]
        number = "GPU" if self.index is None else f"GPU {self.index}"
        return f"{number} ({', '.join(about)})" if about else number

    @property
    def is_barred(self) -> bool:
        """Whether NVIDIA's driver tells nothing of the card but why it does not open it."""
        return (
            self.vendor == "nvidia"
            and self.error is not None
            and not self.uuid
            and not self.memory_bytes
        )


class GpuFacts(Struct, frozen=True, kw_only=True):
    """The driver's side.

    `state` is ok, missing, mismatch, failed, unresponsive, lost_devices (a container lost its
    devices) or None (not tried); `message` is the driver's own words. `lost` are addresses that the
    driver names but cannot open, `denied_device` a file that this user may not open.
    `module_version` is the loaded kernel module's, `nvswitches` how many PCI shows,
    `fabric_manager` whether its process runs (None where processes of the host are hidden).
    """

    state: str | None = None
    message: str | None = None
    source: str | None = None
    driver_version: str | None = None
    library_version: str | None = None
    cuda_version: str | None = None
    denied_device: str | None = None
    lost: tuple[str, ...] = ()
    module_version: str | None = None
    confidential_compute: bool | None = None
    nvswitches: int | None = None
    fabric_manager: bool | None = None


class GpuProbe(Struct, frozen=True, kw_only=True):
    """What the gpu probe hands on; a report holds the two as `facts.gpu` and `facts.gpus`."""

    gpu: GpuFacts = GpuFacts()
    gpus: tuple[Gpu, ...] = ()
